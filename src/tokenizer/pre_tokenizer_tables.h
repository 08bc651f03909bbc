#pragma once
// The pre-tokenizers named by tokenizer.ggml.pre: for every name in use, the rules that split a text into words. BPE
// merges never cross words.

#include <cstdint>
#include <span>
#include <string_view>

namespace rocmforge::tokenizer {

// One split. Steps run in order; each splits every part that the previous step left, separately.
struct SplitStep {
  enum class Kind : uint8_t {
    pattern,                   // every match becomes a part, and so does the text between matches
    digit_groups,              // a run of digits is split into threes from its end: 1|234|567
    digit_groups_at_word_end,  // the same for runs at the end of a word; other runs stay whole (12345x)
  };
  std::string_view pattern;  // PCRE2 syntax; \s is Unicode's White_Space here
  Kind kind = Kind::pattern;
};

struct PreTokenizerRules {
  std::span<const SplitStep> steps;
  bool byte_level = true;           // tokens spell bytes as GPT-2 does; else they are plain UTF-8
  bool ignore_merges = false;       // a word that is a token becomes that token, without merges
  bool add_bos = false;             // default for files without the key
  bool escape_spaces = false;       // a space is written U+2581
  bool whole_newline_runs = false;  // a run of newlines that is a token becomes that token
  bool drop_gaps = false;           // text that no pattern matches is dropped
};

struct NamedRules {
  std::string_view name;
  const PreTokenizerRules* rules;
};

std::span<const NamedRules> all_pre_tokenizers();

// The rules of this name, or null.
const PreTokenizerRules* find_pre_tokenizer(std::string_view name);

}  // namespace rocmforge::tokenizer
