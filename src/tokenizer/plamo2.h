#pragma once
// PLaMo 2's tokenizer: a text is segmented, from its end, into the tokens with the largest sum of scores. A character
// that costs less as unknown becomes the tokens of its bytes. Nothing is normalised, and spaces are characters.
//
// Threads: immutable.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocabulary.h"

namespace rocmforge::tokenizer {

class Plamo2Model {
 public:
  // `vocabulary` must outlive the model. Errors: tokenizer_vocabulary, limit_exceeded.
  static Result<Plamo2Model> build(const Vocabulary& vocabulary);

  class Session {
   public:
    Session(const Plamo2Model& model, std::string_view, std::vector<TokenId>& out) : model_(model), out_(out) {}

    // Appends the tokens of `fragment`. REQUIRES: valid UTF-8
    Result<void> encode(std::string_view fragment);

   private:
    // The best segmentation from a position to the text's end.
    struct Best {
      int64_t cost;
      uint32_t n_bytes;  // of the first token
      int32_t token;     // the first token; kUnknown: a character as its bytes
    };

    const Plamo2Model& model_;
    std::vector<TokenId>& out_;
    std::vector<Best> best_;
  };

 private:
  explicit Plamo2Model(const Vocabulary& vocabulary) : vocabulary_(&vocabulary) {}

  const Vocabulary* vocabulary_;
  Trie trie_;
  std::vector<int64_t> scores_;  // by token, in units of kScoreUnit
};

}  // namespace rocmforge::tokenizer
