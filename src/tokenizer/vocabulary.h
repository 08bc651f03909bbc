#pragma once
// A model's vocabulary from its GGUF file: plain data, checked once. Contradictions in the file are errors here, so
// that encoding and decoding see only consistent tables.
//
// Threads: immutable after load.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/load_control.h"
#include "base/result.h"
#include "gguf/metadata.h"
#include "tokenizer/pre_tokenizer_tables.h"
#include "tokenizer/text_table.h"

namespace rocmforge::tokenizer {

enum class Kind : uint8_t {
  spm,     // SentencePiece: pairs join by score, characters outside the vocabulary become bytes
  bpe,     // byte pair encoding: pairs join by the order of a merge list
  wpm,     // WordPiece (BERT): the longest token first
  ugm,     // SentencePiece's unigram model (T5, XLM-RoBERTa): the tokens of the best sum of scores
  plamo2,  // the same of PLaMo 2, without normalising; characters outside the vocabulary become bytes
};

// The values are the ids stored in files.
enum class TokenType : uint8_t {
  undefined = 0,
  normal = 1,
  unknown = 2,
  control = 3,       // never made from plain text, not shown
  user_defined = 4,  // always matched in text, before any other token
  unused = 5,
  byte = 6,  // "<0x0A>"
};

// Special tokens by role, if the model has them.
struct SpecialTokens {
  std::optional<TokenId> bos, eos, eot, eom, unk, sep, pad, mask;
  std::optional<TokenId> fim_pre, fim_suf, fim_mid, fim_pad, fim_rep, fim_sep;  // fill in the middle
};

struct Merge {
  int32_t left;
  int32_t right;
  int32_t result;
};

struct Vocabulary {
  Kind kind = Kind::spm;
  const PreTokenizerRules* rules = nullptr;  // bpe only
  TextTable tokens;                          // as stored in the file
  std::vector<TokenType> types;
  std::vector<float> scores;  // spm, ugm and plamo2 only; no NaN
  std::vector<Merge> merges;  // bpe only; the index is the rank
  SpecialTokens special;
  std::vector<TokenId> end_of_text;      // ascending: generation ends at any of these
  std::vector<TokenId> always_shown;     // control tokens that are part of the answer's text
  std::vector<bool> strips_left;         // the token absorbs white space before it; empty: no token does
  std::vector<bool> strips_right;        // the same for white space after it
  std::array<int32_t, 256> byte_tokens;  // of "<0x00>" to "<0xFF>"; -1: none
  bool add_bos = false;
  bool add_eos = false;  // wpm: add the separator
  bool add_space_prefix = false;
  bool lowercase = false;      // wpm, and bpe on white space
  bool strip_accents = false;  // wpm
  bool merges_spaces = false;  // ugm: a run of spaces becomes one space, and so does the start of the text
  bool add_sep = false;        // add the separator between the two texts of a pair
  std::string charsmap;        // ugm: the normalising table (charsmap.h)

  // Errors: tokenizer_kind, tokenizer_vocabulary, tokenizer_special, limit_exceeded, gguf_key_* of the metadata,
  // cancelled (by `control`).
  static Result<Vocabulary> load(const gguf::Metadata& metadata, const LoadControl& control = {});

  size_t size() const { return tokens.size(); }
  std::string_view text(TokenId id) const { return tokens[static_cast<size_t>(id.value)]; }
  TokenType type(TokenId id) const { return types[static_cast<size_t>(id.value)]; }
  // The token with this spelling in the file.
  std::optional<TokenId> find(std::string_view text) const;
  // Whether plain text may become this token: false for control, unknown and byte tokens.
  bool is_text(int32_t id) const;
};

}  // namespace rocmforge::tokenizer
