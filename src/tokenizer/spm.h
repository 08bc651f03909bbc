#pragma once
// SentencePiece's byte pair encoding: neighbours are joined if the result is a token, best score first. Characters
// outside the vocabulary become bytes.
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

  // Encodes one text, fragment by fragment; the word cache serves all fragments.
  class Session {
   public:
    Session(const SpmModel& model, std::string_view whole_text, std::vector<TokenId>& out)
        : model_(model), out_(out), cache_(whole_text.size(), out) {}

    // Appends the tokens of `fragment`, any bytes. A fragment is at the start of the text or follows a special token;
    // some models add a space there.
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
  std::vector<uint32_t> ranks_;  // per token; lower ranks join first; kNoRank: text never becomes this token
  std::vector<Joined> ascii_;    // token_spelled() of two ASCII characters: half of all lookups in a long word
  JoinFilter joins_;
  size_t longest_ = 0;  // bytes of the longest token that text may become
};

}  // namespace rocmforge::tokenizer
