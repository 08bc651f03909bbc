#include "tokenizer/text_table.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"

namespace rocmforge::tokenizer {

TextTable::TextTable(size_t n_texts, size_t n_bytes) : slots_(std::bit_ceil(std::max<size_t>(2 * n_texts, 2))) {
  CHECK(n_bytes <= std::numeric_limits<uint32_t>::max());
  bytes_.reserve(n_bytes);
  ends_.reserve(n_texts);
}

size_t TextTable::slot_of(std::string_view text, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.number_plus_1 == 0) return i;
    if (slot.hash == tag && std::string_view(bytes_).substr(slot.begin, slot.n_bytes) == text) return i;
  }
}

std::optional<uint32_t> TextTable::add(std::string_view text) {
  CHECK(2 * (size() + 1) <= slots_.size());
  bytes_.append(text);
  ends_.push_back(static_cast<uint32_t>(bytes_.size()));
  if (text.empty()) return std::nullopt;
  const uint64_t hash = seeded_hash(text, 0, key_);
  Slot& slot = slots_[slot_of(text, hash)];
  if (slot.number_plus_1 != 0) return slot.number_plus_1 - 1;
  const auto n_bytes = static_cast<uint32_t>(text.size());
  slot = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(size()), ends_.back() - n_bytes, n_bytes};
  return std::nullopt;
}

std::optional<uint32_t> TextTable::find(std::string_view text) const {
  if (text.empty() || slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[slot_of(text, seeded_hash(text, 0, key_))];
  if (slot.number_plus_1 == 0) return std::nullopt;
  return slot.number_plus_1 - 1;
}

}  // namespace rocmforge::tokenizer
