// F32 weights times many rows of activations, in f32 throughout: a tile of 64 rows by 64 outputs a block, 4 x 4 a
// thread.

#include "gpu/runtime.h"

#include "gpu/kernels/matmul.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_KERNEL(matmul_f32, MatmulArgs, kMatmulThreads) {
  constexpr uint32_t kDeep = 16;
  struct Tiles {
    float x[kDeep][kMatmulTile + 1];
    float w[kDeep][kMatmulTile + 1];
  };
  RF_SHARED(Tiles, tiles);
  const auto* w = reinterpret_cast<const float*>(args.w.at[0]);
  const uint32_t first_row = block_y() * kMatmulTile, first_out = block_x() * kMatmulTile;
  const uint32_t my_row = thread_index() / 16 * 4, my_out = thread_index() % 16 * 4;
  float sums[4][4] = {};
  for (uint32_t k = 0; k < args.width; k += kDeep) {
    for (uint32_t i = thread_index(); i < kMatmulTile * kDeep; i += kMatmulThreads) {
      const uint32_t line = i / kDeep, column = k + i % kDeep;
      const uint32_t row = first_row + line, out = first_out + line;
      const bool inside = column < args.width;
      tiles.x[i % kDeep][line] =
          inside && row < args.n_rows ? args.x[static_cast<uint64_t>(row) * args.width + column] : 0.0f;
      tiles.w[i % kDeep][line] =
          inside && out < args.n_out ? w[static_cast<uint64_t>(out) * args.width + column] : 0.0f;
    }
    sync_block();
    for (uint32_t d = 0; d < kDeep; d++) {
      RF_UNROLL
      for (uint32_t r = 0; r < 4; r++) {
        RF_UNROLL
        for (uint32_t o = 0; o < 4; o++) sums[r][o] += tiles.x[d][my_row + r] * tiles.w[d][my_out + o];
      }
    }
    sync_block();
  }
  for (uint32_t r = 0; r < 4; r++) {
    for (uint32_t o = 0; o < 4; o++) {
      const uint32_t row = first_row + my_row + r, out = first_out + my_out + o;
      if (row >= args.n_rows || out >= args.n_out) continue;
      args.out[static_cast<uint64_t>(row) * args.n_out + out] =
          sums[r][o] + (args.bias != nullptr ? args.bias[out] : 0.0f);
    }
  }
}

}  // namespace rocmforge::gpu::RF_KERNELS
