// Panels of weights times panels of activations, by matrix fragments (kernels/matmul_fragments.h). The tiles of a step
// are copied to shared memory while those of the step before are multiplied.

#include "gpu/runtime.h"

#include "gpu/kernels/fragment_block.h"
#include "gpu/kernels/matmul_fragments.h"

namespace rocmforge::gpu::RF_KERNELS {

static_assert(kMatmulFragmentsThreads == kFragmentThreads);

// The tiles that a block reads. Thread t copies chunk t % 64 of every fourth tile.
template <uint32_t kRows>
struct PanelSource {
  using Block = FragmentBlock<kRows>;
  static constexpr uint32_t kAtOnce = kFragmentThreads / kPackedChunks;
  static constexpr uint32_t kWords = (Block::kInputTiles + Block::kWeightTiles) / kAtOnce;
  const uint8_t *inputs, *weights;  // this thread's chunk of its first tiles
  uint64_t next;                    // bytes to its next ones

  RF_DEVICE explicit PanelSource(const MatmulPanelsArgs& args) {
    const uint64_t row_bytes = static_cast<uint64_t>(args.width / kPackedColumns) * kPackedBytes;  // of kPackedRows rows
    const uint32_t tile = thread_index() / kPackedChunks, chunk = thread_index() % kPackedChunks;
    inputs = args.inputs + (block_x() * Block::kInputTiles + tile) * row_bytes + chunk * sizeof(Word4);
    weights = args.weights + (block_y() * Block::kWeightTiles + tile) * row_bytes + chunk * sizeof(Word4);
    next = kAtOnce * row_bytes;
  }

  RF_DEVICE static Word4* place(typename Block::Step& tiles, uint32_t i) {
    return &tiles[i * kAtOnce + thread_index() / kPackedChunks][thread_index() % kPackedChunks];
  }
  RF_DEVICE void begin(CopyAhead<kWords>& copy, typename Block::Step& tiles, uint32_t step) const {
    constexpr uint32_t kOfInputs = Block::kInputTiles / kAtOnce;
    RF_UNROLL
    for (uint32_t i = 0; i < kWords; i++) {
      const uint8_t* from = i < kOfInputs ? inputs + i * next : weights + (i - kOfInputs) * next;
      copy.begin(i, place(tiles, i), from + static_cast<uint64_t>(step) * kPackedBytes);
    }
  }
  RF_DEVICE static void land(CopyAhead<kWords>& copy, typename Block::Step& tiles) {
    copy.wait();
    RF_UNROLL
    for (uint32_t i = 0; i < kWords; i++) copy.land(i, place(tiles, i));
  }
};

template <uint32_t kRows>
RF_DEVICE void matmul_fragments(const MatmulPanelsArgs& args) {
  using Block = FragmentBlock<kRows>;
  using Source = PanelSource<kRows>;
  RF_SHARED(typename Block::Shared, tiles);
  const Source source(args);
  CopyAhead<Source::kWords> copy;
  const uint32_t n_steps = args.width / kPackedColumns;
  const auto begin = [&](uint32_t step) {
    if (step < n_steps) source.begin(copy, tiles.at(step), step);
    copy.commit();
  };
  RF_UNROLL
  for (uint32_t step = 0; step + 1 < kCopyBuffers; step++) begin(step);
  Block block;
  for (uint32_t step = 0; step < n_steps; step++) {
    Source::land(copy, tiles.at(step));
    sync_shared();
    begin(step + kCopyBuffers - 1);
    block.add(tiles.at(step));
  }

  uint32_t set = block_y(), p = 0;
  const auto n_sets = [&] { return (args.parts[p].n + kWeightPanelRows - 1) / kWeightPanelRows; };
  while (set >= n_sets()) set -= n_sets(), p++;
  const PanelsPart& part = args.parts[p];
  block.each([&](uint32_t in_block, uint32_t output, float sum) {
    const uint32_t row = block_x() * kRows + in_block, n = set * kWeightPanelRows + output;
    if (row >= args.n_rows || n >= part.n) return;
    const uint32_t out = part.first_out + n;
    part.out[static_cast<uint64_t>(row) * part.n_out + out] =
        sum * args.scales[row] + (part.bias != nullptr ? part.bias[out] : 0.0f);
  });
}

RF_KERNEL(matmul_fragments_64, MatmulPanelsArgs, kMatmulFragmentsThreads) {
  matmul_fragments<64>(args);
}
RF_KERNEL(matmul_fragments_128, MatmulPanelsArgs, kMatmulFragmentsThreads) {
  matmul_fragments<128>(args);
}

}  // namespace rocmforge::gpu::RF_KERNELS
