#include "gpu/self_test.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <utility>

#include "base/check.h"
#include "gpu/kernels/matmul_fragments.h"
#include "gpu/kernels/matvec.h"
#include "gpu/kernels/norm.h"
#include "gpu/kernels/quantize.h"
#include "gpu/kernels/repack.h"
#include "gpu/kernels/self_test.h"
#include "gpu/kernels/stream_fragments.h"
#include "gpu/self_test_bench.h"
#include "tensor/codec.h"
#include "tensor/half.h"

namespace rocmforge::gpu {
namespace {

using Bench = SelfTestBench;

// Integers that a product of 32 of them, and their quantization to 8 bits, keep exactly. One of each 32 is the largest.
std::vector<float> integers(size_t n, uint32_t seed) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    out[i] = i % 32 == 0 ? 127.0f : static_cast<float>(static_cast<int>(seed >> 24) - 128) * 0.5f;
    out[i] = std::trunc(out[i]);
  }
  return out;
}

// Every element of both operands differs from all others, so that an element at a wrong place shows.
Result<void> try_fragments(Bench& bench, const char* kernel, uint16_t (*bits)(float)) {
  std::vector<float> a(256), b(256), expected(256);
  for (size_t i = 0; i < 256; i++) {
    a[i] = static_cast<float>(i);
    b[i] = static_cast<float>((i * 167 + 13) % 256);  // a permutation: exact in bf16, too
  }
  for (size_t m = 0; m < 16; m++) {
    for (size_t n = 0; n < 16; n++) {
      for (size_t k = 0; k < 16; k++) expected[m * 16 + n] += a[m * 16 + k] * b[n * 16 + k];
    }
  }
  std::vector<uint16_t> a_bits(256), b_bits(256);
  std::ranges::transform(a, a_bits.begin(), bits);
  std::ranges::transform(b, b_bits.begin(), bits);
  float* out = TRY(bench.zeros<float>(256));
  const TryFragmentsArgs args{out, TRY(bench.put<uint16_t>(a_bits)), TRY(bench.put<uint16_t>(b_bits))};
  TRY(bench.run("target", kernel, Grid{}, kTryFragmentsThreads, args));
  return bench.compare(TRY(bench.read(out, 256)), expected, 0.0f, 16);  // sums below 2^24: exact
}

Result<void> fragments(Bench& bench) {
  TRY(try_fragments(bench, "try_fragments_f16", [](float v) { return to_f16(v).bits; }));
  return try_fragments(bench, "try_fragments_bf16", [](float v) { return to_bf16(v).bits; });
}

Result<void> meeting(Bench& bench) {
  constexpr uint32_t kBlocks = 1000;
  MeetArgs args{};
  args.sums = TRY(bench.zeros<uint32_t>(kMeetThreads));
  args.numbers = TRY(bench.zeros<uint32_t>(size_t{kBlocks} * kMeetThreads));
  args.counter = TRY(bench.zeros<uint32_t>(1));
  args.n_blocks = kBlocks;
  TRY(bench.run("target", "meet", Grid{kBlocks}, kMeetThreads, args));
  const auto sums = TRY(bench.read(args.sums, kMeetThreads));
  for (uint32_t t = 0; t < kMeetThreads; t++) {
    uint32_t expected = 0;
    for (uint32_t b = 0; b < kBlocks; b++) expected += meet_number(b, t);
    if (sums[t] != expected) {
      return bench.wrong(
          fmt::format("thread {}: the last of {} blocks saw {} instead of {}", t, kBlocks, sums[t], expected));
    }
  }
  return {};
}

// A weight in a format, on the device and as the CPU decodes it.
struct Weight {
  Planes planes{};
  std::vector<float> values;
};
Result<Weight> put_weight(Bench& bench, DType dtype, uint32_t n_rows, uint32_t width) {
  const DTypeInfo& info = dtype_info(dtype);
  const size_t n_blocks = size_t{n_rows} * width / info.block_elements;
  std::vector<std::byte> blocks(n_blocks * info.block_bytes);
  ThreadPool pool(1);
  TRY(encode(blocks, dtype, integers(size_t{n_rows} * width, 1), width, pool));
  Weight out;
  out.values.resize(size_t{n_rows} * width);
  decode(out.values, dtype, blocks);
  const PlaneTable table = plane_table(dtype);
  const PlaneOffsets offsets = plane_offsets(table, n_blocks);
  auto* memory = TRY(bench.zeros<uint8_t>(offsets.total_bytes));
  RepackArgs args{};
  args.blocks = reinterpret_cast<const uint8_t*>(TRY(bench.put<std::byte>(blocks)));
  args.table = table;
  args.n_blocks = n_blocks;
  for (uint32_t p = 0; p < table.n_planes; p++) out.planes.at[p] = args.planes[p] = memory + offsets.at[p];
  TRY(bench.run("repack", "repack", repack_grid(n_blocks), kRepackThreads, args));
  return out;
}

