#pragma once
// How a wave reads and decodes the weights of sixteen outputs for matrix fragments, each byte once.
//
// A matrix product may take its columns in any order, if both operands take the same. So a lane reads whole units of
// its outputs' weights (packed/unit.h), decodes them in registers and multiplies. The activations follow: as chunk c of
// a packed tile they have the columns that the lanes with row_lane() c % kRowLanes have decoded (fragment/fragment.h).
//
// The width is read in rounds. A step of a round is what shared memory holds of the activations at once: four packed
// tiles for each sixteen rows.

#include "gpu/fragment/fragment.h"
#include "gpu/packed/unit_halves.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

// Which units a lane reads, and where their columns are.
template <class Block>
struct StreamedUnits {
  using F = Fragment<F16>;
  using U = UnitHalves<Block>;
  // Of 32 columns, in a round: a multiple of the units' order, and what a lane has registers for.
  static constexpr uint32_t kRoundTiles = U::kGroups == 1 || (U::kGroups == 2 && F::kRowLanes == 1) ? 4 : 8;
  static constexpr uint32_t kRoundChunks = kRoundTiles * 4;
  static constexpr uint32_t kRoundUnits = kRoundChunks / 2 / U::kGroups;
  static constexpr uint32_t kLaneUnits = kRoundUnits / F::kRowLanes;
  static constexpr uint32_t kTileChunks = 4 / F::kRowLanes;  // of a lane, in each of its rows
  // Blocks of 256 weights are whole rounds.
  static constexpr bool kMayEndWithinRound = Block::kElements != 256;

  RF_DEVICE static constexpr uint32_t n_rounds(uint32_t width) { return (width / 8 + kRoundChunks - 1) / kRoundChunks; }
  // The lane's chunk q of a round is half of a group of one of its units.
  RF_DEVICE static constexpr uint32_t lane_unit(uint32_t q) { return q / 2 / U::kGroups; }
  RF_DEVICE static constexpr uint32_t group(uint32_t q) { return q / 2 % U::kGroups; }
  RF_DEVICE static constexpr uint32_t half(uint32_t q) { return q % 2; }
  RF_DEVICE static constexpr uint32_t lane_chunk(uint32_t tile, uint32_t i) { return tile * kTileChunks + i; }
  // Whether this tile is the last that has columns of the lane's i-th unit.
  RF_DEVICE static constexpr bool is_last_of(uint32_t i, uint32_t tile) {
    return ((i + 1) * U::kGroups * 2 - 1) / kTileChunks == tile;
  }
  // The unit of the round that lanes with this row_lane() have as their i-th.
  RF_DEVICE static constexpr uint32_t unit(uint32_t row_lane, uint32_t i) { return i * F::kRowLanes | row_lane; }
  // The i-th unit of this lane in a round of a row, in the matrix.
  RF_DEVICE static uint64_t in_matrix(uint64_t row, uint32_t round, uint32_t i, uint32_t n_units) {
    // Written so that the compiler sees which units share a block.
    if constexpr (!kMayEndWithinRound)
      return (row * (n_units / kRoundUnits) + round) * kRoundUnits + unit(F::row_lane(), i);
    const uint32_t in_row = round * kRoundUnits + unit(F::row_lane(), i);
    return row * n_units + (in_row < n_units ? in_row : n_units - 1);
  }

  // The columns of chunk c of a round's tile, as a number of eight columns from the round's first.
  RF_DEVICE static uint32_t columns(uint32_t tile, uint32_t c) {
    const uint32_t q = lane_chunk(tile, c / F::kRowLanes);
    return 2 * static_cast<uint32_t>(U::place(unit(c % F::kRowLanes, lane_unit(q)), group(q))) + half(q);
  }
};

// A round's units of a lane, in words that stay in registers. As soon as a unit is decoded its successor in the next
// round is asked for; where a lane has but one unit of a row, before it is decoded.
template <class Block>
struct LaneUnits {
  using Units = StreamedUnits<Block>;
  using F = Fragment<F16>;
  using U = UnitHalves<Block>;
  using Raw = typename U::Raw;
  static constexpr uint32_t kWords = sizeof(Raw) / sizeof(uint32_t);
  static constexpr bool kIsSingle = Units::kLaneUnits == 1;
  struct Words {
    uint32_t v[kWords];
  };
  const Planes& w;
  const uint64_t (&rows)[F::kLaneRows];
  uint32_t n_units, end_round;
  uint32_t words[F::kLaneRows][Units::kLaneUnits][kWords] = {};
  uint32_t ahead[F::kLaneRows][1][kWords] = {};  // if kIsSingle

  RF_DEVICE void load(uint32_t round, uint32_t i) {
    if (round >= end_round) return;
    auto& to = [&]() -> auto& {
      if constexpr (kIsSingle) {
        return ahead;
      } else {
        return words;
      }
    }();
    RF_UNROLL
    for (uint32_t r = 0; r < F::kLaneRows; r++) {
      const auto read = __builtin_bit_cast(Words, U::load(w, Units::in_matrix(rows[r], round, i, n_units)));
      RF_UNROLL
      for (uint32_t k = 0; k < kWords; k++) to[r][i][k] = read.v[k];
    }
  }
  RF_DEVICE void begin_round(uint32_t round) {
    if constexpr (kIsSingle) {
      RF_UNROLL
      for (uint32_t r = 0; r < F::kLaneRows; r++) {
        RF_UNROLL
        for (uint32_t k = 0; k < kWords; k++) words[r][0][k] = ahead[r][0][k];
      }
      load(round + 1, 0);
    }
  }
  RF_DEVICE void end_tile(uint32_t tile, uint32_t round) {
    RF_UNROLL
    for (uint32_t i = 0; !kIsSingle && i < Units::kLaneUnits; i++) {
      if (Units::is_last_of(i, tile)) load(round + 1, i);
    }
  }
  RF_DEVICE typename U::Ready ready(uint32_t r, uint32_t i, uint32_t unit, uint32_t group, bool is_there) const {
    Words raw;
    RF_UNROLL
    for (uint32_t k = 0; k < kWords; k++) raw.v[k] = words[r][i][k];
    return U::ready(__builtin_bit_cast(Raw, raw), unit, group, is_there);
  }
};

// Decodes a lane's weights, tile by tile.
template <class Block>
struct Decoder {
  using Units = StreamedUnits<Block>;
  using F = Fragment<F16>;
  using U = UnitHalves<Block>;
  typename U::Ready groups[F::kLaneRows] = {};  // whose second halves come next

  RF_DEVICE void decode(typename F::Held& to, const LaneUnits<Block>& units, uint32_t tile, uint32_t round) {
    RF_UNROLL
    for (uint32_t r = 0; r < F::kLaneRows; r++) {
      RF_UNROLL
      for (uint32_t j = 0; j < Units::kTileChunks; j++) {
        const uint32_t q = Units::lane_chunk(tile, j), i = Units::lane_unit(q);
        const uint32_t unit = round * Units::kRoundUnits + Units::unit(F::row_lane(), i);
        const bool is_there = !Units::kMayEndWithinRound || unit < units.n_units;
        if (Units::half(q) == 0) groups[r] = units.ready(r, i, unit, Units::group(q), is_there);
        F::hold(to, r, j, U::eight(groups[r], Units::half(q)));
      }
    }
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
