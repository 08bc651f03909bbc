#include "tokenizer/spm.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/utf8.h"
#include "tokenizer/escape.h"
#include "tokenizer/word_cache.h"

namespace rocmforge::tokenizer {
namespace {

// Higher scores first: the bits of a float, rearranged to order as an integer does. Never kNoRank, whose score is no
// number.
uint32_t rank_of(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 and 0 are equal
  const uint32_t ascending = bits & 0x8000'0000u ? ~bits : bits | 0x8000'0000u;
  return ~ascending;
}

}  // namespace

SpmModel::SpmModel(const Vocabulary& v) : vocabulary_(&v) {
  for (size_t i = 0; i < v.size(); i++) {
    if (!v.is_text(static_cast<int32_t>(i))) continue;
    joins_.add(v.tokens[i]);
    longest_ = std::max(longest_, v.tokens[i].size());
  }
}

Joined SpmModel::token_spelled(std::string_view text) const {
  if (text.size() > longest_) return {};
  const auto id = vocabulary_->tokens.find(text);
  if (!id || !vocabulary_->is_text(static_cast<int32_t>(*id))) return {};
  return {rank_of(vocabulary_->scores[*id]), static_cast<int32_t>(*id)};
}

void SpmModel::encode(std::vector<TokenId>& out, std::string_view text, bool space_before) const {
  std::string escaped = escape_spaces(text);
  if (space_before) escaped.insert(0, kEscapedSpace);
  WordCache cache(escaped, out);
  std::vector<Symbol> symbols;
  joins_.split(escaped, [&](std::string_view word) {
    cache.tokens_of(word, 0, [&] { return encode_word(out, word, symbols), true; });
  });
}

void SpmModel::encode_word(std::vector<TokenId>& out, std::string_view word, std::vector<Symbol>& symbols) const {
  symbols.clear();
  for (size_t at = 0; at < word.size();) {
    const size_t n_bytes = decode_utf8(word, at).n_bytes;
    symbols.push_back({.begin = static_cast<uint32_t>(at), .token = token_spelled(word.substr(at, n_bytes)).token});
    at += n_bytes;
  }
  const auto end_of = [&](uint32_t i) {
    return symbols[i].next == kNoSymbol ? word.size() : symbols[symbols[i].next].begin;
  };
  merge_symbols(symbols, [&](uint32_t left, uint32_t right) {
    const size_t begin = symbols[left].begin;
    return token_spelled(word.substr(begin, end_of(right) - begin));
  });
  for (uint32_t i = 0; i != kNoSymbol; i = symbols[i].next) {
    if (symbols[i].token >= 0) {
      out.push_back(TokenId(symbols[i].token));
      continue;
    }
    const std::string_view bytes = word.substr(symbols[i].begin, end_of(i) - symbols[i].begin);
    const auto token_of = [&](char byte) { return vocabulary_->byte_tokens[static_cast<unsigned char>(byte)]; };
    if (std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return token_of(byte) >= 0; })) {
      for (const char byte : bytes) out.push_back(TokenId(token_of(byte)));
    } else if (vocabulary_->special.unk) {
      out.push_back(*vocabulary_->special.unk);
    }
  }
}

}  // namespace rocmforge::tokenizer
