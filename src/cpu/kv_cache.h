#pragma once
// The bytes behind page ids. A page holds kPageTokens positions of every layer; inside, keys and values lie apart and
// heads lie apart, so that one head's keys of a page are a small matrix, a row per position:
//
//   page -> layer -> keys | values -> head -> position (64) -> element
//
// When the head size is not known beforehand, a row is the keys of all heads.

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
  uint64_t plane_bytes() const { return uint64_t{kPageTokens} * width * element_bytes(); }  // keys of one layer
  uint64_t total_bytes() const {  // more than any machine has when it does not fit 64 bits
    const CheckedU64 total = CheckedU64(plane_bytes()) * 2 * n_layers * n_pages;
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

  // Where the cache's head `head` has its row for a position.
  std::byte* at(PageId page, uint32_t layer, KvPlane plane, uint32_t head, uint32_t position_in_page) const {
    CHECK(page.value < shape_.n_pages && layer < shape_.n_layers && position_in_page < kPageTokens);
    CHECK(uint64_t{head} * shape_.head_size < shape_.width);
    const uint64_t plane_index = (uint64_t{page.value} * shape_.n_layers + layer) * 2 + static_cast<uint64_t>(plane);
    const uint64_t row = uint64_t{head} * kPageTokens + position_in_page;
    return memory_.data() + plane_index * shape_.plane_bytes() + row * row_bytes();
  }

  // The first n_positions rows of a page for an attention head of this size.
  FloatRows head_rows(PageId page, uint32_t layer, KvPlane plane, uint32_t head, uint32_t head_size,
                      uint32_t n_positions) const {
    const uint64_t element = uint64_t{head} * head_size;
    CHECK(element + head_size <= shape_.width && (head_size == shape_.head_size || shape_.head_size == shape_.width));
    const std::byte* row = at(page, layer, plane, static_cast<uint32_t>(element / shape_.head_size), 0);
    return {row + element % shape_.head_size * shape_.element_bytes(), row_bytes(), n_positions, head_size};
  }

 private:
  uint64_t row_bytes() const { return shape_.head_size * shape_.element_bytes(); }

  KvShape shape_;
  Memory memory_;
};

}  // namespace rocmforge::cpu
