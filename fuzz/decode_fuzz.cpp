// Any bytes as weights: the first byte picks the type, the rest are its blocks. Every bit pattern decodes without
// reading or writing outside, and a block decodes to the same bits alone as among others.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "tensor/codec.h"
#include "tensor/dtype.h"

namespace {

using namespace rocmforge;

std::vector<DTypeInfo> weight_types() {
  std::vector<DTypeInfo> types;
  for (const DTypeInfo& type : all_dtypes()) {
    if (type.use == DTypeUse::weight) types.push_back(type);
  }
  return types;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<DTypeInfo> types = weight_types();
  if (size == 0) return 0;
  const DTypeInfo& type = types[data[0] % types.size()];
  const size_t n_blocks = std::max<size_t>(1, (size - 1) / type.block_bytes);
  // Of exact size, so that a step outside is seen.
  std::vector<std::byte> blocks(n_blocks * type.block_bytes);
  if (size > 1) std::memcpy(blocks.data(), data + 1, std::min(size - 1, blocks.size()));
  std::vector<float> all(n_blocks * type.block_elements);
  decode(all, type.dtype, blocks);

  const size_t last = n_blocks - 1;
  std::vector<float> alone(type.block_elements);
  decode(alone, type.dtype, std::span(blocks).subspan(last * type.block_bytes));
  CHECK(std::memcmp(alone.data(), all.data() + last * type.block_elements, alone.size() * sizeof(float)) == 0);
  return 0;
}
