#pragma once
// Texts by number and numbers by text: every byte in one arena, one flat hash table over it. Built once, then read by
// many threads.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge::tokenizer {

// A fast hash of short texts; not for keys that must resist an attacker.
inline uint64_t hash_text(std::string_view text, uint64_t seed = 0) {
  constexpr uint64_t kA = 0x9E3779B97F4A7C15, kB = 0xD6E8FEB86659FD93;
  const auto mix = [](uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  const char* at = text.data();
  size_t left = text.size();
  uint64_t hash = seed ^ (left * kA);
  for (; left > 16; left -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    hash = mix(hash ^ word, kB);
  }
  uint64_t head = 0, tail = 0;  // together they cover the last 16 bytes, overlapping where there are fewer
  if (left >= 8) {
    std::memcpy(&head, at, 8);
    std::memcpy(&tail, at + left - 8, 8);
  } else if (left >= 4) {
    std::memcpy(&head, at, 4);
    std::memcpy(&tail, at + left - 4, 4);
  } else if (left > 0) {
    head = static_cast<uint64_t>(static_cast<unsigned char>(at[0])) << 16 |
           static_cast<uint64_t>(static_cast<unsigned char>(at[left / 2])) << 8 |
           static_cast<unsigned char>(at[left - 1]);
  }
  return mix(head ^ hash ^ kA, tail ^ kB);
}

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

  std::string bytes_;
  std::vector<uint32_t> ends_;
  std::vector<Slot> slots_;  // a power of two, at most half full
};

}  // namespace rocmforge::tokenizer
