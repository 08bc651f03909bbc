#pragma once
// The memory of a pass on the device: offsets of slots, pages and workspaces in one allocation.

#include <cstdint>
#include <vector>

#include "plan/backend.h"

namespace rocmforge::gpu {

// Rows whose attention runs in one launch (kernels/attend.h), unless there are too many heads.
inline constexpr uint32_t kMaxSplitRows = 64;

// Tables of rope frequencies: models have one, or two where layers differ.
inline constexpr uint32_t kMaxRopeTables = 8;
inline constexpr uint32_t kMaxRopePairs = 512;
// Limits of the precomputed RoPE rotations ("turns") of rows.
inline constexpr uint32_t kMaxTurnedRows = 128, kMaxTurnedPairs = 128;
// Limits of rows whose RMS scale is applied by the product that takes them (kernels/stream_rows_hopper.h).
inline constexpr uint32_t kMaxNormedRows = 128, kMaxNormedPieces = 128;
inline constexpr uint64_t kRowRotationsBytes = uint64_t{kMaxTurnedRows} * kMaxTurnedPairs * 2 * sizeof(float);

// Sequences that share pages may together list more pages than exist.
inline constexpr uint32_t kMaxPageLists = 256;

struct PassLayout {
  std::vector<uint64_t> slots;   // by slot
  std::vector<uint64_t> kv;      // by layer
  std::vector<uint64_t> states;  // by layer, of the first slot of states; empty without recurrent layers
  uint64_t state_elements = 0;   // from a slot of states to the next one
  uint64_t quants = 0;           // activations as 8-bit integers, one for each element of the largest slot, or as tiles
  uint64_t quants_bytes = 0;
  uint64_t quant_scales = 0;
  uint64_t row_scales = 0;  // of rows converted to halves (kernels/row_scale.h)
  uint64_t attention_parts = 0;
  uint64_t attention_parts_bytes = 0;     // for one row at least
  uint64_t attention_arrivals = 0;        // arrival counters; zero between launches
  uint64_t attention_arrivals_bytes = 0;  // for kMaxSplitRows
  uint64_t vectors = 0;                   // two weight vectors that are not f32, decoded: kVectors of vector_bytes
  uint64_t vector_bytes = 0;
  uint64_t rope_tables = 0;
  uint64_t row_rotations = 0;  // RoPE rotations of rows: kMaxRopeTables of kRowRotationsBytes (kernels/rope.h)
  uint64_t cache_rows = 0;     // the rows' positions in the cache, beside row_rotations; then those of windowed layers
  uint64_t row_input_scales = 0;  // input scales of rows, twice kMaxNormedRows
  uint64_t row_squares = 0;
  uint64_t batch = 0;
  uint32_t max_pages = 0;            // in all page lists of a batch together
  std::vector<uint8_t> is_windowed;  // by layer: its pages are those of windowed layers; empty: these have none
  uint64_t total_bytes = 0;

  static constexpr uint32_t kVectors = 2;
};

PassLayout pass_layout(const PassMemory& memory);

}  // namespace rocmforge::gpu
