#include "tokenizer/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/core.h>
#include <pcre2.h>

#include <string>

#include "base/utf8.h"
#include "tokenizer/unicode.h"

namespace rocmforge::tokenizer {
namespace {

// The patterns of the table need a few steps per byte and nearly no stack; these stop what a mistake there would cost.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr size_t kStackStartBytes = 64u << 10;
constexpr size_t kStackMaxBytes = 8u << 20;

// PCRE2's own \s includes U+180E, which Unicode and the models' tokenizers do not.
std::string with_unicode_space(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); i++) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      out.push_back(pattern[i]);
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's' || escaped == 'S') {
      out.append(escaped == 's' ? R"(\p{wspace})" : R"(\P{wspace})");
    } else {
      out.append({'\\', escaped});
    }
  }
  return out;
}

std::string pcre2_message(int code) {
  PCRE2_UCHAR text[128];
  if (pcre2_get_error_message(code, text, sizeof text) < 0) return fmt::format("error {}", code);
  return reinterpret_cast<const char*>(text);
}

// Cuts runs of digits into threes from their end.
void split_digit_groups(std::vector<PreTokenizer::Part>& parts, std::string_view text, bool only_at_word_end) {
  std::vector<size_t> ends;  // of the digits of one run
  size_t done = 0;           // parts cover text[0, done)
  for (size_t at = 0; at < text.size();) {
    const size_t run = at;
    ends.clear();
    Utf8Step step = decode_utf8(text, at);
    while (is_digit(step.code_point)) {
      at += step.n_bytes;
      ends.push_back(at);
      if (at == text.size()) break;
      step = decode_utf8(text, at);
    }
    if (ends.empty()) {
      at += step.n_bytes;
      continue;
    }
    if (only_at_word_end && at < text.size() && is_word(step.code_point)) continue;
    if (run > done) parts.push_back({run, false});
    size_t n = ends.size() % 3 == 0 ? 3 : ends.size() % 3;
    for (; n <= ends.size(); n += 3) parts.push_back({ends[n - 1], true});
    done = at;
  }
  if (done < text.size()) parts.push_back({text.size(), false});
}

}  // namespace

Matcher::Matcher() : data_(pcre2_match_data_create(1, nullptr)), context_(pcre2_match_context_create(nullptr)) {
  CHECK(data_ != nullptr && context_ != nullptr);
  pcre2_set_match_limit(context_, kMatchLimit);
}

Matcher::~Matcher() {
  pcre2_match_data_free(data_);
  pcre2_match_context_free(context_);
  pcre2_jit_stack_free(stack_);
}

bool Matcher::enlarge_stack() {
  if (stack_) return false;
  stack_ = pcre2_jit_stack_create(kStackStartBytes, kStackMaxBytes, nullptr);
  if (!stack_) return false;
  pcre2_jit_stack_assign(context_, nullptr, stack_);
  return true;
}

void PreTokenizer::FreeCode::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

Result<PreTokenizer> PreTokenizer::compile(std::span<const SplitStep> steps) {
  PreTokenizer out;
  for (const SplitStep& step : steps) {
    Step compiled{step.kind, nullptr};
    if (step.kind == SplitStep::Kind::pattern) {
      const std::string pattern = with_unicode_space(step.pattern);
      int code = 0;
      size_t offset = 0;
      compiled.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                        PCRE2_UTF | PCRE2_UCP, &code, &offset, nullptr));
      if (compiled.code) code = pcre2_jit_compile(compiled.code.get(), PCRE2_JIT_COMPLETE);
      if (!compiled.code || code != 0) {
        return Error{ErrorCode::tokenizer_pattern,
                     fmt::format("tokenizer: pattern '{}': {}", pattern, pcre2_message(code))};
      }
    }
    out.steps_.push_back(std::move(compiled));
  }
  return out;
}

bool PreTokenizer::split(std::vector<Part>& parts, std::string_view text, size_t step, Matcher& matcher) const {
  const Step& s = steps_[step];
  switch (s.kind) {
    case SplitStep::Kind::pattern:
      return split_by_pattern(parts, text, s.code.get(), matcher);
    case SplitStep::Kind::digit_groups:
      split_digit_groups(parts, text, false);
      return true;
    case SplitStep::Kind::digit_groups_at_word_end:
      split_digit_groups(parts, text, true);
      return true;
  }
  RF_UNREACHABLE("a SplitStep::Kind outside its enum");
}

bool PreTokenizer::split_by_pattern(std::vector<Part>& parts, std::string_view text, const pcre2_real_code_8* code,
                                    Matcher& matcher) const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const size_t* match = pcre2_get_ovector_pointer(matcher.data_);
  for (size_t at = 0; at < text.size();) {
    const int n = pcre2_jit_match(code, subject, text.size(), at, 0, matcher.data_, matcher.context_);
    if (n == PCRE2_ERROR_NOMATCH) {
      parts.push_back({text.size(), false});
      return true;
    }
    if (n == PCRE2_ERROR_JIT_STACKLIMIT && matcher.enlarge_stack()) continue;
    if (n < 0) {
      matcher.error_ = Error{ErrorCode::tokenizer_pattern,
                             fmt::format("tokenizer: text of {} bytes: its pre-tokenizer pattern failed at byte {}: {}",
                                         text.size(), at, pcre2_message(n))};
      return false;
    }
    if (match[0] > at) parts.push_back({match[0], false});
    // No pattern of the table matches the empty text: every step makes progress.
    CHECK(match[1] > match[0]);
    parts.push_back({match[1], true});
    at = match[1];
  }
  return true;
}

}  // namespace rocmforge::tokenizer