constexpr uint32_t kOutputs = 70, kWidth = 512;

std::vector<float> product_of(const Weight& w, std::span<const float> x, uint32_t n_rows) {
  std::vector<float> out;
  for (uint32_t r = 0; r < n_rows; r++) {
    for (uint32_t o = 0; o < kOutputs; o++) {
      double sum = 0;
      for (uint32_t i = 0; i < kWidth; i++) sum += double{w.values[o * kWidth + i]} * x[r * kWidth + i];
      out.push_back(static_cast<float>(sum));
    }
  }
  return out;
}

Result<void> few_rows(Bench& bench, DType dtype, uint32_t n_rows) {
  const Weight w = TRY(put_weight(bench, dtype, kOutputs, kWidth));
  const std::vector<float> x = integers(size_t{n_rows} * kWidth, 2);
  MatvecArgs args{};
  auto* q = TRY(bench.zeros<int8_t>(x.size()));
  auto* scales = TRY(bench.zeros<ActivationScale>(x.size() / 32));
  args.x = TRY(bench.put<float>(x));
  TRY(bench.run("quantize", "quantize", quantize_grid(kWidth, n_rows), kQuantizeThreads,
                QuantizeArgs{q, scales, args.x, kWidth}));
  args.w = w.planes;
  args.out = TRY(bench.zeros<float>(size_t{n_rows} * kOutputs));
  args.q = q;
  args.scales = scales;
  args.pairs_per_input = args.n_summed = 1;
  args.n_out = kOutputs;
  args.n_rows = n_rows;
  args.width = kWidth;
  const std::string kernel = fmt::format("matvec_{}_{}", dtype_info(dtype).name, n_rows);
  TRY(bench.run("matvec", kernel.c_str(), matvec_grid(kOutputs, n_rows, n_rows, bench.device().wave()), kMatvecThreads,
                args));
  return bench.compare(TRY(bench.read(args.out, size_t{n_rows} * kOutputs)), product_of(w, x, n_rows), 1e-5f, kOutputs);
}

constexpr DType kTriedFormats[] = {DType::q4_0, DType::q8_0, DType::q4_k, DType::q5_k, DType::q6_k};

Result<void> one_row(Bench& bench) {
  for (const DType dtype : kTriedFormats) TRY(few_rows(bench, dtype, 1));
  return {};
}
Result<void> eight_rows(Bench& bench) {
  for (const DType dtype : kTriedFormats) TRY(few_rows(bench, dtype, kMatvecMaxRows));
  return {};
}

// By fragments with weights that are decoded in registers; two slices of the width.
Result<void> streamed(Bench& bench) {
  constexpr uint32_t kRows = 20, kSlices = 2;
  const uint32_t wave = bench.device().wave(), n_tiles = stream_fragments_tiles(kOutputs, wave);
  const std::vector<float> x = integers(size_t{kRows} * kWidth, 3);
  StreamFragmentsArgs args{};
  auto* panels = TRY(bench.zeros<uint8_t>(size_t{padded_to(kRows, kInputPanelRows)} * kWidth * 2));
  auto* scales = TRY(bench.zeros<float>(kRows));
  const PanelsArgs inputs{panels, scales, TRY(bench.put(x)), kRows, kWidth, PanelOrder::tiles_by_column};
  TRY(bench.run("panels", "panels", panels_grid(inputs), kPanelsThreads, inputs));
  args.inputs = panels;
  args.scales = scales;
  args.n_rows = kRows;
  args.width = kWidth;
  args.n_slices = kSlices;
  args.partial = TRY(bench.zeros<float>(stream_fragments_partial(n_tiles, kSlices, kRows, wave)));
  args.counters = TRY(bench.zeros<uint32_t>(n_tiles));
  for (const DType dtype : kTriedFormats) {
    const Weight w = TRY(put_weight(bench, dtype, kOutputs, kWidth));
    args.parts[0] = {w.planes, TRY(bench.zeros<float>(size_t{kRows} * kOutputs)), nullptr, kOutputs};
    const std::string kernel =
        fmt::format("stream_fragments_{}_{}", dtype_info(dtype).name, stream_fragments_rows(kRows));
    TRY(bench.run("stream_fragments", kernel.c_str(), stream_fragments_grid(n_tiles, kSlices, kRows),
                  kStreamFragmentsThreads, args));
    TRY(bench.compare(TRY(bench.read(args.parts[0].out, size_t{kRows} * kOutputs)), product_of(w, x, kRows), 1e-3f,
                      kOutputs));
  }
  return {};
}

