#pragma once
// SentencePiece's byte pair encoding: neighbours join where the result is a token, best score first. Characters outside
// the vocabulary become bytes.
//
// Threads: immutable.

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "tokenizer/join_filter.h"
#include "tokenizer/merge.h"
#include "tokenizer/vocabulary.h"

namespace rocmforge::tokenizer {

class SpmModel {
 public:
  // `vocabulary` must outlive the model.
  explicit SpmModel(const Vocabulary& vocabulary);

  // Appends the tokens of `text`, any bytes; with a space before it if asked.
  void encode(std::vector<TokenId>& out, std::string_view text, bool space_before) const;

 private:
  void encode_word(std::vector<TokenId>& out, std::string_view word, std::vector<Symbol>& symbols) const;
  Joined token_spelled(std::string_view text) const;

  const Vocabulary* vocabulary_;
  JoinFilter joins_;
  size_t longest_ = 0;  // bytes of the longest token that text may become
};

}  // namespace rocmforge::tokenizer
