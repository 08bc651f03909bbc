#pragma once
// Finds entries of a list by key: a flat hash table of positions beside a list that the caller owns and only appends
// to.
// Short lists have no table; a scan finds the entry.
//
// Keys from files and requests are hashed by base/seeded_hash.h.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace rocmforge {

class EntryIndex {
 public:
  // The position of the entry for which matches(position) holds, in a list of n_entries. hash() gives the hash of the
  // key.
  template <class Hash, class Matches>
  std::optional<size_t> find(size_t n_entries, const Hash& hash, const Matches& matches) const {
    if (slots_.empty()) {
      for (size_t i = 0; i < n_entries; i++) {
        if (matches(i)) return i;
      }
      return std::nullopt;
    }
    for (size_t at = hash() & mask(); slots_[at] != 0; at = (at + 1) & mask()) {
      if (matches(slots_[at] - 1)) return slots_[at] - 1;
    }
    return std::nullopt;
  }

  // Call after appending an entry; n_entries is the list's new size. hash_of(position) hashes that entry's key.
  template <class HashOf>
  void add_last(size_t n_entries, const HashOf& hash_of) {
    if (n_entries <= kScanLimit) return;
    size_t first = n_entries - 1;
    if (n_entries * 2 > slots_.size()) {
      slots_.assign(std::max(4 * kScanLimit, slots_.size() * 2), 0);
      first = 0;
    }
    for (size_t i = first; i < n_entries; i++) {
      size_t at = hash_of(i) & mask();
      while (slots_[at] != 0) at = (at + 1) & mask();
      slots_[at] = static_cast<uint32_t>(i + 1);
    }
  }

  void clear() { slots_.clear(); }

 private:
  static constexpr size_t kScanLimit = 8;
  size_t mask() const { return slots_.size() - 1; }

  std::vector<uint32_t> slots_;  // a power of two, at most half full: position + 1, or 0 if free; empty: scan
};

}  // namespace rocmforge
