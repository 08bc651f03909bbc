#pragma once
// Splits text by a model's pre-tokenizer rules, with PCRE2 (just-in-time compiled, UTF, Unicode properties) under
// limits.
//
// Threads: a PreTokenizer is immutable; each thread brings its own Matcher.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/pre_tokenizer_tables.h"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace rocmforge::tokenizer {

// The working memory of one thread, and the first error of its matches.
class Matcher {
 public:
  Matcher();
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  // The match exceeded the limits: the text cannot be split.
  const std::optional<Error>& error() const { return error_; }

 private:
  friend class PreTokenizer;
  bool enlarge_stack();

  pcre2_real_match_data_8* data_ = nullptr;
  pcre2_real_match_context_8* context_ = nullptr;
  pcre2_real_jit_stack_8* stack_ = nullptr;
  std::optional<Error> error_;
};

class PreTokenizer {
 public:
  struct Part {
    size_t end;     // the part begins where the previous one ends
    bool is_match;  // a match of a pattern; false: text before or between matches
  };

  static Result<PreTokenizer> compile(std::span<const SplitStep> steps);

  size_t n_steps() const { return steps_.size(); }

  // Appends the parts into which step `step` splits `text`, in order and without gaps. False: see matcher.error().
  // REQUIRES: valid UTF-8, step < n_steps()
  bool split(std::vector<Part>& parts, std::string_view text, size_t step, Matcher& matcher) const;

 private:
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  struct Step {
    SplitStep::Kind kind;
    std::unique_ptr<pcre2_real_code_8, FreeCode> code;  // null unless kind is pattern
  };

  bool split_by_pattern(std::vector<Part>& parts, std::string_view text, const pcre2_real_code_8* code,
                        Matcher& matcher) const;

  std::vector<Step> steps_;
};

}  // namespace rocmforge::tokenizer
