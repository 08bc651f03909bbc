#pragma once
// Position by name. Entries are sorted by hash and then by name: a look-up compares integers, and names chosen to have
// equal hashes slow it down by a factor of log n, never by n.
//
// Threads: immutable after construction. The names are views; the index's owner owns their bytes.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace rocmforge::gguf {

class NameIndex {
 public:
  NameIndex() = default;
  explicit NameIndex(std::span<const std::string_view> names);

  // The first position that has this name.
  std::optional<size_t> find(std::string_view name) const;

  // The lowest position whose name also occurs at a lower position.
  std::optional<size_t> first_duplicate() const;

 private:
  struct Slot {
    size_t hash;
    std::string_view name;
    size_t position;
    friend auto operator<=>(const Slot&, const Slot&) = default;
  };
  std::vector<Slot> slots_;
};

// The names of `items` (anything with a member of that kind), to build an index from.
template <class Item>
std::vector<std::string_view> names_of(std::span<const Item> items, std::string_view Item::* name) {
  std::vector<std::string_view> names;
  names.reserve(items.size());
  for (const Item& item : items) names.push_back(item.*name);
  return names;
}

}  // namespace rocmforge::gguf
