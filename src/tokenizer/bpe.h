#pragma once
// Byte pair encoding: the pre-tokenizer cuts text into words, and in each word neighbours join in the order of the
// merge list. Byte-level vocabularies start from the word's bytes, others (Gemma 4) from its characters.
//
// Threads: immutable.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tokenizer/join_filter.h"
#include "tokenizer/merge.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace rocmforge::tokenizer {

// (left token, right token) -> what they join to: one flat hash table.
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

  std::vector<Slot> slots_;  // a power of two, at most half full
};

class BpeModel {
 public:
  // `vocabulary` must outlive the model.
  static Result<BpeModel> build(const Vocabulary& vocabulary);

  // Appends the tokens of `text`. REQUIRES: valid UTF-8
  Result<void> encode(std::vector<TokenId>& out, std::string_view text) const;

 private:
  class Run;
  BpeModel(const Vocabulary& vocabulary, PreTokenizer pre_tokenizer);

  const Vocabulary* vocabulary_;
  PreTokenizer pre_tokenizer_;
  MergeTable merges_;
  std::array<int32_t, 256> bytes_;  // byte-level: the token that spells this one byte; -1: none
  JoinFilter joins_;                // not byte-level
};

}  // namespace rocmforge::tokenizer
