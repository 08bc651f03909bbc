#pragma once
// The batch of a pass in device memory: what kernels that look beyond their own row need.

#include <cstdint>

namespace rocmforge::gpu {

// A row and what else is said of it.
struct alignas(16) RowPlace {
  uint32_t row, position, first_page, n_together;
};

struct BatchView {
  const uint32_t* tokens;       // by row
  const uint32_t* positions;    // by row
  const uint32_t* first_page;   // by row: where its sequence's pages begin in `pages`
  const uint32_t* pages;        // of all sequences
  const uint32_t* output_rows;  // by output
  const uint32_t* first_row;    // by row: where its sequence's rows begin in the batch
  const uint32_t* n_together;   // by row: how many they are
  const RowPlace* by_position;  // the rows, the one at the last position first
};

}  // namespace rocmforge::gpu
