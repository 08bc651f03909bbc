#pragma once
// The bytes behind page ids. A page holds kPageTokens positions of every layer; inside, heads lie apart, and a head's
// keys and values are two small matrices, one behind the other, as attention reads them:
//
// Windowed layers may have pages of their own, which lie behind the others.
//
//   page -> layer -> head -> keys: element -> position (64) | values: position (64) -> element
//
// So a query's scores are a sum of rows of keys, as its output is a sum of rows of values: nothing is ever summed
// across a register. When the head size is not known beforehand, all heads are one.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/check.h"
#include "base/checked.h"
#include "cpu/isa/kernels.h"
#include "cpu/memory.h"
#include "kv/page.h"
#include "plan/backend.h"
#include "plan/batch.h"

namespace rocmforge::cpu {

struct KvShape {
  uint32_t n_pages = 0;
  uint32_t n_layers = 0;
  uint32_t width = 0;      // of one position's keys
  uint32_t head_size = 0;  // divides width; width itself when it is not known
  KvType type = KvType::f16;
  std::vector<KvLayer> layers = {};  // where layers differ; then width and head_size say nothing
  // Pages of windowed layers and which layers these are; 0: they are in the other pages.
  uint32_t n_window_pages = 0;
  std::vector<uint8_t> windowed = {};

  uint64_t element_bytes() const { return type == KvType::f16 ? 2 : 4; }
  KvLayer layer(uint32_t i) const {
    if (!layers.empty()) return layers[i];
    return {head_size != 0 ? width / head_size : 0, head_size, head_size};
  }
  CheckedU64 layer_bytes(uint32_t i) const {  // of a page
    const KvLayer of = layer(i);
    return CheckedU64(uint64_t{of.key_size} + of.value_size) * of.n_heads * kPageTokens * element_bytes();
  }
  bool in_window_pages(uint32_t i) const { return n_window_pages > 0 && !windowed.empty() && windowed[i] != 0; }
  // Of a page of windowed layers, or of the others.
  CheckedU64 page_bytes(bool of_windows = false) const {
    CheckedU64 total = 0u;
    for (uint32_t i = 0; i < n_layers; i++) {
      if (in_window_pages(i) == of_windows) total = total + layer_bytes(i);
    }
    return total;
  }
  uint64_t total_bytes() const {  // more than any machine has when it does not fit 64 bits
    const CheckedU64 total = page_bytes() * n_pages + page_bytes(true) * n_window_pages;
    return total.get().value_or(std::numeric_limits<uint64_t>::max());
  }
};

enum class KvPlane : uint8_t { keys, values };

class KvCache {
 public:
  KvCache() = default;
  KvCache(const KvShape& shape, Memory memory) : shape_(shape), memory_(std::move(memory)) {
    CHECK(memory_.size() >= shape.total_bytes());
    // Pages of windowed layers lie behind the others.
    const uint64_t page_bytes = shape.page_bytes().value(), window_bytes = shape.page_bytes(true).value();
    uint64_t at = 0, at_window = page_bytes * shape.n_pages;
    for (uint32_t i = 0; i < shape.n_layers; i++) {
      const bool is_windowed = shape.in_window_pages(i);
      uint64_t& begin = is_windowed ? at_window : at;
      places_.push_back({begin, is_windowed ? window_bytes : page_bytes,
                         is_windowed ? shape.n_window_pages : shape.n_pages, shape.layer(i)});
      begin += shape.layer_bytes(i).value();
    }
  }

  // The page of a sequence that holds this layer's position.
  PageId page_of(const BatchSequence& sequence, uint32_t layer, uint32_t page) const {
    return (shape_.in_window_pages(layer) ? sequence.window_pages : sequence.pages)[page];
  }

  const KvShape& shape() const { return shape_; }
  const KvLayer& layer(uint32_t i) const {
    CHECK(i < places_.size());
    return places_[i].layer;
  }

  // Where a cache's head begins.
  std::byte* head_at(PageId page, uint32_t layer, KvPlane plane, uint64_t head) const {
    CHECK(layer < places_.size());
    const Place& place = places_[layer];
    CHECK(page.value < place.n_pages && head < place.layer.n_heads);
    const uint64_t position_bytes = kPageTokens * shape_.element_bytes();
    const uint64_t key_bytes = position_bytes * place.layer.key_size;
    const uint64_t head_bytes = key_bytes + position_bytes * place.layer.value_size;
    return memory_.data() + page.value * place.page_bytes + place.begin + head * head_bytes +
           (plane == KvPlane::values ? key_bytes : 0);
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
    return {begin + element * shape_.element_bytes(), places_[layer].layer.value_size * shape_.element_bytes(),
            n_positions, head_size};
  }

 private:
  struct HeadPlace {
    const std::byte* begin;  // of the cache's head
    uint64_t element;        // of that head, where the attention's begins
  };
  HeadPlace find_head(PageId page, uint32_t layer, KvPlane plane, uint32_t head, uint32_t head_size) const {
    const KvLayer& of = this->layer(layer);
    const uint32_t size = plane == KvPlane::keys ? of.key_size : of.value_size;
    const uint64_t element = uint64_t{head} * head_size;
    CHECK(element + head_size <= uint64_t{of.n_heads} * size && (head_size == size || of.n_heads == 1));
    return {head_at(page, layer, plane, element / size), element % size};
  }

  struct Place {
    uint64_t begin;  // of the first page's part
    uint64_t page_bytes;
    uint32_t n_pages;
    KvLayer layer;
  };
  std::vector<Place> places_;  // by layer
  KvShape shape_;
  Memory memory_;
};

}  // namespace rocmforge::cpu
