#pragma once
// Recurrent steps (plan/step.h): short convolutions, selective scans, the gated delta rule. A block takes some channels
// or heads of one run through the rows in order, with their states in registers. It reads the run's slot `before` and
// writes the slot `after`, which may be the same one: no other block has these elements. What a row adds to a state
// does not depend on where the run began, so cutting a text into runs changes no bit of these steps.

#include <cstdint>

#include "gpu/api.h"
#include "gpu/kernels/batch_view.h"

namespace rocmforge::gpu {

// The states of a layer in all slots. The grid's y dimension counts runs.
struct StatesView {
  float* first;       // of the step, in slot 0
  uint64_t elements;  // from one slot to the next
  const RunStates* runs;
};

// Columns of rows.
struct RowColumns {
  const float* first;  // of row 0
  uint32_t width;      // of a row
};

// ---- convolve ----

inline constexpr uint32_t kConvolveThreads = 256;
inline constexpr uint32_t kMaxTaps = 4;
inline constexpr uint32_t kConvolveRows = 16;  // of a run, in one block; all where the grid's z dimension is 1

struct ConvolveArgs {
  float* out;
  const float* in;
  const float* gate_in;   // factors of the inputs, or null
  const float* gate_out;  // factors of the outputs, or null
  const float* weight;    // width x n_taps
  const float* bias;      // width, or null
  StatesView states;
  uint32_t width;
  uint32_t n_taps;  // 2 to kMaxTaps
  uint32_t has_silu;
  uint32_t rows_of_a_block;
};

// most_rows: of a run; 0: unknown
inline Grid convolve_grid(uint32_t width, uint32_t n_runs, uint32_t most_rows) {
  return {(width + kConvolveThreads - 1) / kConvolveThreads, n_runs,
          most_rows == 0 ? 1 : (most_rows + kConvolveRows - 1) / kConvolveRows};
}

// ---- scans and the delta rule ----

// A block has kWalkColumns columns of a head, and all elements of their states. Eight slices of a wave have an eighth
// of the elements each (kernels/walk.h).
inline constexpr uint32_t kWalkThreads = 128;
inline constexpr uint32_t kWalkColumns = 32;

inline uint32_t walk_blocks(uint32_t n_columns) {
  return (n_columns + kWalkColumns - 1) / kWalkColumns;
}
inline Grid walk_grid(uint32_t n_heads, uint32_t head_size, uint32_t n_runs) {
  return {n_heads * walk_blocks(head_size), n_runs};
}

// scan_head_SIZE: states of up to SIZE elements; steps, decays and skips by head. scan_element_SIZE: by element; all
// elements are one head's.
struct ScanArgs {
  float* out;
  RowColumns x, b, c, step;
  const float *step_bias, *decay, *skip;
  StatesView states;
  uint32_t n_heads, head_size, state_size, n_groups;
};
inline constexpr uint32_t kMaxHeadState = 256, kMaxElementState = 64;

// delta_rule_SIZE: keys of up to SIZE elements.
struct DeltaRuleArgs {
  float* out;
  RowColumns in;  // queries, keys, values
  RowColumns beta, alpha;
  const float *step_bias, *decay;
  StatesView states;
  uint32_t n_heads, head_size, n_key_heads, key_size;
  uint32_t alternates;
  float epsilon;
};
inline constexpr uint32_t kMaxDeltaKey = 256;

}  // namespace rocmforge::gpu
