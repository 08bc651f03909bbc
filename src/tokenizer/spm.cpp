#include "tokenizer/spm.h"

#include <algorithm>
#include <bit>

#include "base/utf8.h"
#include "tokenizer/escape.h"

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

SpmModel::SpmModel(const Vocabulary& v) : vocabulary_(&v), ranks_(v.size(), kNoRank), ascii_(128 * 128) {
  for (size_t i = 0; i < v.size(); i++) {
    if (!v.is_text(static_cast<int32_t>(i))) continue;
    ranks_[i] = rank_of(v.scores[i]);
    joins_.add(v.tokens[i]);
    longest_ = std::max(longest_, v.tokens[i].size());
  }
  for (size_t pair = 0; pair < ascii_.size(); pair++) {
    const char text[] = {static_cast<char>(pair >> 7), static_cast<char>(pair & 0x7F)};
    ascii_[pair] = find({text, 2});
  }
}

Joined SpmModel::token_spelled(std::string_view text) const {
  if (text.size() > longest_) return {};
  if (text.size() == 2 && static_cast<signed char>(text[0]) >= 0 && static_cast<signed char>(text[1]) >= 0) {
    return ascii_[static_cast<size_t>(text[0]) << 7 | static_cast<size_t>(text[1])];
  }
  return find(text);
}

Joined SpmModel::find(std::string_view text) const {
  const auto id = vocabulary_->tokens.find(text);
  if (!id || ranks_[*id] == kNoRank) return {};
  return {ranks_[*id], static_cast<int32_t>(*id)};
}

Result<void> SpmModel::Session::encode(std::string_view fragment) {
  const size_t begin = text_.size();
  if (model_.vocabulary_->add_space_prefix) text_.append(kEscapedSpace);
  append_escaped(text_, fragment);
  model_.joins_.split(std::string_view(text_).substr(begin), [&](std::string_view word) {
    cache_.tokens_of(word, text_, 0, [&] { return encode_word(word), true; });
  });
  return {};
}

void SpmModel::Session::encode_word(std::string_view word) {
  symbols_.clear();
  symbols_.reserve(word.size());
  for (size_t at = 0; at < word.size();) {
    const size_t n_bytes = decode_utf8(word, at).n_bytes;
    const int32_t token = model_.token_spelled(word.substr(at, n_bytes)).token;
    symbols_.push_back({.begin = static_cast<uint32_t>(at), .token = token});
    at += n_bytes;
  }
  const auto end_of = [&](uint32_t i) {
    return symbols_[i].next == kNoSymbol ? word.size() : symbols_[symbols_[i].next].begin;
  };
  merge_symbols(symbols_, [&](uint32_t left, uint32_t right) {
    const size_t begin = symbols_[left].begin;
    return model_.token_spelled(word.substr(begin, end_of(right) - begin));
  });

  const Vocabulary& vocabulary = *model_.vocabulary_;
  const auto byte_token = [&](char byte) { return vocabulary.byte_tokens[static_cast<unsigned char>(byte)]; };
  for (uint32_t i = 0; i != kNoSymbol; i = symbols_[i].next) {
    const std::string_view bytes = word.substr(symbols_[i].begin, end_of(i) - symbols_[i].begin);
    if (symbols_[i].token >= 0) {
      out_.push_back(TokenId(symbols_[i].token));
    } else if (std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return byte_token(byte) >= 0; })) {
      for (const char byte : bytes) out_.push_back(TokenId(byte_token(byte)));
    } else if (vocabulary.special.unk) {
      out_.push_back(*vocabulary.special.unk);
    }
  }
}

}  // namespace rocmforge::tokenizer
