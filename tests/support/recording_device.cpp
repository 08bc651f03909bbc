#include "support/recording_device.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "gpu/dry_device.h"
#include "gpu/kernels/attend.h"
#include "gpu/kernels/attend_rows_hopper.h"
#include "gpu/kernels/attend_tiles.h"
#include "gpu/kernels/candidates.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/kernels/embed.h"
#include "gpu/kernels/experts.h"
#include "gpu/kernels/experts_fragments.h"
#include "gpu/kernels/matmul_f32.h"
#include "gpu/kernels/matmul_hopper.h"
#include "gpu/kernels/matmul_panels.h"
#include "gpu/kernels/matvec.h"
#include "gpu/kernels/norm.h"
#include "gpu/kernels/quantize.h"
#include "gpu/kernels/rare_steps.h"
#include "gpu/kernels/recurrent.h"
#include "gpu/kernels/repack.h"
#include "gpu/kernels/rope.h"
#include "gpu/kernels/route.h"
#include "gpu/kernels/stream_fragments.h"
#include "gpu/kernels/stream_rows_hopper.h"
#include "gpu/kernels/take_batch.h"
#include "gpu/kernels/texts.h"
#include "gpu/kernels/tiles.h"

namespace rocmforge::gpu {

struct GpuGraph {
  size_t number;
};

}  // namespace rocmforge::gpu

