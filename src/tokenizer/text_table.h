#pragma once
// Maps texts to numbers and back: all bytes in one arena, with one flat hash table. Built once, then read by many
// threads.

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

  // Gives `text` the next number. If an equal text has a number already, returns that one, which find() keeps
  // returning. An empty text is never found.
  std::optional<uint32_t> add(std::string_view text);

  std::optional<uint32_t> find(std::string_view text) const;

 private:
  struct Slot {
    uint32_t hash = 0;
    uint32_t number_plus_1 = 0;  // 0: free
    uint32_t begin = 0;          // the text's offset in the arena: saves a memory access per comparison
    uint32_t n_bytes = 0;
  };
  // The slot that holds `text`, or the free slot where it would go. REQUIRES: slots_ is not empty
  size_t slot_of(std::string_view text, uint64_t hash) const;

  HashKey key_ = process_hash_key();  // a copy saves a memory access per lookup
  std::string bytes_;
  std::vector<uint32_t> ends_;
  std::vector<Slot> slots_;  // a power of two, at most half full
};

}  // namespace rocmforge::tokenizer
