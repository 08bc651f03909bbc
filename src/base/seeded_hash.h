#pragma once
// The hash of every table whose keys come from files or requests. Its key is drawn once per process, so no file or
// client can choose keys that collide. With std::hash, whose seed is known, one request could make a table quadratic.
//
// Every input word is combined with a secret word before multiplication: a sender who knows a factor could make the
// product zero whatever the rest of the text is. Values differ from process to process: do not store them.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace rocmforge {

struct HashKey {
  uint64_t words[4];  // the last is odd
};

// Random, the same for the whole life of the process.
const HashKey& process_hash_key();

namespace detail {

inline uint64_t folded_product(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace detail

// Of two numbers. All 64 bits of the result may be used.
inline uint64_t seeded_hash(uint64_t a, uint64_t b, const HashKey& key = process_hash_key()) {
  return detail::folded_product(detail::folded_product(a ^ key.words[0], b ^ key.words[1]) ^ key.words[2],
                                key.words[3]);
}

// Of a text; texts that are equal but must differ get different values of `salt`.
inline uint64_t seeded_hash(std::string_view text, uint64_t salt = 0, const HashKey& key = process_hash_key()) {
  const char* at = text.data();
  size_t left = text.size();
  const uint64_t end = key.words[2] ^ left ^ salt << 32;
  uint64_t state = key.words[1];
  for (; left > 16; left -= 16, at += 16) {
    uint64_t words[2];
    std::memcpy(words, at, 16);
    state = detail::folded_product(words[0] ^ key.words[0], words[1] ^ state);
  }
  uint64_t head = 0, tail = 0;  // together they cover the last 16 bytes, overlapping where there are fewer
  if (left >= 8) {
    std::memcpy(&head, at, 8);
    std::memcpy(&tail, at + left - 8, 8);
  } else if (left >= 4) {
    uint32_t first, last;
    std::memcpy(&first, at, 4);
    std::memcpy(&last, at + left - 4, 4);
    head = first, tail = last;
  } else if (left > 0) {
    head = static_cast<uint64_t>(static_cast<unsigned char>(at[0])) << 16 |
           static_cast<uint64_t>(static_cast<unsigned char>(at[left / 2])) << 8 |
           static_cast<unsigned char>(at[left - 1]);
  }
  return detail::folded_product(detail::folded_product(head ^ key.words[0], tail ^ state) ^ end, key.words[3]);
}

// For the standard library's containers.
struct SeededTextHash {
  size_t operator()(std::string_view text) const { return seeded_hash(text); }
};

}  // namespace rocmforge
