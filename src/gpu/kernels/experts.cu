// Groups a batch's rows by expert, and sums the experts' products of each row (kernels/experts.h).

#include "gpu/runtime.h"

#include "gpu/kernels/experts.h"
#include "gpu/kernels/route.h"

namespace rocmforge::gpu::RF_KERNELS {

struct GroupExpertsShared {
  uint32_t counts[kMaxExperts];  // pairs of each expert
  uint32_t of_wave[2][kGroupExpertsThreads / 32];
};

// The sum over a block, for every thread. `of_wave`: shared, one number per wave, not those of the previous call.
RF_DEVICE uint32_t block_count(uint32_t v, uint32_t* of_wave) {
  for (uint32_t mask = kWave / 2; mask > 0; mask /= 2) v += shuffle_xor(v, mask);
  if (lane() == 0) of_wave[wave()] = v;
  sync_block();
  uint32_t total = 0;
  for (uint32_t w = 0; w < kGroupExpertsThreads / kWave; w++) total += of_wave[w];
  return total;
}

RF_DEVICE uint32_t n_bits(uint64_t v) {
  return static_cast<uint32_t>(__builtin_popcountll(v));
}

// Every block counts all pairs: reading them again is cheaper than waiting for another block.
RF_KERNEL(group_experts, GroupExpertsArgs, kGroupExpertsThreads) {
  RF_SHARED(GroupExpertsShared, shared);
  const uint32_t mine = block_x();
  const auto expert_of = [&](uint32_t pair) { return static_cast<uint32_t>(args.routing[2 * pair]); };
  for (uint32_t i = thread_index(); i < args.n_experts; i += kGroupExpertsThreads) shared.counts[i] = 0;
  sync_block();
  for (uint32_t pair = thread_index(); pair < args.n_pairs; pair += kGroupExpertsThreads) {
    atomic_add(&shared.counts[expert_of(pair)], 1u);
  }
  sync_block();
  const auto tiles_of = [&](uint32_t count) { return (count + args.tile_rows - 1) / args.tile_rows; };
  uint32_t n_before = 0, n_tiles_before = 0;
  for (uint32_t i = thread_index(); i < mine; i += kGroupExpertsThreads) {
    n_before += shared.counts[i];
    n_tiles_before += tiles_of(shared.counts[i]);
  }
  const uint32_t first = block_count(n_before, shared.of_wave[0]);
  const uint32_t first_tile = block_count(n_tiles_before, shared.of_wave[1]);
  const uint32_t count = shared.counts[mine], n_tiles = tiles_of(count);
  if (mine + 1 == args.n_experts && thread_index() == 0) *args.n_tiles = first_tile + n_tiles;
  for (uint32_t i = thread_index(); i < n_tiles; i += kGroupExpertsThreads) {
    const uint32_t begin = i * args.tile_rows;
    args.tiles[first_tile + i] = {mine, first + begin, count - begin < args.tile_rows ? count - begin : args.tile_rows};
  }
  uint32_t n_placed = 0;
  for (uint32_t begin = 0, turn = 0; begin < args.n_pairs && n_placed < count;
       begin += kGroupExpertsThreads, turn ^= 1) {
    const uint32_t pair = begin + thread_index();
    const bool is_mine = pair < args.n_pairs && expert_of(pair) == mine;
    const uint64_t in_wave = ballot(is_mine);
    uint32_t* const of_wave = shared.of_wave[turn];
    if (lane() == 0) of_wave[wave()] = n_bits(in_wave);
    sync_block();
    uint32_t at = first + n_placed;
    for (uint32_t w = 0; w < kGroupExpertsThreads / kWave; w++) {
      if (w < wave()) at += of_wave[w];
      n_placed += of_wave[w];
    }
    if (is_mine) args.order[at + n_bits(in_wave & ((uint64_t{1} << lane()) - 1))] = pair;
  }
}

RF_KERNEL(combine_experts, CombineExpertsArgs, kCombineExpertsThreads) {
  const uint32_t i = block_y() * kCombineExpertsThreads + thread_index();
  if (i >= args.width) return;
  const uint64_t pair = static_cast<uint64_t>(block_x()) * args.n_used;
  float sum = 0;
  for (uint32_t j = 0; j < args.n_used; j++) {
    sum += args.routing[2 * (pair + j) + 1] * args.products[(pair + j) * args.width + i];
  }
  args.out[static_cast<uint64_t>(block_x()) * args.width + i] = sum;
}

}  // namespace rocmforge::gpu::RF_KERNELS
