#pragma once
// Byte pair encoding: the pre-tokenizer cuts text into words, and in each word neighbours join in the order of the
// merge list. Byte-level vocabularies start from the word's bytes, others (Gemma 4) from its characters.
//
// Threads: immutable.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/seeded_hash.h"
#include "tokenizer/join_filter.h"
#include "tokenizer/merge.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/word_cache.h"

namespace rocmforge::tokenizer {

// (left token, right token) -> the merge's rank and result: one flat hash table.
class MergeTable {
 public:
  explicit MergeTable(const Vocabulary& vocabulary);
  Joined find(int32_t left, int32_t right) const;

 private:
  struct Slot {
    int32_t left = -1;  // -1: free
    int32_t right = -1;
    Joined joined;
  };
  size_t slot_of(int32_t left, int32_t right) const;

  HashKey key_ = process_hash_key();
  std::vector<Slot> slots_;  // a power of two, at most half full
};

class BpeModel {
 public:
  // `vocabulary` must outlive the model.
  static Result<BpeModel> build(const Vocabulary& vocabulary);

  // Encodes one text, fragment by fragment; the word cache serves all fragments.
  class Session {
   public:
    Session(const BpeModel& model, std::string_view whole_text, std::vector<TokenId>& out);

    // Appends the tokens of `fragment`, a view into the whole text. REQUIRES: valid UTF-8
    Result<void> encode(std::string_view fragment);

   private:
    bool encode_part(std::string_view part, size_t step);
    bool encode_steps(std::string_view part, size_t step);
    void encode_word(std::string_view word);
    bool is_whole_token(std::string_view word);
    void merge_bytes(std::string_view word);
    void merge_characters(std::string_view word);
    void merge();

    const BpeModel& model_;
    const Vocabulary& vocabulary_;
    const PreTokenizerRules& rules_;
    std::vector<TokenId>& out_;
    WordCache cache_;
    std::string_view text_;  // the text that parts and words are views into: the whole text, or changed_
    std::string changed_;    // all fragments so far, normalised, if the model normalises characters
    std::vector<std::vector<PreTokenizer::Part>> parts_;  // per step
    Matcher matcher_;
    std::vector<Symbol> symbols_;
    std::string spelled_;
  };

 private:
  BpeModel(const Vocabulary& vocabulary, PreTokenizer pre_tokenizer);

  const Vocabulary* vocabulary_;
  PreTokenizer pre_tokenizer_;
  MergeTable merges_;
  std::array<int32_t, 256> bytes_;  // byte-level: the token of each single byte; -1: none
  JoinFilter joins_;                // not byte-level
};

}  // namespace rocmforge::tokenizer
