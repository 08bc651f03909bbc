// Products of grouped rows by matrix fragments (kernels/experts_fragments.h). A block gathers its rows' chunks from the
// panels of the inputs and decodes 128 outputs of one expert into packed tiles, both a step ahead of their use.

#include "gpu/runtime.h"

#include "gpu/kernels/expert_rows.h"
#include "gpu/kernels/experts_fragments.h"
#include "gpu/kernels/fragment_block.h"
#include "gpu/packed/halves.h"
#include "gpu/packed/lists.h"

namespace rocmforge::gpu::RF_KERNELS {

using ExpertBlock = FragmentBlock<kExpertFragmentRows>;
static_assert(kExpertFragmentThreads == kFragmentThreads);

// A thread copies one chunk of the inputs in each step: chunk t % 4 of row t / 4.
struct ExpertInputs {
  static_assert(kExpertFragmentRows * 4 == kFragmentThreads);
  const uint8_t* from;

  RF_DEVICE ExpertInputs(const ExpertsFragmentsArgs& args, const ExpertRows& rows) {
    const uint32_t line = thread_index() / 4 < rows.n ? thread_index() / 4 : rows.n - 1;  // rows past the last: any
    const uint32_t row = args.groups.order[rows.first + line] / args.pairs_per_input;
    const uint64_t tile = static_cast<uint64_t>(row / kPackedRows) * (args.width / kPackedColumns);
    const uint32_t chunk = chunk_of(TileOrder::by_row, row % kPackedRows, thread_index() % 4);
    from = args.inputs + tile * kPackedBytes + chunk * sizeof(Word4);
  }
  RF_DEVICE static Word4* place(ExpertBlock::Step& tiles) {
    const uint32_t row = thread_index() / 4;
    return &tiles[row / kPackedRows][chunk_of(Fragment<F16>::kOrder, row % kPackedRows, thread_index() % 4)];
  }
};

// A thread decodes sixteen columns of one output in each step.
template <class Block>
struct ExpertWeights {
  static_assert(kWeightPanelRows * 2 == kFragmentThreads);
  using H = Halves<Block>;
  Planes w;
  uint64_t first;  // of its groups of sixteen

  RF_DEVICE ExpertWeights(const Planes& planes, uint32_t output, uint32_t width)
      : w(planes), first(static_cast<uint64_t>(output) * (width / 16) + thread_index() % 2) {}
  RF_DEVICE typename H::Raw load(uint32_t step) const { return H::load(w, first + 2 * step); }
  RF_DEVICE void put(ExpertBlock::Step& tiles, const typename H::Raw& raw, uint32_t step) const {
    Word4 halves[2];
    H::decode(halves, raw, first + 2 * step);
    const uint32_t row = thread_index() / 2, chunk = thread_index() % 2 * 2;
    auto& tile = tiles[ExpertBlock::kInputTiles + row / kPackedRows];
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
      tile[chunk_of(Fragment<F16>::kOrder, row % kPackedRows, chunk + i)] = halves[i];
    }
  }
};

template <class Block>
RF_DEVICE void experts_fragments(const ExpertsFragmentsArgs& args) {
  RF_SHARED(typename ExpertBlock::Shared, tiles);
  const ExpertRows rows(args.groups, kExpertFragmentRows);
  if (rows.n == 0) return;
  const uint32_t of_first = (args.parts[0].n_out + kWeightPanelRows - 1) / kWeightPanelRows;
  const ExpertsPart& part = args.parts[block_x() < of_first ? 0 : 1];
  const uint32_t first_out = (block_x() < of_first ? block_x() : block_x() - of_first) * kWeightPanelRows;
  const uint32_t output = first_out + thread_index() / 2;  // that this thread decodes; past the last: any
  const ExpertWeights<Block> weights(planes_of_expert(part.w, part.place, rows.expert),
                                     output < part.n_out ? output : part.n_out - 1, args.width);
  const ExpertInputs inputs(args, rows);
  CopyAhead<1> copy;
  const uint32_t n_steps = args.width / kPackedColumns;
  const auto begin = [&](uint32_t step) {
    if (step < n_steps) copy.begin(0, ExpertInputs::place(tiles.at(step)), inputs.from + step * kPackedBytes);
    copy.commit();
  };
  RF_UNROLL
  for (uint32_t step = 0; step + 1 < kCopyBuffers; step++) begin(step);
  auto raw = weights.load(0);
  ExpertBlock block;
  for (uint32_t step = 0; step < n_steps; step++) {
    copy.wait();
    copy.land(0, ExpertInputs::place(tiles.at(step)));
    weights.put(tiles.at(step), raw, step);
    sync_shared();
    begin(step + kCopyBuffers - 1);
    raw = weights.load(step + 1 < n_steps ? step + 1 : step);
    block.add(tiles.at(step));
  }
  block.each([&](uint32_t line, uint32_t n, float sum) {
    const uint32_t out = first_out + n;
    if (line >= rows.n || out >= part.n_out) return;
    const uint32_t pair = args.groups.order[rows.first + line];
    const float bias = part.bias != nullptr ? part.bias[static_cast<uint64_t>(rows.expert) * part.n_out + out] : 0.0f;
    part.out[static_cast<uint64_t>(pair) * part.n_out + out] = sum * args.scales[pair / args.pairs_per_input] + bias;
  });
}

#define RF_EXPERTS_FRAGMENTS(name, Block)                                         \
  RF_KERNEL(experts_##name##_64, ExpertsFragmentsArgs, kExpertFragmentThreads) { \
    experts_fragments<Block>(args);                                               \
  }
RF_INTEGER_FORMATS(RF_EXPERTS_FRAGMENTS)
RF_HALF_FORMATS(RF_EXPERTS_FRAGMENTS)

}  // namespace rocmforge::gpu::RF_KERNELS
