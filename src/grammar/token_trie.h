#pragma once
// The texts of a vocabulary's tokens as tries, stored in depth-first order, so that one jump skips a subtree that
// cannot follow. Tokens that are allowed inside any JSON string are in separate tries, the slices. A slice is allowed
// as a whole wherever such a string continues.
//
// Threads: immutable.

#include <array>
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
  void remove(int32_t id) { words_[static_cast<size_t>(id) / 64] &= ~(uint64_t{1} << (id % 64)); }
  bool contains(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < n_tokens_ &&
           (words_[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0;
  }
  void add_all(const TokenMask& other) {
    for (size_t i = 0; i < words_.size(); i++) words_[i] |= other.words_[i];
  }
  size_t count() const { return count(n_tokens_); }
  size_t count(size_t n) const;  // of the first n tokens
  bool is_full() const;
  std::vector<int32_t> ids() const;
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
    int32_t token = -1;    // the token that ends here; -1: none
    uint32_t n_below = 0;  // the number of descendants
    uint8_t byte = 0;
    uint8_t depth = 0;  // 1 for the first byte
  };
  struct Nodes {
    std::vector<Node> all;
    std::array<uint32_t, 257> first = {};  // by the first byte: where its nodes begin; they end where the next begin
    std::span<const Node> of_byte(uint8_t byte) const {
      return std::span(all).subspan(first[byte], first[byte + 1u] - first[byte]);
    }
  };
  struct Slice {
    uint32_t max_chars = 0;  // the most characters of its tokens; 0: the trie of all other tokens
    Nodes nodes;
    TokenMask tokens;
  };
  // Any token is characters that may stand in a JSON string, and an end: what begins with the first byte that is no
  // part of such a character.
  struct StringEnds {
    Nodes nodes;                        // the trie of the ends; Node::token is an end's number
    std::vector<uint32_t> first_token;  // by end, in `tokens`; one more than there are ends
    std::vector<int32_t> tokens;        // by end
    TokenMask whole;                    // the tokens without an end
  };
  static constexpr size_t kMaxTokenBytes = 255;  // longer tokens are left out: never chosen under a constraint

  // `text(id)` returns a token's bytes; empty for tokens that are not part of a text.
  TokenTrie(size_t n_tokens, const std::function<std::string_view(int32_t)>& text, std::vector<int32_t> end_of_text);
  static std::shared_ptr<const TokenTrie> of(const tokenizer::Tokenizer& tokenizer);
  // Control tokens, and the tokens `markers` (ascending), have the texts that StreamDecoder gives to marked tokens. A
  // grammar can thus tell a marker from the same letters in ordinary text.
  static std::shared_ptr<const TokenTrie> with_controls(const tokenizer::Tokenizer& tokenizer,
                                                        std::span<const TokenId> markers);

  size_t n_tokens() const { return n_tokens_; }
  std::string_view text(int32_t token) const;
  std::span<const int32_t> end_of_text() const { return end_of_text_; }
  bool is_end_of_text(int32_t token) const;
  // Whether the token is in one of the slices of tokens that may stand in any JSON string.
  bool is_string_safe(int32_t token) const;
  // Whether there is a token with the text `begin` and more.
  bool has_longer_token(std::string_view begin) const;
  std::span<const Slice> slices() const { return slices_; }
  const StringEnds& string_ends() const { return string_ends_; }
  // Pairs of tokens with equal texts. Only the first of each pair is in the tries.
  std::span<const std::pair<int32_t, int32_t>> duplicates() const { return duplicates_; }

 private:
  size_t n_tokens_;
  std::string texts_;
  std::vector<uint32_t> ends_;
  std::vector<int32_t> end_of_text_;
  void add_string_ends();

  std::vector<Slice> slices_;
  StringEnds string_ends_;
  std::vector<std::pair<int32_t, int32_t>> duplicates_;
};

}  // namespace rocmforge::grammar
