#include "server/api/answer_size.h"

#include <algorithm>

namespace rocmforge::server {
namespace {

// {"token":"","logprob":-1.2345678e-12,"bytes":[],"top_logprobs":[]},
constexpr uint64_t kAroundLogprob = 72;
constexpr uint64_t kUsualTokenBytes = 5;

// A byte stands in the text, and as a number of up to three digits with a comma.
uint64_t logprob_bytes(std::string_view text) {
  return kAroundLogprob + json_text_bytes(text) + 4 * text.size();
}

}  // namespace

uint64_t json_text_bytes(std::string_view text) {
  uint64_t n = 2;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte < 0x20 || byte == 0x7f) {
      n += 6;  // \u001f
    } else if (byte >= 0x80) {
      n += 3;  // U+FFFD, if it is invalid
    } else {
      n += c == '"' || c == '\\' ? 2 : 1;
    }
  }
  return n;
}

uint64_t token_answer_bytes(const tokenizer::Tokenizer& tokenizer, const TokenEvent& event) {
  uint64_t n = json_text_bytes(event.text);
  if (!event.logprobs) return n;
  n += logprob_bytes(tokenizer.token_text(event.token));
  for (const TokenLogprob& one : event.logprobs->top) n += logprob_bytes(tokenizer.token_text(one.token));
  return n;
}

uint64_t expected_answer_bytes(std::span<const GenerationRequest> requests, uint32_t n_context) {
  uint64_t n = 0;
  for (const GenerationRequest& request : requests) {
    const uint64_t n_prompt = std::min<uint64_t>(request.prompt.size(), n_context);
    const uint64_t n_tokens = std::min<uint64_t>(request.max_tokens.value_or(UINT32_MAX), n_context - n_prompt);
    const uint64_t n_logprobs = request.sampling.want_logprobs ? 1 + uint64_t{request.sampling.n_logprobs} : 0;
    n += n_tokens * (kUsualTokenBytes + n_logprobs * (kAroundLogprob + 5 * kUsualTokenBytes));
    if (!request.n_prompt_logprobs) continue;
    n += n_prompt * (1 + uint64_t{*request.n_prompt_logprobs}) * (kAroundLogprob + 5 * kUsualTokenBytes);
  }
  return n;
}

}  // namespace rocmforge::server
