#pragma once
// Finds the longest of many texts at a position. The edges of all nodes are in one flat hash table.
// Built once, then read by many threads.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/seeded_hash.h"

namespace rocmforge::tokenizer {

class Trie {
 public:
  struct Entry {
    std::string_view text;  // not empty; of equal texts the last one counts
    int32_t value;          // not negative
  };
  struct Match {
    size_t n_bytes;
    int32_t value;
  };

  Trie() = default;
  explicit Trie(const std::vector<Entry>& entries);

  bool empty() const { return values_.empty(); }
  // The longest entry that text[at..] begins with. REQUIRES: at < text.size()
  std::optional<Match> longest(std::string_view text, size_t at) const;
  // Calls f(n_bytes, value) for every entry that text[at..] begins with, shortest first.
  template <class F>
  void each(std::string_view text, size_t at, F&& f) const {
    uint32_t node = roots_[static_cast<unsigned char>(text[at])];
    for (size_t end = at + 1; node != 0; end++) {
      if (values_[node] >= 0) f(end - at, values_[node]);
      if (end == text.size()) return;
      node = edges_[slot_of(static_cast<uint64_t>(node) << 8 | static_cast<unsigned char>(text[end]))].node;
    }
  }

 private:
  struct Edge {
    uint64_t key = 0;  // node << 8 | byte; 0: free (the root's edges are in roots_)
    uint32_t node = 0;
  };
  size_t slot_of(uint64_t key) const;

  HashKey key_ = process_hash_key();

  std::array<uint32_t, 256> roots_{};  // the node of each first byte; 0: none
  std::vector<Edge> edges_;            // a power of two, at most half full
  std::vector<int32_t> values_;        // per node; -1: no text ends here
};

}  // namespace rocmforge::tokenizer
