#pragma once
// Texts by number and numbers by text: every byte in one arena, one flat hash table over it. Built once, then read by
// many threads.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/seeded_hash.h"

namespace rocmforge::tokenizer {

class TextTable {
 public:
  TextTable() = default;
  // Room for this many texts. REQUIRES: n_bytes < 2^32
  TextTable(size_t n_texts, size_t n_bytes);

  size_t size() const { return ends_.size(); }
  std::string_view operator[](size_t number) const {
    const size_t begin = number == 0 ? 0 : ends_[number - 1];
    return std::string_view(bytes_).substr(begin, ends_[number] - begin);
  }

  // Gives `text` the next number. When an equal text already has one, that number is returned and stays the one found.
  // An empty text is never found.
  std::optional<uint32_t> add(std::string_view text);

  std::optional<uint32_t> find(std::string_view text) const;

 private:
  struct Slot {
    uint32_t hash = 0;
    uint32_t number_plus_1 = 0;  // 0: free
    uint32_t begin = 0;          // where the text lies, so that comparing it takes one look less
    uint32_t n_bytes = 0;
  };
  // The slot that holds `text`, or the free one where it would go. REQUIRES: slots_ is not empty
  size_t slot_of(std::string_view text, uint64_t hash) const;

  HashKey key_ = process_hash_key();  // a copy: one look less
  std::string bytes_;
  std::vector<uint32_t> ends_;
  std::vector<Slot> slots_;  // a power of two, at most half full
};

}  // namespace rocmforge::tokenizer
