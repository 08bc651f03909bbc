#pragma once
// Weights times two and more rows, on Hopper.
//
// A block computes 128 outputs for kRows rows: two warpgroups of 64 outputs each, transposed (outputs are the
// instruction's rows), because the instruction takes its left operand from registers, where the weights can be decoded
// straight from their planes. A lane reads whole units (packed/integer_formats.h) and supplies four weights at each
// step of sixteen columns. The format decides which columns those are, and kernels/tiles.h puts the activations into
// the same order.
//
//   planes --16 bytes a lane--> registers --decode--> left operand --+
//                                                                     wgmma --> sums
//   tiles --bulk copy, ring of five stages--> shared memory ----------+
//
// One thread refills the ring: a stage is free when both warpgroups have arrived at its `empty` barrier, and ready when
// its bytes have reached its `full` barrier. While the matrix unit works on a step, the next step's weights are
// decoded. Sums of rows that were scaled down to fit halves are scaled up at the end. Blocks of a cluster split the
// width of one tile; they exchange their partial sums through shared memory and add them in order.

#include "gpu/runtime.h"

#include "gpu/fragment/hopper.h"
#include "gpu/kernels/expert_rows.h"
#include "gpu/kernels/matmul_hopper.h"
#include "gpu/packed/float_formats.h"
#include "gpu/packed/lists.h"

namespace rocmforge::gpu::RF_KERNELS {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <uint32_t kRows>
struct Ring {
  static constexpr uint32_t kStages = 5;
  static constexpr uint32_t kTiles = kRows >= 64 ? 128 / kRows : 8;  // of a stage
  static constexpr uint32_t kTileBytes = kRows * kTileRowBytes;
  static constexpr uint32_t kStageBytes = kTiles * kTileBytes;
  // Partial sums that a cluster exchanges: outputs of a row are adjacent, rows spaced to avoid bank conflicts.
  static constexpr uint32_t kSumStride = kHopperOutputs + 4;
  union {
    alignas(1024) uint8_t stages[kStages][kStageBytes];
    float sums[kRows == kHopperMaxRows ? 1 : kRows][kSumStride];
  };
  alignas(8) uint64_t full[kStages], empty[kStages];
  float scales[kRows];
};

// Four quants as halves, scaled: the first two and the last two.
template <class P>
RF_DEVICE void decode4(uint32_t& first, uint32_t& last, uint32_t levels, __half2 scale, __half2 minus_minimum) {
  // A byte b behind 0x64 is the half 1024 + b; signed bytes are shifted by 128 first.
  const uint32_t shifted = levels ^ 0x80808080u;
  const __half2 zero = __half2half2(__ushort_as_half(0x6400 + 128 + P::kOffset));
  const auto scaled = [&](uint32_t pair) {
    const __half2 value = __hfma2(__hsub2(*reinterpret_cast<__half2*>(&pair), zero), scale, minus_minimum);
    return *reinterpret_cast<const uint32_t*>(&value);
  };
  first = scaled(__byte_perm(shifted, 0x64646464u, 0x4140));
  last = scaled(__byte_perm(shifted, 0x64646464u, 0x4342));
}

RF_DEVICE __half2 both(float value) {
  return __half2half2(__float2half_rn(value));
}

// Group q of two outputs' units as left operands: a[h] is that of the sixteen columns of word 2h and the next one.
template <class Block>
struct LeftOperand {
  using P = Packed<Block>;
  static constexpr bool kIsRaw = false;  // the matrix unit reads the registers of the unit itself
  Group groups[2];
  __half2 scales[2], minima[2];
  RF_DEVICE LeftOperand(const typename P::Raw (&raw)[2], const uint32_t (&units)[2], uint32_t q)
      : groups{P::group(raw[0], units[0], q), P::group(raw[1], units[1], q)},
        scales{both(groups[0].scale), both(groups[1].scale)},
        minima{both(-groups[0].minimum), both(-groups[1].minimum)} {}
  RF_DEVICE void decode(uint32_t (&a)[8], uint32_t h) const {
    RF_UNROLL
    for (uint32_t k = 0; k < 2; k++) {
      RF_UNROLL
      for (uint32_t r = 0; r < 2; r++) {
        decode4<P>(a[4 * k + r], a[4 * k + 2 + r], groups[r].levels.v[2 * h + k], scales[r], minima[r]);
      }
    }
  }
};
template <class Block>
  requires(kIsFloat<Block>)
struct LeftOperand<Block> {
  using P = FloatUnits;
  static constexpr bool kIsRaw = __is_same(Block, formats::PlainF16);
  const P::Raw (&raw)[2];
  RF_DEVICE LeftOperand(const P::Raw (&read)[2], const uint32_t (&)[2], uint32_t) : raw(read) {}
  RF_DEVICE void decode(uint32_t (&a)[8], uint32_t h) const {
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
      RF_UNROLL
      for (uint32_t r = 0; r < 2; r++) {
        const uint32_t word = raw[r].words[h].v[i];
        a[2 * i + r] = kIsRaw ? word : halves_within(word << 16, word & 0xFFFF0000u);
      }
    }
  }
};

