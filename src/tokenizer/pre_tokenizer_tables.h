#pragma once
// What tokenizer.ggml.pre means: for every name in use, how a text is cut into the words that BPE merges stay inside.

#include <cstdint>
#include <span>
#include <string_view>

namespace rocmforge::tokenizer {

// One cut. Steps run one after the other; each sees every part that the one before left, on its own.
struct SplitStep {
  enum class Kind : uint8_t {
    pattern,                   // every match becomes a part, and so does what lies between matches
    digit_groups,              // a run of digits is cut into threes from its end: 1|234|567
    digit_groups_at_word_end,  // the same for a run that ends at a word's end; others stay whole (12345x)
  };
  std::string_view pattern;  // PCRE2 syntax; \s is Unicode's White_Space here
  Kind kind = Kind::pattern;
};

struct PreTokenizerRules {
  std::span<const SplitStep> steps;
  bool byte_level = true;           // tokens spell bytes as GPT-2 does; else they are plain UTF-8
  bool ignore_merges = false;       // a word that is a token is that token, whatever the merges say
  bool add_bos = false;             // where the file does not say
  bool escape_spaces = false;       // a space is written U+2581
  bool whole_newline_runs = false;  // a run of newlines that is a token is that token
  bool drop_gaps = false;           // what no pattern matches is no word
};

struct NamedRules {
  std::string_view name;
  const PreTokenizerRules* rules;
};

std::span<const NamedRules> all_pre_tokenizers();

// The rules of this name, or null.
const PreTokenizerRules* find_pre_tokenizer(std::string_view name);

}  // namespace rocmforge::tokenizer
