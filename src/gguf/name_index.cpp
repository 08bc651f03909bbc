#include "gguf/name_index.h"

#include <algorithm>
#include <functional>

namespace rocmforge::gguf {

NameIndex::NameIndex(std::span<const std::string_view> names) {
  slots_.reserve(names.size());
  for (size_t i = 0; i < names.size(); i++) slots_.push_back({std::hash<std::string_view>{}(names[i]), names[i], i});
  std::sort(slots_.begin(), slots_.end());
}

std::optional<size_t> NameIndex::find(std::string_view name) const {
  const auto slot = std::lower_bound(slots_.begin(), slots_.end(), Slot{std::hash<std::string_view>{}(name), name, 0});
  if (slot == slots_.end() || slot->name != name) return std::nullopt;
  return slot->position;
}

std::optional<size_t> NameIndex::first_duplicate() const {
  std::optional<size_t> first;
  for (size_t i = 1; i < slots_.size(); i++) {
    if (slots_[i].hash != slots_[i - 1].hash || slots_[i].name != slots_[i - 1].name) continue;
    first = first ? std::min(*first, slots_[i].position) : slots_[i].position;
  }
  return first;
}

}  // namespace rocmforge::gguf
