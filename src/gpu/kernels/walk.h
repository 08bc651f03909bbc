#pragma once
// A block's walk over the rows of a run, with states in registers (kernels/recurrent.h).
//
// A wave is eight slices of lanes. A lane has two neighbouring columns, and of each column's state the elements of the
// lane's slice. Rows come in groups: while a group is computed from shared memory, the next one is on its way into
// registers.

#include "gpu/kernels/recurrent.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

constexpr uint32_t kSlices = 8, kLaneColumns = 2, kGroupRows = 8;
constexpr uint32_t kSliceLanes = kWave / kSlices;
static_assert(kWalkThreads / kSlices * kLaneColumns == kWalkColumns);

// ln(1 + e^x), accurate where e^x is small, too.
RF_DEVICE float softplus(float x) {
  if (x > 20.0f) return x;
  const float e = exp_f32(x), u = 1.0f + e;
  return u == 1.0f ? e : log_f32(u) * (e / (u - 1.0f));
}

// The sum over slices, for every lane.
RF_DEVICE float slices_sum(float v) {
  RF_UNROLL
  for (uint32_t mask = kSliceLanes; mask < kWave; mask *= 2) v += shuffle_xor(v, mask);
  return v;
}

// kPer: elements of a lane's slice.
template <uint32_t kPer>
struct LaneStates {
  static constexpr uint32_t kElements = kSlices * kPer;
  static constexpr uint32_t kNeighbours = kPer < 4 ? kPer : 4;

  float s[kLaneColumns][kPer];

  RF_DEVICE static uint32_t slice() { return lane() / kSliceLanes; }
  // The lane's first column in the block.
  RF_DEVICE static uint32_t column() { return (wave() * kSliceLanes + lane() % kSliceLanes) * kLaneColumns; }
  // Slices alternate, so that their loads from shared memory are of neighbouring words.
  RF_DEVICE static uint32_t element(uint32_t e) {
    return (e / kNeighbours * kSlices + slice()) * kNeighbours + e % kNeighbours;
  }

  template <class F>
  RF_DEVICE void each(uint32_t n_elements, uint32_t n_columns, F f) {
    RF_UNROLL
    for (uint32_t e = 0; e < kPer; e++) {
      RF_UNROLL
      for (uint32_t c = 0; c < kLaneColumns; c++) {
        if (element(e) < n_elements && column() + c < n_columns) f(s[c][e], element(e), column() + c);
      }
    }
  }
  // at: of the block's first column; `width` columns of one element lie together. No state: zeros.
  RF_DEVICE void load(const float* at, uint32_t width, uint32_t n_elements, uint32_t n_columns) {
    RF_UNROLL
    for (uint32_t e = 0; e < kPer; e++) s[0][e] = s[1][e] = 0;
    if (at == nullptr) return;
    each(n_elements, n_columns,
         [&](float& v, uint32_t e, uint32_t c) { v = at[static_cast<uint64_t>(e) * width + c]; });
  }
  RF_DEVICE void store(float* at, uint32_t width, uint32_t n_elements, uint32_t n_columns) {
    each(n_elements, n_columns,
         [&](float& v, uint32_t e, uint32_t c) { at[static_cast<uint64_t>(e) * width + c] = v; });
  }
};

// A group of rows of kWidth elements on its way from memory to shared memory; zeros past the rows' ends.
template <uint32_t kWidth>
struct RowGroup {
  static constexpr uint32_t kEach = (kGroupRows * kWidth + kWalkThreads - 1) / kWalkThreads;
  float v[kEach];

  // first: of the group's first row, of which there are n_rows
  RF_DEVICE void load(const float* first, uint32_t width, uint32_t n_rows, uint32_t n_columns) {
    RF_UNROLL
    for (uint32_t i = 0; i < kEach; i++) {
      const uint32_t at = i * kWalkThreads + thread_index(), row = at / kWidth, column = at % kWidth;
      v[i] = row < n_rows && column < n_columns ? first[static_cast<uint64_t>(row) * width + column] : 0.0f;
    }
  }
  RF_DEVICE void put(float (&to)[kGroupRows][kWidth]) const {
    RF_UNROLL
    for (uint32_t i = 0; i < kEach; i++) {
      const uint32_t at = i * kWalkThreads + thread_index();
      if (at < kGroupRows * kWidth) to[at / kWidth][at % kWidth] = v[i];
    }
  }
};

// The block's columns of a head and the run they belong to.
struct WalkPlace {
  RunStates run;
  uint32_t head;
  uint32_t first_column;  // in the head
  uint32_t n_columns;     // from there to the head's end

  RF_DEVICE WalkPlace(const StatesView& states, uint32_t head_size) : run(states.runs[block_y()]) {
    const uint32_t blocks = walk_blocks_of(head_size);
    head = block_x() / blocks;
    first_column = block_x() % blocks * kWalkColumns;
    n_columns = head_size - first_column;
  }
  RF_DEVICE static uint32_t walk_blocks_of(uint32_t head_size) { return (head_size + kWalkColumns - 1) / kWalkColumns; }

  RF_DEVICE uint32_t column(uint32_t head_size) const { return head * head_size + first_column; }
  RF_DEVICE const float* before(const StatesView& states, uint64_t at) const {
    return run.before == kNoState ? nullptr : states.first + run.before * states.elements + at;
  }
  RF_DEVICE float* after(const StatesView& states, uint64_t at) const {
    return states.first + run.after * states.elements + at;
  }
};

// A Rule has: Shared, place, begin(), load(first row, rows), put(shared), prepare(shared), advance(shared, row in the
// group, row of the run), end().
template <class Rule>
RF_DEVICE void walk(Rule& rule, typename Rule::Shared& shared) {
  const uint32_t n_rows = rule.place.run.n_rows;
  if (n_rows == 0) return;
  rule.begin();
  const auto rows_from = [&](uint32_t first) { return n_rows - first < kGroupRows ? n_rows - first : kGroupRows; };
  rule.load(0, rows_from(0));
  for (uint32_t first = 0; first < n_rows; first += kGroupRows) {
    sync_block();
    rule.put(shared);
    sync_block();
    rule.prepare(shared);
    if (first + kGroupRows < n_rows) rule.load(first + kGroupRows, rows_from(first + kGroupRows));
    for (uint32_t r = 0; r < kGroupRows && first + r < n_rows; r++) rule.advance(shared, r, first + r);
  }
  rule.end();
}

}  // namespace rocmforge::gpu::RF_KERNELS