namespace rocmforge::testing {
namespace {

using namespace gpu;

Recording recording;
std::map<void*, size_t> pinned;
std::map<GpuDevice*, size_t> n_graphs;
const GpuApi* dry = nullptr;

// Which bytes of a kernel's arguments mean nothing.
using Mask = std::vector<std::byte>;
template <class Args>
Mask mask_of() {
  alignas(Args) std::byte bytes[sizeof(Args)];
  std::memset(bytes, 0xFF, sizeof bytes);
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(reinterpret_cast<Args*>(bytes));
#endif
  return {bytes, bytes + sizeof bytes};
}
// g++ 12 leaves some bytes of structs within structs: one behind each bool, and the end of ManyOrders.
static_assert(offsetof(ManyOrders, place_bytes) + sizeof(ManyOrders::place_bytes) + 4 == sizeof(ManyOrders));
void forget_ends(Mask& mask, size_t orders_at) {
  std::fill_n(mask.begin() + static_cast<ptrdiff_t>(orders_at + sizeof(ManyOrders)) - 4, 4, std::byte{});
}
void forget_in_rows(Mask& mask, size_t rows_args_at) {
  forget_ends(mask, rows_args_at + offsetof(RowsArgs, next) + offsetof(RowsNext, to));
  const size_t turn_at = rows_args_at + offsetof(RowsArgs, turn);
  for (const size_t at : {offsetof(RowsTurn, caches_halves), offsetof(RowsTurn, are_halves)}) {
    std::fill_n(mask.begin() + static_cast<ptrdiff_t>(turn_at + at) + 1, 3, std::byte{});
  }
}
Mask mask_of_rows() {
  Mask mask = mask_of<RowsArgs>();
  forget_in_rows(mask, 0);
  return mask;
}
Mask mask_of_inputs() {
  Mask mask = mask_of<ManyInputsArgs>();
  forget_ends(mask, offsetof(ManyInputsArgs, to));
  return mask;
}
Mask mask_of_rows_pair() {
  Mask mask = mask_of<RowsPairArgs>();
  forget_in_rows(mask, offsetof(RowsPairArgs, first));
  forget_in_rows(mask, offsetof(RowsPairArgs, second));
  return mask;
}

struct Arguments {
  std::string_view file, name;  // name: what it begins with
  Mask mask;
};

const std::vector<Arguments>& all_arguments() {
  static const std::vector<Arguments> all = {
      {"attend", "store_kv", mask_of<StoreKvArgs>()},
      {"attend", "attend", mask_of<AttendArgs>()},
      {"attend_any", "", mask_of<AttendArgs>()},
      {"attend_matrix", "", mask_of<AttendArgs>()},
      {"attend_hopper", "", mask_of<AttendTilesArgs>()},
      {"attend_tiles", "", mask_of<AttendTilesArgs>()},
      {"attend_rows_hopper", "", mask_of<AttendRowsArgs>()},
      {"candidates", "allowed", mask_of<AllowedCandidatesArgs>()},
      {"candidates", "", mask_of<CandidatesArgs>()},
      {"convolve", "", mask_of<ConvolveArgs>()},
      {"delta_rule", "", mask_of<DeltaRuleArgs>()},
      {"elementwise", "take_rows", mask_of<TakeRowsArgs>()},
      {"elementwise", "", mask_of<ElementArgs>()},
      {"embed", "", mask_of<EmbedArgs>()},
      {"experts", "group", mask_of<GroupExpertsArgs>()},
      {"experts", "combine", mask_of<CombineExpertsArgs>()},
      {"experts_fragments", "", mask_of<ExpertsFragmentsArgs>()},
      {"stream_experts", "", mask_of<ExpertsFragmentsArgs>()},
      {"experts_hopper", "", mask_of<HopperExpertsArgs>()},
      {"matmul_f32", "", mask_of<MatmulF32Args>()},
      {"matmul_fragments", "", mask_of<MatmulPanelsArgs>()},
      {"matmul_panels", "", mask_of<MatmulPanelsArgs>()},
      {"matmul_hopper", "", mask_of<HopperMatmulArgs>()},
      {"matvec", "", mask_of<MatvecArgs>()},
      {"matvec_float", "", mask_of<MatvecArgs>()},
      {"norm", "", mask_of<NormArgs>()},
      {"panels", "panels", mask_of<PanelsArgs>()},
      {"panels", "weight_panels", mask_of<WeightPanelsArgs>()},
      {"quantize", "", mask_of<QuantizeArgs>()},
      {"rare_steps", "clamped", mask_of<RareActivateArgs>()},
      {"rare_steps", "clamp", mask_of<ClampArgs>()},
      {"rare_steps", "gate", mask_of<GateArgs>()},
      {"rare_steps", "temper", mask_of<TemperArgs>()},
      {"rare_steps", "scale_by", mask_of<ScaleByArgs>()},
      {"rare_steps", "take_columns", mask_of<TakeColumnsArgs>()},
      {"rare_steps", "weigh", mask_of<WeighArgs>()},
      {"rare_steps", "scale_columns", mask_of<ScaleColumnsArgs>()},
      {"rare_steps", "mix_streams", mask_of<MixStreamsArgs>()},
      {"rare_steps", "match_length", mask_of<MatchLengthArgs>()},
      {"rare_steps", "cut_row", mask_of<CutRowArgs>()},
      {"rare_steps", "forget_weights", mask_of<WeighArgs>()},
      {"rare_steps", "", mask_of<RareActivateArgs>()},
      {"repack", "", mask_of<RepackArgs>()},
      {"rope", "rope_store", mask_of<RopeStoreArgs>()},
      {"rope", "rope", mask_of<RopeArgs>()},
      {"rope", "row_rotations", mask_of<RowRotationsArgs>()},
      {"route", "", mask_of<RouteArgs>()},
      {"scan", "", mask_of<ScanArgs>()},
      {"stream_fragments", "", mask_of<StreamFragmentsArgs>()},
      {"stream_hopper", "", mask_of<StreamArgs>()},
      {"stream_hopper", "", mask_of<StreamPairArgs>()},
      {"stream_float_hopper", "", mask_of<StreamArgs>()},
      {"stream_many_hopper", "", mask_of<StreamArgs>()},
      {"stream_many_hopper", "", mask_of<StreamPairArgs>()},
      {"stream_many_inputs", "", mask_of_inputs()},
      {"stream_rows_hopper", "", mask_of_rows()},
      {"stream_rows_hopper", "", mask_of_rows_pair()},
      {"take_batch", "", mask_of<TakeBatchArgs>()},
      {"target", "", mask_of<TargetArgs>()},
      {"texts", "attend", mask_of<AttendTextsArgs>()},
      {"texts", "pool", mask_of<PoolTextsArgs>()},
      {"texts", "add", mask_of<AddVectorArgs>()},
      {"tiles", "", mask_of<TilesArgs>()},
  };
  return all;
}

const Mask& find_mask(const DryLaunch& launch) {
  for (const Arguments& one : all_arguments()) {
    if (one.file == launch.file && launch.kernel.starts_with(one.name) && one.mask.size() == launch.args.size()) {
      return one.mask;
    }
  }
  RF_UNREACHABLE("a kernel whose arguments are not in the list");
}

GpuStatus ok() {
  return GpuStatus::ok;
}

// At addresses that are the same in every process: kernels take some of them.
GpuStatus allocate_host(GpuDevice*, size_t n_bytes, void** out) {
  uint64_t at = uint64_t{3} << 44;
  for (const auto& [address, n] : pinned) {
    if (reinterpret_cast<uint64_t>(address) == at) at += uint64_t{1} << 32;
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  void* made = mmap(reinterpret_cast<void*>(at), n_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (made == MAP_FAILED) return GpuStatus::out_of_memory;
  pinned.emplace(made, n_bytes);
  *out = made;
  return ok();
}

GpuStatus release_host(GpuDevice*, void* memory) {
  munmap(memory, pinned.at(memory));
  pinned.erase(memory);
  return ok();
}

void record(const DryLaunch& launch) {
  const Mask& mask = find_mask(launch);
  const LaunchShape& shape = launch.shape;
  std::string line = fmt::format("{} grid {} {} {} {} threads {} shared {}{}:", launch.kernel, shape.grid.x,
                                 shape.grid.y, shape.grid.z, shape.grid.cluster, shape.n_threads, shape.shared_bytes,
                                 shape.overlaps ? " overlaps" : "");
  for (size_t at = 0; at < launch.args.size(); at += 8) {
    uint64_t word = 0;
    for (size_t i = std::min<size_t>(8, launch.args.size() - at); i-- > 0;) {
      word = word << 8 | std::to_integer<uint64_t>(launch.args[at + i] & mask[at + i]);
    }
    line += fmt::format(" {:x}", word);
  }
  recording.lines.push_back(std::move(line));
}

GpuStatus end_capture(GpuDevice* device, GpuStream*, GpuGraph** out) {
  *out = new GpuGraph{n_graphs[device]++};
  recording.lines.push_back(fmt::format("graph {} ends", (*out)->number));
  return ok();
}

GpuApi recording_table() {
  GpuApi api = *dry;
  api.module = "recording";
  api.close = [](GpuDevice* device) {
    n_graphs.erase(device);
    dry->close(device);
  };
  api.allocate_host = allocate_host;
  api.release_host = release_host;
  api.begin_capture = [](GpuDevice*, GpuStream*) {
    recording.lines.emplace_back("graph begins");
    return ok();
  };
  api.end_capture = end_capture;
  api.launch_graph = [](GpuDevice*, GpuGraph* graph, GpuStream*) {
    recording.lines.push_back(fmt::format("graph {} is launched", graph->number));
    return ok();
  };
  api.drop_graph = [](GpuDevice*, GpuGraph* graph) { delete graph; };
  return api;
}

}  // namespace

size_t Recording::n_launches() const {
  return std::ranges::count_if(lines, [](const std::string& line) { return !line.starts_with("graph "); });
}

// FNV-1a.
uint64_t Recording::hash() const {
  uint64_t out = 0xcbf29ce484222325;
  for (const char c : text()) out = (out ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return out;
}

std::string Recording::text() const {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

const GpuApi& recording_api(const Target& target) {
  dry = &dry_api({"recording", target, record});
  static const GpuApi kApi = recording_table();
  return kApi;
}

Recording take_recording() {
  return std::exchange(recording, {});
}

}  // namespace rocmforge::testing
