// Weights of any format times few rows by matrix fragments (kernels/stream_fragments.h).

#include "gpu/runtime.h"

#include "gpu/kernels/stream_fragments.h"
#include "gpu/kernels/streamed_block.h"
#include "gpu/packed/lists.h"

namespace rocmforge::gpu::RF_KERNELS {

// The outputs of a block: a tile of one of the parts.
struct StreamedTile {
  Planes w;
  float* out;
  const float* bias;
  uint32_t n_out, first;  // of the block
  RF_DEVICE explicit StreamedTile(const StreamFragmentsArgs& args) {
    constexpr uint32_t kOutputs = stream_fragments_outputs(kWave);
    uint32_t tile = block_x();
    w = args.parts[0].w, out = args.parts[0].out, bias = args.parts[0].bias, n_out = args.parts[0].n_out;
    RF_UNROLL
    for (uint32_t p = 1; p < 3; p++) {
      const uint32_t before = (n_out + kOutputs - 1) / kOutputs;
      if (tile < before) break;
      tile -= before;
      w = args.parts[p].w, out = args.parts[p].out, bias = args.parts[p].bias, n_out = args.parts[p].n_out;
    }
    first = tile * kOutputs;
  }
};

// The sums of all slices of this block's tile. Returns whether they are here: in the block that arrives last.
// `word`: shared
template <uint32_t kTiles>
RF_DEVICE bool join_slices(StreamedSums<kTiles>& sums, const StreamFragmentsArgs& args, uint32_t* word) {
  constexpr uint32_t kNumbers = kTiles * Fragment<F16>::kPerLane * kStreamFragmentsThreads;
  uint32_t n_tiles = 0;
  RF_UNROLL
  for (const MatvecPart& part : args.parts) n_tiles += stream_fragments_tiles(part.n_out, kWave);
  const uint64_t tile = static_cast<uint64_t>(block_z()) * n_tiles + block_x();
  float* const first = args.partial + tile * args.n_slices * kNumbers + thread_index();
  float* const mine = first + static_cast<uint64_t>(block_y()) * kNumbers;
  sums.each([&](uint32_t i, float& sum) { mine[i * kStreamFragmentsThreads] = sum; });
  if (!is_last_to_arrive(args.counters + tile, args.n_slices, word)) return false;
  if (thread_index() == 0) args.counters[tile] = 0;
  sums.each([&](uint32_t i, float& sum) { sum = first[i * kStreamFragmentsThreads]; });
  for (uint32_t s = 1; s < args.n_slices; s++) {
    const float* of_slice = first + static_cast<uint64_t>(s) * kNumbers;
    sums.each([&](uint32_t i, float& sum) { sum += of_slice[i * kStreamFragmentsThreads]; });
  }
  return true;
}

template <class Block, uint32_t kTiles>
RF_DEVICE void stream_fragments(const StreamFragmentsArgs& args) {
  using Inputs = StreamedInputs<Block, kTiles>;
  RF_SHARED(Inputs, inputs);
  const StreamedTile tile(args);
  const uint32_t first_row = block_z() * kTiles * kPackedRows;
  InputSource<Block, kTiles> source(args.inputs, args.width, [&](uint32_t line) { return first_row + line; });
  const uint32_t n_rounds = StreamedUnits<Block>::n_rounds(args.width);
  StreamedSums<kTiles> sums;
  sums.add(inputs, source, {tile.w, tile.n_out, tile.first, args.width}, n_rounds * block_y() / args.n_slices,
           n_rounds * (block_y() + 1) / args.n_slices);
  if (args.n_slices > 1) {
    sync_block();  // the word lies among the inputs
    if (!join_slices(sums, args, &inputs[0][0][0][0].v[0])) return;
  }
  sums.each_place([&](uint32_t line, uint32_t n, float sum) {
    const uint32_t row = first_row + line, out = tile.first + n;
    if (row >= args.n_rows || out >= tile.n_out) return;
    tile.out[static_cast<uint64_t>(row) * tile.n_out + out] =
        sum * args.scales[row] + (tile.bias != nullptr ? tile.bias[out] : 0.0f);
  });
}

#define RF_STREAM_FRAGMENTS(name, Block)                                                     \
  RF_KERNEL(stream_fragments_##name##_16, StreamFragmentsArgs, kStreamFragmentsThreads) {    \
    stream_fragments<Block, 1>(args);                                                        \
  }                                                                                          \
  RF_KERNEL(stream_fragments_##name##_32, StreamFragmentsArgs, kStreamFragmentsThreads) {    \
    stream_fragments<Block, 2>(args);                                                        \
  }                                                                                          \
  RF_KERNEL(stream_fragments_##name##_64, StreamFragmentsArgs, kStreamFragmentsThreads, 2) { \
    stream_fragments<Block, 4>(args);                                                        \
  }
RF_INTEGER_FORMATS(RF_STREAM_FRAGMENTS)
RF_HALF_FORMATS(RF_STREAM_FRAGMENTS)

}  // namespace rocmforge::gpu::RF_KERNELS
