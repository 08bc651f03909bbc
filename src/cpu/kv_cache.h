#pragma once
// The bytes behind page ids. A page holds kPageTokens positions of every layer; inside, heads lie apart, and a head's
// keys and values are two small matrices, one behind the other, as attention reads them:
//
//   page -> layer -> head -> keys: element -> position (64) | values: position (64) -> element
//
// So a query's scores are a sum of rows of keys, as its output is a sum of rows of values: nothing is ever summed
// across a register. When the head size is not known beforehand, all heads are one.

#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/check.h"
#include "base/checked.h"
#include "cpu/isa/kernels.h"
#include "cpu/memory.h"
#include "kv/page.h"
#include "plan/backend.h"

namespace rocmforge::cpu {

struct KvShape {
  uint32_t n_pages = 0;
  uint32_t n_layers = 0;
  uint32_t width = 0;      // of one position's keys
  uint32_t head_size = 0;  // divides width; width itself when it is not known
  KvType type = KvType::f16;

  uint64_t element_bytes() const { return type == KvType::f16 ? 2 : 4; }
  uint64_t n_heads() const { return width / head_size; }
  uint64_t head_bytes() const { return uint64_t{kPageTokens} * head_size * element_bytes(); }  // keys of one head
  uint64_t total_bytes() const {  // more than any machine has when it does not fit 64 bits
    const CheckedU64 total = CheckedU64(uint64_t{kPageTokens} * width * element_bytes()) * 2 * n_layers * n_pages;
    return total.get().value_or(std::numeric_limits<uint64_t>::max());
  }
};

enum class KvPlane : uint8_t { keys, values };

class KvCache {
 public:
  KvCache() = default;
  KvCache(const KvShape& shape, Memory memory) : shape_(shape), memory_(std::move(memory)) {
    CHECK(shape.width % shape.head_size == 0 && memory_.size() >= shape.total_bytes());
  }

  const KvShape& shape() const { return shape_; }

  // Where a cache's head begins.
  std::byte* head_at(PageId page, uint32_t layer, KvPlane plane, uint64_t head) const {
    CHECK(page.value < shape_.n_pages && layer < shape_.n_layers && head < shape_.n_heads());
    const uint64_t index = (uint64_t{page.value} * shape_.n_layers + layer) * shape_.n_heads() + head;
    return memory_.data() + (index * 2 + static_cast<uint64_t>(plane)) * shape_.head_bytes();
  }

  // An attention head of this size, the first n_positions of a page: a row for each element of the keys, ...
  FloatRows keys(PageId page, uint32_t layer, uint32_t head, uint32_t head_size, uint32_t n_positions) const {
    const uint64_t row_bytes = kPageTokens * shape_.element_bytes();
    const auto [begin, element] = find_head(page, layer, KvPlane::keys, head, head_size);
    return {begin + element * row_bytes, row_bytes, head_size, n_positions};
  }
  // ... and one for each position of the values.
  FloatRows values(PageId page, uint32_t layer, uint32_t head, uint32_t head_size, uint32_t n_positions) const {
    const auto [begin, element] = find_head(page, layer, KvPlane::values, head, head_size);
    return {begin + element * shape_.element_bytes(), shape_.head_size * shape_.element_bytes(), n_positions,
            head_size};
  }

 private:
  struct Place {
    const std::byte* begin;  // of the cache's head
    uint64_t element;        // of that head, where the attention's begins
  };
  Place find_head(PageId page, uint32_t layer, KvPlane plane, uint32_t head, uint32_t head_size) const {
    const uint64_t element = uint64_t{head} * head_size;
    CHECK(element + head_size <= shape_.width && (head_size == shape_.head_size || shape_.head_size == shape_.width));
    return {head_at(page, layer, plane, element / shape_.head_size), element % shape_.head_size};
  }

  KvShape shape_;
  Memory memory_;
};

}  // namespace rocmforge::cpu
