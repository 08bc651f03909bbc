// Experts' weights of any format times few rows of each (kernels/stream_experts.h).

#include "gpu/runtime.h"

#include "gpu/kernels/expert_rows.h"
#include "gpu/kernels/stream_experts.h"
#include "gpu/kernels/streamed_block.h"
#include "gpu/packed/lists.h"

namespace rocmforge::gpu::RF_KERNELS {

template <class Block, uint32_t kTiles>
RF_DEVICE void stream_experts(const ExpertsFragmentsArgs& args) {
  using Inputs = StreamedInputs<Block, kTiles>;
  RF_SHARED(Inputs, inputs);
  const ExpertRows rows(args.groups, kTiles * kPackedRows);
  if (rows.n == 0) return;
  const uint32_t of_first = stream_fragments_tiles(args.parts[0].n_out, kWave);
  const ExpertsPart& part = args.parts[block_x() < of_first ? 0 : 1];
  const uint32_t tile = block_x() < of_first ? block_x() : block_x() - of_first;
  const uint32_t first_out = tile * stream_fragments_outputs(kWave);
  const Planes w = planes_of_expert(part.w, part.place, rows.expert);
  const auto pair_of = [&](uint32_t line) { return args.groups.order[rows.first + line]; };
  InputSource<Block, kTiles> source(args.inputs, args.width, [&](uint32_t line) {
    return pair_of(line < rows.n ? line : rows.n - 1) / args.pairs_per_input;  // rows past the last: any
  });
  StreamedSums<kTiles> sums;
  sums.add(inputs, source, {w, part.n_out, first_out, args.width}, 0, StreamedUnits<Block>::n_rounds(args.width));
  sums.each_place([&](uint32_t line, uint32_t n, float sum) {
    const uint32_t out = first_out + n;
    if (line >= rows.n || out >= part.n_out) return;
    const uint32_t pair = pair_of(line);
    const float bias = part.bias != nullptr ? part.bias[static_cast<uint64_t>(rows.expert) * part.n_out + out] : 0.0f;
    part.out[static_cast<uint64_t>(pair) * part.n_out + out] = sum * args.scales[pair / args.pairs_per_input] + bias;
  });
}

#define RF_STREAM_EXPERTS(name, Block)                                            \
  RF_KERNEL(experts_##name##_16, ExpertsFragmentsArgs, kStreamFragmentsThreads) { \
    stream_experts<Block, kStreamExpertRows / kPackedRows>(args);                 \
  }
RF_INTEGER_FORMATS(RF_STREAM_EXPERTS)
RF_HALF_FORMATS(RF_STREAM_EXPERTS)

}  // namespace rocmforge::gpu::RF_KERNELS
