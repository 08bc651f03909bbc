#pragma once
// SentencePiece's unigram model, as in T5 and XLM-RoBERTa: text is normalised by a table, then segmented into the
// tokens with the largest sum of scores. Characters that no token covers become one unknown token.
//
// Threads: immutable.

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocabulary.h"

namespace rocmforge::tokenizer {

class UgmModel {
 public:
  // `vocabulary` must outlive the model. Errors: tokenizer_vocabulary, limit_exceeded.
  static Result<UgmModel> build(const Vocabulary& vocabulary);

  class Session {
   public:
    Session(const UgmModel& model, std::string_view, std::vector<TokenId>& out) : model_(model), out_(out) {}

    // Appends the tokens of `fragment`, any bytes. Invalid UTF-8 is read as U+FFFD.
    Result<void> encode(std::string_view fragment);

   private:
    // The best segmentation of the text up to a position.
    struct Best {
      double score;
      uint32_t begin;  // of the last token
      int32_t token;   // the last token; kUnknown: no token covers the character
    };
    void normalise(std::string_view fragment);
    void append(std::string_view text);
    void spell();
    void reach(size_t end, double score, size_t begin, int32_t token);
    void take_until(size_t end);

    const UgmModel& model_;
    std::vector<TokenId>& out_;
    std::string text_;  // normalised
    bool is_in_word_ = false, has_space_ = false;
    std::vector<Best> best_;  // for positions from first_ on
    size_t first_ = 0;
    bool was_unknown_ = false;
    std::vector<int32_t> taken_;
  };

 private:
  explicit UgmModel(const Vocabulary& vocabulary) : vocabulary_(&vocabulary) {}

  const Vocabulary* vocabulary_;
  Charsmap charsmap_;
  Trie trie_;
  double unknown_score_ = 0;
};

}  // namespace rocmforge::tokenizer
