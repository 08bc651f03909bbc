#pragma once
// A weight in memory: its shape, where it lies, and whether its rows are packed for a table of kernels.

#include <cstddef>
#include <cstdint>

#include "cpu/isa/kernels.h"
#include "tensor/packed.h"
#include "weights/placement.h"

namespace rocmforge::cpu {

// How the kernels want this weight: nullptr leaves the rows as the file holds them. Few or very long rows stay.
const PackedFormat* packed_format(const Kernels& kernels, const WeightShape& shape);

// Pieces of a packed weight, a whole unit at least, must fit this.
inline constexpr size_t kStagingBytes = 2 << 20;

struct Weight {
  WeightShape shape;
  const std::byte* data = nullptr;
  const PackedFormat* format = nullptr;

  // Rows in whole units; the rest is as in the file.
  uint64_t n_packed_rows() const;
  // Row r; its unit begins there when r is packed and a multiple of format->n_rows.
  const std::byte* row(uint64_t r) const { return data + r * shape.row_bytes(); }
  uint64_t n_groups() const { return shape.row_elements / packed_elements(shape.dtype); }
};

// One row as floats. REQUIRES: it exists
void decode_row(float* to, const Weight& weight, uint64_t r);  // to: row_elements

}  // namespace rocmforge::cpu
