#pragma once
// The batch of a pass in device memory, for kernels that need more than their own row.

#include <cstdint>

namespace rocmforge::gpu {

// A row with its position in the batch's tables.
struct alignas(16) RowPlace {
  uint32_t row, position, first_page, n_together;
};

// A run of a batch, by the slots of its sequence's state (plan/batch.h).
struct alignas(16) RunStates {
  uint32_t first_row, n_rows;
  uint32_t before, after;
};
inline constexpr uint32_t kNoState = ~0u;  // `before` of a sequence that begins

struct BatchView {
  const uint32_t* tokens;       // by row
  const uint32_t* positions;    // by row
  const uint32_t* first_page;   // by row: index in `pages` of its sequence's first page
  const uint32_t* pages;        // page lists of all sequences
  const uint32_t* output_rows;  // by output: its row
  const uint32_t* poolings;     // by output: the Pooling of its text
  const uint32_t* first_row;    // by row: the first row of its sequence in the batch
  const uint32_t* n_together;   // by row: the number of rows of its sequence
  const RowPlace* by_position;  // the rows, in descending order of position

  // Null unless layers are recurrent.
  const RunStates* runs = nullptr;         // as many as rows; behind the last run follow runs of no rows
  const uint32_t* first_stored = nullptr;  // by row: keys and values of earlier positions are not written
};

}  // namespace rocmforge::gpu
