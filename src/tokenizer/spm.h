#pragma once
// SentencePiece's byte pair encoding: neighbours join where the result is a token, best score first. Characters outside
// the vocabulary become bytes.
//
// Threads: immutable.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tokenizer/join_filter.h"
#include "tokenizer/merge.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/word_cache.h"

namespace rocmforge::tokenizer {

class SpmModel {
 public:
  // `vocabulary` must outlive the model.
  explicit SpmModel(const Vocabulary& vocabulary);

  // The encoding of one text, fragment by fragment: words seen in one are known in the next.
  class Session {
   public:
    Session(const SpmModel& model, std::string_view whole_text, std::vector<TokenId>& out)
        : model_(model), out_(out), cache_(whole_text.size(), out) {}

    // Appends the tokens of `fragment`, any bytes. It stands at the start of the text or after a special token, where
    // some models want a space.
    Result<void> encode(std::string_view fragment);

   private:
    void encode_word(std::string_view word);

    const SpmModel& model_;
    std::vector<TokenId>& out_;
    WordCache cache_;
    std::string text_;  // all fragments so far, with their spaces escaped
    std::vector<Symbol> symbols_;
  };

 private:
  Joined token_spelled(std::string_view text) const;
  Joined find(std::string_view text) const;

  const Vocabulary* vocabulary_;
  std::vector<uint32_t> ranks_;  // per token, lower joins first; kNoRank: text never becomes it
  std::vector<Joined> ascii_;    // token_spelled of two ASCII characters: half of all questions in a long word
  JoinFilter joins_;
  size_t longest_ = 0;  // bytes of the longest token that text may become
};

}  // namespace rocmforge::tokenizer
