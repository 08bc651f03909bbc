#pragma once
// WordPiece, as BERT does it: text is cleaned and cut at white space and punctuation; each word is spelled with the
// longest tokens from its left. A word that cannot be spelled is one unknown token.
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

  // Appends the tokens of `text`. REQUIRES: valid UTF-8
  void encode(std::vector<TokenId>& out, std::string_view text) const;

 private:
  explicit WpmModel(const Vocabulary& vocabulary) : vocabulary_(&vocabulary) {}
  void encode_word(std::vector<TokenId>& out, std::string_view word, size_t n_characters) const;

  const Vocabulary* vocabulary_;
  Trie trie_;
};

}  // namespace rocmforge::tokenizer
