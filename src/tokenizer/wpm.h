#pragma once
// WordPiece as in BERT: text is cleaned and split at white space and punctuation; each word is segmented from its left
// into the longest tokens. A word that cannot be segmented is one unknown token.
//
// Threads: immutable.

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocabulary.h"

namespace rocmforge::tokenizer {

class WpmModel {
 public:
  // `vocabulary` must outlive the model.
  static Result<WpmModel> build(const Vocabulary& vocabulary);

  class Session {
   public:
    Session(const WpmModel& model, std::string_view, std::vector<TokenId>& out) : model_(model), out_(out) {}

    // Appends the tokens of `fragment`. REQUIRES: valid UTF-8
    Result<void> encode(std::string_view fragment);

   private:
    void add(char32_t c);
    void end_word();

    const WpmModel& model_;
    std::vector<TokenId>& out_;
    std::string word_;  // preceded by the marker for the start of a word
    size_t n_characters_ = 0;
  };

 private:
  explicit WpmModel(const Vocabulary& vocabulary) : vocabulary_(&vocabulary) {}

  const Vocabulary* vocabulary_;
  Trie trie_;
};

}  // namespace rocmforge::tokenizer
