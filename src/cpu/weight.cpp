#include "cpu/weight.h"

#include "base/check.h"
#include "tensor/codec.h"

namespace rocmforge::cpu {

const PackedFormat* packed_format(const Kernels& kernels, const WeightShape& shape) {
  if (shape.row_elements % kQuantElements != 0) return nullptr;
  for (size_t i = 0; i < kernels.n_packed; i++) {
    const PackedFormat& format = kernels.packed[i];
    if (format.dtype != static_cast<uint32_t>(shape.dtype)) continue;
    const bool fits = shape.n_rows >= format.n_rows && shape.row_bytes() <= kStagingBytes / format.n_rows;
    return fits ? &format : nullptr;
  }
  return nullptr;
}

uint64_t Weight::n_packed_rows() const {
  return format == nullptr ? 0 : shape.n_rows - shape.n_rows % format->n_rows;
}

void decode_row(float* to, const Weight& weight, uint64_t r) {
  const WeightShape& shape = weight.shape;
  CHECK(r < shape.n_rows);
  if (r >= weight.n_packed_rows()) {
    decode({to, shape.row_elements}, shape.dtype, {weight.row(r), shape.row_bytes()});
    return;
  }
  const PackedCut cut = *packed_cut(shape.dtype);
  const size_t n_elements = packed_elements(shape.dtype);
  const size_t unit_rows = weight.format->n_rows;
  const std::byte* unit = weight.row(r - r % unit_rows);
  for (uint64_t g = 0; g < weight.n_groups(); g++) {
    std::byte block[256];
    CHECK(cut.block_bytes() <= sizeof block);
    unpack_block(block, unit + g * cut.group_bytes(unit_rows), unit_rows, r % unit_rows, cut);
    decode({to + g * n_elements, n_elements}, shape.dtype, {block, cut.block_bytes()});
  }
}

}  // namespace rocmforge::cpu
