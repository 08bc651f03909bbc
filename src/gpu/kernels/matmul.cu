// Weights times many rows of activations, by matrix fragments.
//
// A block computes a tile of 64 rows by 64 outputs. For every 32 columns it converts both operands to F16 (Bf16 for
// Bf16 weights) in shared memory, decoding the weights from their planes, and its waves multiply 16 fragments of 16 x
// 16, evenly divided.
//
// A row that exceeds the range of halves needs a scale (kernels/row_scale.h), which is known only when the whole row
// has been read. So a block multiplies without scales, and a second time if it met such a row.

#include "gpu/runtime.h"

#include "gpu/fragment/fragment.h"
#include "gpu/kernels/matmul.h"
#include "gpu/kernels/row_scale.h"
#include "gpu/packed/float_formats.h"
#include "gpu/packed/lists.h"

namespace rocmforge::gpu::RF_KERNELS {

constexpr uint32_t kDepth = 32;
// Rows of a tile in shared memory are this far apart: 16-byte aligned, and not all in the same banks.
constexpr uint32_t kStride = kDepth + 8;

// Elements as bits: shared memory takes no types that initialise themselves.
struct MatmulTiles {
  alignas(16) uint16_t x[kMatmulTile][kStride];
  alignas(16) uint16_t w[kMatmulTile][kStride];
  float scales[kMatmulTile];  // of rows
};

template <class T>
RF_DEVICE void put16(uint16_t* to, const float* values) {
  RF_UNROLL
  for (int i = 0; i < 16; i++) {
    if constexpr (__is_same(T, F16)) {
      to[i] = narrow(values[i]).bits;
    } else {
      to[i] = to_bf16(values[i]).bits;
    }
  }
}

// 64 rows of 32 columns: runs of 16, of which half the threads take one each.
constexpr uint32_t kRuns = kMatmulTile * kDepth / 16;
static_assert(2 * kRuns == kMatmulThreads);

// A thread with a run of activations always has the same row's: `scale` is that row's, `largest` its largest magnitude
// so far.
template <class Block, class T>
RF_DEVICE void fill_tiles(MatmulTiles& tiles, const MatmulArgs& args, uint32_t k, float scale, uint32_t& largest) {
  const uint32_t run = thread_index() % kRuns;
  const uint32_t line = run / 2, column = k + run % 2 * 16;
  float values[16] = {};
  if (thread_index() < kRuns) {
    const uint32_t row = block_y() * kMatmulTile + line;
    if (row < args.n_rows && column < args.width) {
      const float* x = args.x + static_cast<uint64_t>(row) * args.width + column;
      for (int i = 0; i < 16; i++) values[i] = x[i];
    }
    if constexpr (__is_same(T, F16)) {
      RF_UNROLL
      for (int i = 0; i < 16; i++) largest = larger(largest, magnitude(values[i]));
      RF_UNROLL
      for (int i = 0; i < 16; i++) values[i] *= scale;
    }
    put16<T>(&tiles.x[line][run % 2 * 16], values);
  } else {
    const uint32_t out = block_x() * kMatmulTile + line;
    if (out < args.n_out && column < args.width) {
      decode16<Block>(values, args.w, (static_cast<uint64_t>(out) * args.width + column) / 16);
    }
    put16<T>(&tiles.w[line][run % 2 * 16], values);
  }
}

// Writes the rows' scales to shared memory, and this thread's own to `scale`. Returns whether one is not 1.
RF_DEVICE bool find_scales(MatmulTiles& tiles, float& scale, uint32_t largest) {
  scale = scale_for_halves(larger(largest, shuffle_xor(largest, 1)));  // two neighbours share a row
  if (thread_index() < kRuns) tiles.scales[thread_index() / 2] = scale;
  sync_block();
  bool is_scaled = false;
  RF_UNROLL
  for (uint32_t i = 0; i < kMatmulTile; i += kWave) is_scaled |= tiles.scales[i + lane()] != 1.0f;
  return ballot(is_scaled) != 0;
}

template <class Block, class T>
RF_DEVICE void fragment_matmul(const MatmulArgs& args) {
  using F = Fragment<T>;
  constexpr uint32_t kWaves = kMatmulThreads / kWave;
  constexpr uint32_t kPerWave = 16 / kWaves;  // fragments: 2 with 8 waves, 4 with 4
  RF_SHARED(MatmulTiles, tiles);
  typename F::C c[kPerWave] = {};
  const uint32_t row = wave() * kPerWave / 4 * 16;  // of this wave's fragments, in the tile
  const uint32_t out = wave() * kPerWave % 4 * 16;  // of the first
  float scale = 1.0f;
  for (bool again = false;; again = true) {
    uint32_t largest = 0;
    for (uint32_t k = 0; k < args.width; k += kDepth) {
      fill_tiles<Block, T>(tiles, args, k, scale, largest);
      sync_block();
      RF_UNROLL
      for (uint32_t d = 0; d < kDepth; d += 16) {
        typename F::A a;
        F::load_a(a, reinterpret_cast<const T*>(&tiles.x[row][d]), kStride);
        RF_UNROLL
        for (uint32_t f = 0; f < kPerWave; f++) {
          typename F::B b;
          F::load_b(b, reinterpret_cast<const T*>(&tiles.w[out + 16 * f][d]), kStride);
          F::multiply(c[f], a, b);
        }
      }
      sync_block();
    }
    if (!__is_same(T, F16) || again || !find_scales(tiles, scale, largest)) break;
    RF_UNROLL
    for (uint32_t f = 0; f < kPerWave; f++) c[f] = {};
  }
  RF_UNROLL
  for (uint32_t f = 0; f < kPerWave; f++) {
    RF_UNROLL
    for (uint32_t i = 0; i < F::kPerLane; i++) {
      const uint32_t r = block_y() * kMatmulTile + row + F::row(i);
      const uint32_t o = block_x() * kMatmulTile + out + 16 * f + F::column(i);
      if (r >= args.n_rows || o >= args.n_out) continue;
      const float sum = __is_same(T, F16) ? c[f].v[i] * undo_scale(tiles.scales[row + F::row(i)]) : c[f].v[i];
      args.out[static_cast<uint64_t>(r) * args.n_out + o] = sum + (args.bias != nullptr ? args.bias[o] : 0.0f);
    }
  }
}

#define RF_MATMUL_F16(name, Block)                       \
  RF_KERNEL(matmul_##name, MatmulArgs, kMatmulThreads) { \
    fragment_matmul<Block, F16>(args);                   \
  }
RF_INTEGER_FORMATS(RF_MATMUL_F16)
RF_MATMUL_F16(f16, formats::PlainF16)
RF_KERNEL(matmul_bf16, MatmulArgs, kMatmulThreads) {
  fragment_matmul<formats::PlainBf16, Bf16>(args);
}

}  // namespace rocmforge::gpu::RF_KERNELS
