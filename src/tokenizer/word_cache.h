#pragma once
// The tokens of words already seen in one text. An entry is only the position of the word and of its tokens, so a hit
// is a comparison with the earlier text and a copy of the earlier tokens.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/seeded_hash.h"

namespace rocmforge::tokenizer {

class WordCache {
 public:
  // For about n_bytes of text whose tokens go to `out`, which must outlive the cache.
  WordCache(size_t n_bytes, std::vector<TokenId>& out) : out_(out) {
    if (n_bytes >= kLeastText) slots_.resize(std::min(std::bit_floor(n_bytes / 8), kMostSlots));
  }

  // Appends the tokens of `word`, a view into `text`. If the word was seen before with the same `salt`, copies its
  // tokens and returns true; else calls compute(), which appends them, and returns its result. Between calls `text` may
  // grow at its end.
  template <class Compute>
  bool tokens_of(std::string_view word, std::string_view text, uint32_t salt, const Compute& compute) {
    if (slots_.empty() || word.size() > kMostBytes) return compute();
    const uint64_t hash = seeded_hash(word, salt, key_);
    const size_t index = hash & (slots_.size() - 1);
    const auto tag = static_cast<uint32_t>(hash >> 32);
    const Slot seen = slots_[index];
    if (seen.tag == tag && text.substr(seen.text_at, seen.n_bytes) == word && seen.salt == salt) {
      for (uint32_t i = 0; i < seen.n_tokens; i++) out_.push_back(out_[seen.out_at + i]);
      return true;
    }
    const size_t out_at = out_.size();
    if (!compute()) return false;
    slots_[index] = {tag,
                     static_cast<uint32_t>(word.data() - text.data()),
                     static_cast<uint32_t>(out_at),
                     static_cast<uint8_t>(salt),
                     static_cast<uint8_t>(word.size()),
                     static_cast<uint16_t>(out_.size() - out_at)};
    return true;
  }

 private:
  static constexpr size_t kLeastText = 512;  // below, a cache costs more than it saves
  static constexpr size_t kMostSlots = 1u << 15;
  static constexpr size_t kMostBytes = 63;

  struct Slot {
    uint32_t tag = 0;
    uint32_t text_at = 0;
    uint32_t out_at = 0;
    uint8_t salt = 0;
    uint8_t n_bytes = 0;  // 0: free (a word has bytes)
    uint16_t n_tokens = 0;
  };

  HashKey key_ = process_hash_key();
  std::vector<TokenId>& out_;
  std::vector<Slot> slots_;
};

}  // namespace rocmforge::tokenizer