// By panels of packed tiles.
Result<void> many_rows(Bench& bench) {
  constexpr uint32_t kRows = 67;
  const PanelOrder order = panel_order(bench.device().tile_order());
  const std::vector<float> x = integers(size_t{kRows} * kWidth, 3);
  const uint32_t padded_rows = padded_to(kRows, matmul_fragments_rows(kRows));
  const PanelsArgs inputs{TRY(bench.zeros<uint8_t>(size_t{padded_rows} * kWidth * 2)),
                          TRY(bench.zeros<float>(kRows)),
                          TRY(bench.put<float>(x)),
                          kRows,
                          kWidth,
                          order};
  TRY(bench.run("panels", "panels", panels_grid(inputs), kPanelsThreads, inputs));
  for (const DType dtype : kTriedFormats) {
    const Weight w = TRY(put_weight(bench, dtype, kOutputs, kWidth));
    const WeightPanelsArgs weights{
        TRY(bench.zeros<uint8_t>(size_t{kWeightPanelRows} * kWidth * 2)), w.planes, 0, kOutputs, kWidth, order};
    const std::string kernel = fmt::format("weight_panels_{}", dtype_info(dtype).name);
    TRY(bench.run("panels", kernel.c_str(), weight_panels_grid(weights, kOutputs), kPanelsThreads, weights));
    auto* out = TRY(bench.zeros<float>(size_t{kRows} * kOutputs));
    MatmulPanelsArgs args{weights.panels, inputs.panels, inputs.scales, kRows, kWidth, 1, {}};
    args.parts[0] = {out, nullptr, kOutputs, 0, kOutputs};
    TRY(bench.run("matmul_fragments", "matmul_fragments_128", matmul_fragments_grid(1, kRows), kMatmulFragmentsThreads,
                  args));
    TRY(bench.compare(TRY(bench.read(out, size_t{kRows} * kOutputs)), product_of(w, x, kRows), 1e-3f, kOutputs));
  }
  return {};
}

struct Normed {
  NormArgs args{};
  std::vector<float> expected;
};
Result<Normed> prepare_norm(Bench& bench) {
  const std::vector<float> x = integers(size_t{2} * kWidth, 4);
  Normed out;
  out.args.out = TRY(bench.zeros<float>(x.size()));
  out.args.in = TRY(bench.put<float>(x));
  out.args.group = kWidth;
  out.args.n_groups = 1;
  out.args.epsilon = 1e-5f;
  for (size_t row = 0; row < 2; row++) {
    double squares = 0;
    for (size_t i = 0; i < kWidth; i++) squares += double{x[row * kWidth + i]} * x[row * kWidth + i];
    const double scale = 1 / std::sqrt(squares / kWidth + 1e-5);
    for (size_t i = 0; i < kWidth; i++) out.expected.push_back(static_cast<float>(x[row * kWidth + i] * scale));
  }
  return out;
}

Result<void> norm(Bench& bench) {
  const Normed normed = TRY(prepare_norm(bench));
  TRY(bench.run("norm", "rms_norm", norm_grid(2, 1), kNormThreads, normed.args));
  return bench.compare(TRY(bench.read(normed.args.out, normed.expected.size())), normed.expected, 1e-5f, kWidth);
}

// Recorded, then replayed over a cleared output.
Result<void> graph(Bench& bench) {
  const Normed normed = TRY(prepare_norm(bench));
  TRY(bench.run("norm", "rms_norm", norm_grid(2, 1), kNormThreads, normed.args));  // its code is loaded now
  TRY(bench.stream().begin_capture());
  const auto put = bench.run("norm", "rms_norm", norm_grid(2, 1), kNormThreads, normed.args);
  const auto recorded = bench.stream().end_capture();
  TRY(put);
  if (!recorded.ok()) return recorded.error();
  TRY(bench.stream().fill(normed.args.out, 0, normed.expected.size() * sizeof(float)));
  TRY(bench.stream().launch(*recorded));
  return bench.compare(TRY(bench.read(normed.args.out, normed.expected.size())), normed.expected, 1e-5f, kWidth);
}

