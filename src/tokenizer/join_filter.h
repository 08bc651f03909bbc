#pragma once
// The pairs of characters that are neighbours in some token. If two neighbours of a text are such a pair in no token,
// no merge can join them, and the text can be cut there: merging then works on short words, which repeat.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/utf8.h"

namespace rocmforge::tokenizer {

class JoinFilter {
 public:
  JoinFilter() : bits_(kBits / 64) {}

  void add(std::string_view token) {
    for_each_pair(token, [&](size_t, size_t bit) { bits_[bit / 64] |= uint64_t{1} << bit % 64; });
  }

  // Calls on_word(view) for every maximal part of `text` whose neighbours may join, in order.
  template <class OnWord>
  void split(std::string_view text, const OnWord& on_word) const {
    size_t begin = 0;
    for_each_pair(text, [&](size_t at, size_t bit) {
      if (bits_[bit / 64] >> bit % 64 & 1) return;
      on_word(text.substr(begin, at - begin));
      begin = at;
    });
    if (begin < text.size()) on_word(text.substr(begin));
  }

 private:
  // Pairs may collide. A collision gives a longer word, never a wrong encoding.
  static constexpr size_t kBits = 1u << 20;

  // Calls f(offset of the second character, the pair's bit) for each pair of neighbours.
  template <class F>
  static void for_each_pair(std::string_view text, const F& f) {
    if (text.empty()) return;
    Utf8Step left = decode_utf8(text, 0);
    for (size_t at = left.n_bytes; at < text.size();) {
      const Utf8Step right = decode_utf8(text, at);
      const uint64_t pair = static_cast<uint64_t>(left.code_point) << 21 | right.code_point;
      f(at, (pair * 0x9E3779B97F4A7C15) >> 44);
      left = right;
      at += right.n_bytes;
    }
  }

  std::vector<uint64_t> bits_;
};

}  // namespace rocmforge::tokenizer
