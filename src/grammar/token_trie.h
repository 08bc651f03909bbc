#pragma once
// The texts of a vocabulary's tokens as tries, in the order of a depth-first walk: a subtree that cannot follow is left
// out by one jump. Tokens that may stand inside any JSON string are in tries of their own, the slices, which are
// allowed as a whole wherever such a string goes on.
//
// Threads: immutable.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace rocmforge::grammar {

// One bit per token.
class TokenMask {
 public:
  explicit TokenMask(size_t n_tokens = 0) : words_((n_tokens + 63) / 64), n_tokens_(n_tokens) {}
  void add(int32_t id) { words_[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64); }
  bool contains(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < n_tokens_ &&
           (words_[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0;
  }
  void add_all(const TokenMask& other) {
    for (size_t i = 0; i < words_.size(); i++) words_[i] |= other.words_[i];
  }
  size_t count() const;
  size_t n_tokens() const { return n_tokens_; }
  std::span<const uint64_t> words() const { return words_; }
  friend bool operator==(const TokenMask&, const TokenMask&) = default;

 private:
  std::vector<uint64_t> words_;
  size_t n_tokens_ = 0;
};

class TokenTrie {
 public:
  struct Node {
    int32_t token = -1;    // that ends here
    uint32_t n_below = 0;  // nodes of its subtree, itself excluded
    uint8_t byte = 0;
    uint8_t depth = 0;  // 1 for the first byte
  };
  struct Slice {
    uint32_t max_chars = 0;  // of its tokens; 0: the rest, of any bytes
    std::vector<Node> nodes;
    TokenMask tokens;
  };
  static constexpr size_t kMaxTokenBytes = 255;  // longer ones are left out: never chosen under a constraint

  // `text` gives a token's bytes, nothing for tokens that are no part of a text.
  TokenTrie(size_t n_tokens, const std::function<std::string_view(int32_t)>& text, std::vector<int32_t> end_of_text);
  static std::shared_ptr<const TokenTrie> of(const tokenizer::Tokenizer& tokenizer);

  size_t n_tokens() const { return n_tokens_; }
  std::string_view text(int32_t token) const;
  std::span<const int32_t> end_of_text() const { return end_of_text_; }
  bool is_end_of_text(int32_t token) const;
  std::span<const Slice> slices() const { return slices_; }
  // Pairs of tokens with one text: the first of each is in the tries.
  std::span<const std::pair<int32_t, int32_t>> duplicates() const { return duplicates_; }

 private:
  size_t n_tokens_;
  std::string texts_;
  std::vector<uint32_t> ends_;
  std::vector<int32_t> end_of_text_;
  std::vector<Slice> slices_;
  std::vector<std::pair<int32_t, int32_t>> duplicates_;
};

}  // namespace rocmforge::grammar