struct Family {
  const char* name;
  Loss loss;
  Result<void> (*run)(Bench& bench);
};
constexpr Family kFamilies[] = {
    {"matrix fragments", Loss::fragments, fragments},
    {"meetings of blocks", Loss::device, meeting},
    {"products of one row", Loss::device, one_row},
    {"products of eight rows", Loss::device, eight_rows},
    {"products of streamed weights", Loss::fragments, streamed},
    {"products of many rows", Loss::fragments, many_rows},
    {"norms", Loss::device, norm},
    {"attention row by row", Loss::device, try_attention_by_row},
    {"attention by matrix instructions", Loss::fragments, try_attention_by_matrix},
    {"recorded passes", Loss::graphs, graph},
};

SelfTestResult run_family(const Device& device, SelfTestArena& arena, const Family& family) {
  arena.clear();
  SelfTestResult out{family.name, family.loss, ""};
  const auto fail = [&](const Error& error, bool was_wrong) {
    out.fault = error.message;
    if (!was_wrong) out.not_run = error.code;
  };
  auto bench = Bench::make(device, arena);
  if (!bench.ok()) {
    fail(bench.error(), false);
    return out;
  }
  const auto done = family.run(*bench);
  if (done.ok()) return out;
  static_cast<void>(bench->stream().finish().ok());  // work under way must not find its memory gone
  fail(done.error(), bench->was_wrong());
  return out;
}

}  // namespace

Result<SelfTestArena::Space> SelfTestArena::take(size_t n_bytes) {
  constexpr size_t kAlignment = 256;
  n_bytes = (n_bytes + kAlignment - 1) / kAlignment * kAlignment;
  CHECK(n_bytes <= kPieceBytes);
  if (n_full_ < pieces_.size() && n_used_ + n_bytes > kPieceBytes) {
    n_full_++;
    n_used_ = 0;
  }
  if (n_full_ == pieces_.size()) {
    Memory on_device = TRY(Memory::allocate(*device_, Memory::Kind::device, kPieceBytes));
    Memory pinned = TRY(Memory::allocate(*device_, Memory::Kind::pinned, kPieceBytes));
    pieces_.push_back({std::move(on_device), std::move(pinned)});
  }
  const Piece& piece = pieces_[n_full_];
  const Space out{piece.on_device.data() + n_used_, piece.pinned.data() + n_used_};
  n_used_ += n_bytes;
  return out;
}

Result<void> SelfTestBench::compare(std::span<const float> got, std::span<const float> expected, float tolerance,
                                    size_t width) {
  float largest = 0;
  for (const float v : expected) largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < expected.size(); i++) {
    if (std::fabs(got[i] - expected[i]) <= tolerance * largest) continue;  // false for a NaN
    return wrong(fmt::format("row {}, column {}: {} instead of {}", i / width, i % width, got[i], expected[i]));
  }
  return {};
}

bool SelfTestReport::has_passed() const {
  return std::ranges::all_of(results, [](const SelfTestResult& r) { return r.fault.empty(); });
}

bool SelfTestReport::was_run() const {
  return std::ranges::none_of(results, [](const SelfTestResult& r) { return r.not_run.has_value(); });
}

const SelfTestResult* SelfTestReport::first_fault(Loss loss) const {
  const auto at = std::ranges::find_if(results, [&](const auto& r) { return r.loss == loss && !r.fault.empty(); });
  return at == results.end() ? nullptr : &*at;
}

std::vector<SelfTestResult> self_test_families() {
  std::vector<SelfTestResult> out;
  for (const Family& family : kFamilies) out.push_back({family.name, family.loss, ""});
  return out;
}

std::string SelfTestReport::faults() const {
  std::string out;
  for (const SelfTestResult& r : results) {
    if (!r.fault.empty()) out += fmt::format("{}{}: {}", out.empty() ? "" : "; ", r.family, r.fault);
  }
  return out;
}

SelfTestReport run_self_test(const Device& device) {
  const auto begin = std::chrono::steady_clock::now();
  SelfTestReport out;
  SelfTestArena arena(device);
  for (const Family& family : kFamilies) out.results.push_back(run_family(device, arena, family));
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

}  // namespace rocmforge::gpu
