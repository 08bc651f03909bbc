#include "cpu/weight.h"

#include "base/check.h"
#include "tensor/codec.h"
#include "tensor/packed.h"

namespace rocmforge::cpu {

const PackedFormat* packed_format(const Kernels& kernels, const WeightShape& shape) {
  if (shape.n_rows < kPackedRows || shape.row_bytes() > kStagingBytes / kPackedRows) return nullptr;
  if (shape.row_elements % kQuantElements != 0) return nullptr;
  for (size_t i = 0; i < kernels.n_packed; i++) {
    if (kernels.packed[i].dtype == static_cast<uint32_t>(shape.dtype)) return &kernels.packed[i];
  }
  return nullptr;
}

uint64_t Weight::n_packed_rows() const {
  return format == nullptr ? 0 : shape.n_rows - shape.n_rows % kPackedRows;
}

void decode_row(float* to, const Weight& weight, uint64_t r) {
  const WeightShape& shape = weight.shape;
  CHECK(r < shape.n_rows);
  if (r >= weight.n_packed_rows()) {
    decode({to, shape.row_elements}, shape.dtype, {weight.row(r), shape.row_bytes()});
    return;
  }
  const DTypeInfo& info = dtype_info(shape.dtype);
  const PackedCut cut = *packed_cut(shape.dtype);
  const std::byte* unit = weight.row(r - r % kPackedRows);
  for (uint64_t g = 0; g < weight.n_groups(); g++) {
    std::byte block[256];
    CHECK(info.block_bytes <= sizeof block);
    unpack_block(block, unit + g * cut.group_bytes(), r % kPackedRows, cut);
    decode({to + g * info.block_elements, info.block_elements}, shape.dtype, {block, info.block_bytes});
  }
}

}  // namespace rocmforge::cpu