// kIsGrouped: rows are grouped by experts, `experts` is not null, and the width is not split.
template <class Block, uint32_t kRows, bool kIsGrouped = false>
RF_DEVICE void hopper_matmul(const HopperMatmulArgs& args, const HopperExpertsArgs* experts = nullptr) {
  using P = typename LeftOperand<Block>::P;
  using R = Ring<kRows>;
  constexpr uint32_t kSteps = 2 * P::kGroups;  // tiles that a unit's groups take
  constexpr uint32_t kUnits = 4 / P::kGroups;  // of a lane, in 256 columns
  __shared__ R ring;

  uint32_t across = block_x(), which = 0;
  while (across * kHopperOutputs >= args.parts[which].n_out) {
    across -= (args.parts[which++].n_out + kHopperOutputs - 1) / kHopperOutputs;
  }
  const MatvecPart& weight = args.parts[which];
  const uint32_t g = lane() / 4, t = lane() % 4;
  const uint32_t first_out = across * kHopperOutputs + wave() * 16 + g;  // and the one eight further on
  const uint32_t last_out = weight.n_out - 1;
  const uint32_t n_row_units = args.width / 16 / P::kGroups;
  const uint32_t rows[2] = {(first_out < last_out ? first_out : last_out) * n_row_units,
                            (first_out + 8 < last_out ? first_out + 8 : last_out) * n_row_units};
  const auto unit_of = [&](uint32_t n) { return n / kUnits * (4 * kUnits) + n % kUnits * 4 + t; };

  const uint32_t split = kIsGrouped ? 1 : gridDim.z, part = kIsGrouped ? 0 : block_z();
  const uint32_t n_units = args.width / 256 * kUnits;
  const uint32_t begin = n_units * part / split, end = n_units * (part + 1) / split;
  const uint32_t n_tiles = (end - begin) * kSteps;
  const uint32_t n_stages = (n_tiles + R::kTiles - 1) / R::kTiles;
  const uint8_t* tiles =
      args.tiles + (uint64_t{block_y()} * (args.width / kTileColumns) + begin * kSteps) * R::kTileBytes;
  const uint32_t stages = shared_address(ring.stages), full = shared_address(ring.full),
                 empty = shared_address(ring.empty);
  const auto fetch = [&](uint32_t n, uint32_t slot) {
    const uint32_t left = (n_tiles - n * R::kTiles) * R::kTileBytes;
    const uint32_t n_bytes = left < R::kStageBytes ? left : R::kStageBytes;
    barrier::arrive_expecting(full + 8 * slot, n_bytes);
    bulk_copy(stages + slot * R::kStageBytes, tiles + uint64_t{n} * R::kStageBytes, n_bytes, full + 8 * slot);
  };
  const auto advance = [](uint32_t& slot, uint32_t& parity) {
    if (++slot == R::kStages) slot = 0, parity ^= 1;
  };

  if (thread_index() == 0) {
    for (uint32_t s = 0; s < R::kStages; s++) {
      barrier::make(full + 8 * s, 1);
      barrier::make(empty + 8 * s, kHopperThreads / 128);
    }
    barrier::publish();
  }
  sync_block();
  wait_for_inputs();
  let_next_begin();
  const uint32_t first_row = block_y() * kRows;
  // Of this block; of an expert's tile, the numbers of their pairs.
  uint32_t n_rows = args.n_rows - first_row < kRows ? args.n_rows - first_row : kRows;
  const uint32_t* order = nullptr;
  Planes w = weight.w;
  const float* bias = weight.bias;
  if constexpr (kIsGrouped) {
    const ExpertRows tile(experts->groups, kRows);
    if (tile.n == 0) return;
    n_rows = tile.n;
    order = experts->groups.order + tile.first;
    w = planes_of_expert(weight.w, experts->places[which], tile.expert);
    if (bias != nullptr) bias += uint64_t{tile.expert} * weight.n_out;
  }
  if (thread_index() == 0) {
    for (uint32_t s = 0; s < R::kStages && s < n_stages; s++) fetch(s, s);
  }
  __syncwarp();
  float scale = 1.0f;
  if (thread_index() < kRows) {
    if (thread_index() < n_rows) scale = args.scales[first_row + thread_index()];
    ring.scales[thread_index()] = scale;
  }
  const bool is_scaled = __syncthreads_or(scale != 1.0f) != 0;

  float c[kRows / 2];
  RF_UNROLL
  for (uint32_t i = 0; i < kRows / 2; i++) c[i] = 0;
  typename P::Raw raw[2];
  uint32_t a[2][8];                         // of this step and the one before
  uint32_t tile = 0;                        // in its stage
  uint32_t n_begun = 0;                     // stages
  uint32_t slot = 0, parity = 0;            // of the stage that is being multiplied
  uint32_t free_slot = 0, free_parity = 0;  // of the one that will be refilled
  if (begin < end) {
    for (uint32_t r = 0; r < 2; r++) raw[r] = P::load(w, rows[r] + unit_of(begin));
  }
  for (uint32_t n = begin; n < end; n++) {
    typename P::Raw next[2];
    const uint32_t ahead = n + 1 < end ? n + 1 : n;
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) next[r] = P::load(w, rows[r] + unit_of(ahead));
    RF_UNROLL
    for (uint32_t q = 0; q < P::kGroups; q++) {
      const LeftOperand<Block> left(raw, {rows[0] + unit_of(n), rows[1] + unit_of(n)}, q);
      RF_UNROLL
      for (uint32_t h = 0; h < 2; h++) {
        left.decode(a[h], h);
        if (tile == 0) barrier::wait(full + 8 * slot, parity);
        const uint32_t at = stages + slot * R::kStageBytes + tile * R::kTileBytes;
        wgmma::fence();
        Wgmma<kRows>::multiply(c, a[h], wgmma::tile(at));
        Wgmma<kRows>::multiply(c, a[h] + 4, wgmma::tile(at + 32));
        wgmma::commit();
        // The step before is done: its registers are free, and at the first tile of a stage so is the stage before.
        wgmma::wait<1>();
        if (tile == 0) {
          if (n_begun > 0 && thread_index() % 128 == 0) {
            barrier::arrive(empty + 8 * (slot == 0 ? R::kStages - 1 : slot - 1));
          }
          // Two stages back, so that this warpgroup does not wait for the other one.
          if (n_begun > 1) {
            if (thread_index() == 0 && n_begun - 2 + R::kStages < n_stages) {
              barrier::wait(empty + 8 * free_slot, free_parity);
              fetch(n_begun - 2 + R::kStages, free_slot);
            }
            advance(free_slot, free_parity);
          }
          __syncwarp();
          n_begun++;
        }
        if (++tile == R::kTiles) {
          tile = 0;
          advance(slot, parity);
        }
      }
    }
    if constexpr (LeftOperand<Block>::kIsRaw) wgmma::wait<0>();
    raw[0] = next[0];
    raw[1] = next[1];
  }
  wgmma::wait<0>();
  if (is_scaled) {
    RF_UNROLL
    for (uint32_t i = 0; i < kRows / 2; i++) c[i] *= ring.scales[i / 4 * 8 + 2 * t + i % 2];
  }

  const auto store = [&](uint32_t row, uint32_t out, float value) {
    if (row >= n_rows || out >= weight.n_out) return;
    const uint64_t at = kIsGrouped ? order[row] : first_row + row;
    weight.out[at * weight.n_out + out] = value + (bias != nullptr ? bias[out] : 0.0f);
  };
  if (split == 1) {
    RF_UNROLL
    for (uint32_t i = 0; i < kRows / 2; i++) {
      store(i / 4 * 8 + 2 * t + i % 2, first_out + i % 4 / 2 * 8, c[i]);
    }
    return;
  }
  if constexpr (kRows < kHopperMaxRows) {
    sync_block();  // the stages have been read
    RF_UNROLL
    for (uint32_t i = 0; i < kRows / 2; i++) {
      ring.sums[i / 4 * 8 + 2 * t + i % 2][wave() * 16 + g + i % 4 / 2 * 8] = c[i];
    }
    cluster::sync();
    const uint32_t n_mine = kRows / split * kHopperOutputs;
    for (uint32_t i = thread_index(); i < n_mine; i += kHopperThreads) {
      const uint32_t row = part * (kRows / split) + i / kHopperOutputs, out = i % kHopperOutputs;
      const uint32_t at = shared_address(&ring.sums[row][out]);
      float sum = 0;
      for (uint32_t block = 0; block < split; block++) sum += cluster::read(at, block);
      store(row, across * kHopperOutputs + out, sum);
    }
    cluster::sync();  // no block may exit while others read its sums
  }
}

#else

template <class Block, uint32_t kRows, bool kIsGrouped = false>
RF_DEVICE void hopper_matmul(const HopperMatmulArgs&, const HopperExpertsArgs* = nullptr) {}

#endif

}  // namespace rocmforge::gpu::RF_KERNELS
