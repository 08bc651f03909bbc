// Rows of f32 to F16 tiles in a format's order (kernels/tiles.h).

#include "gpu/runtime.h"

#include "gpu/kernels/row_scale.h"
#include "gpu/kernels/tiles.h"
#include "gpu/packed/float_formats.h"
#include "gpu/packed/lists.h"

namespace rocmforge::gpu::RF_KERNELS {

// A piece is a quarter of a tile's row.
template <class P>
RF_DEVICE void make_tiles(const TilesArgs& args) {
  RF_SHARED(float[kTilesThreads / 32], partial);
  const uint32_t row = block_x(), in_tile = row % args.tile_rows, n_quarters = args.width / 8;
  const auto store = [&](uint32_t quarter, const Word4& halves) {
    const uint64_t tile = static_cast<uint64_t>(row / args.tile_rows) * (args.width / kTileColumns) + quarter / 4;
    uint8_t* to = args.tiles + (tile * args.tile_rows + in_tile) * kTileRowBytes + (quarter % 4 ^ in_tile / 2 % 4) * 16;
    *reinterpret_cast<Word4*>(to) = halves;
  };
  uint64_t from = row;
  bool is_there = row < args.n_rows;
  if (args.groups.tiles != nullptr) {
    const uint32_t of = row / args.tile_rows;
    if (of >= *args.groups.n_tiles) return;
    const ExpertTile tile = args.groups.tiles[of];
    is_there = in_tile < tile.n;
    if (is_there) from = args.groups.order[tile.first + in_tile] / args.pairs_per_input;
  }
  if (!is_there) {
    for (uint32_t quarter = thread_index(); quarter < n_quarters; quarter += kTilesThreads) store(quarter, Word4{});
    return;
  }
  const auto load = [&](float* v, uint32_t quarter) {
    const uint32_t j = quarter % 32 / 2, half = quarter % 2;  // step of 16 columns in its 256, and which eight of them
    const float* x = args.x + from * args.width + quarter / 32 * 256 + 4 * (j % 4) + 2 * half;
    const uint32_t group = j / 4;
    RF_UNROLL
    for (uint32_t t = 0; t < 4; t++) {
      const float* at = x + 16 * P::place(group / P::kGroups * 4 + t, group % P::kGroups);
      v[2 * t] = at[0], v[2 * t + 1] = at[1];
    }
  };
  const float undo = put_scaled_row<kTilesThreads>(n_quarters, partial, load, store);
  if (thread_index() == 0) args.scales[row] = undo;
}

#define RF_TILES(name, Block)                         \
  RF_KERNEL(tiles_##name, TilesArgs, kTilesThreads) { \
    make_tiles<Packed<Block>>(args);                  \
  }
RF_INTEGER_FORMATS(RF_TILES)
#define RF_FLOAT_TILES(name, Block)                   \
  RF_KERNEL(tiles_##name, TilesArgs, kTilesThreads) { \
    make_tiles<FloatUnits>(args);                     \
  }
RF_HALF_FORMATS(RF_FLOAT_TILES)

}  // namespace rocmforge::gpu::RF_KERNELS
