#pragma once
// Which kernels compute attention over the cache: two tables, tried from top to bottom (attend_choice.cpp). Pure
// functions of the step and of what the device has, so that they can be asked without a device.

#include <cstdint>
#include <optional>

#include "gpu/kernel_set.h"
#include "gpu/kernels/attend.h"

namespace rocmforge::gpu {

struct AttendDevice {
  bool has_hopper = false;
  bool has_mma = false;
  bool has_fragments = true;  // as ProductDevice's
};

// What the choice knows of a step and its batch.
struct AttendQuery {
  AttendArgs args;              // as of the step: heads, sizes, options
  bool caches_halves = true;    // keys and values are f16
  uint32_t n_rows = 0;          // of the batch
  uint32_t most_rows = 0;       // of a sequence; 0: not known, for a pass that is recorded
  uint32_t longest = 0;         // positions of a sequence
  uint32_t max_mixed_rows = 0;  // batches with more rows compute rows of one sequence together
};

enum class AttendRoute : uint8_t {
  hopper_tiles,  // kernels/attend_hopper.h; these two: rows of one sequence together
  tiles,         // kernels/attend_tiles.h
  any,           // kernels/attend_any.h; these and the following: row by row
  hopper_rows,   // kernels/attend_rows_hopper.h
  matrix,        // kernels/attend_matrix.h
  plain,         // kernels/attend.h
};

struct AttendChoice {
  AttendRoute route;
  FixedKernel kernel;
  uint32_t heads_of_block = kAttendHeads;  // query heads; not for the first two
};

// For sequences of at least kMinTiledRows rows; none: they go row by row, too.
std::optional<AttendChoice> choose_attend_together(const AttendDevice& device, const AttendQuery& query);
AttendChoice choose_attend_by_row(const AttendDevice& device, const AttendQuery& query);

}  // namespace rocmforge::gpu
