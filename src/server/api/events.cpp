#include "server/api/events.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/utf8.h"

namespace rocmforge::server {
namespace {

constexpr float kVeryUnlikely = -9999.0f;  // what OpenAI writes where JSON has no minus infinity

void write_token(JsonWriter& w, const tokenizer::Tokenizer& tokenizer, TokenId token, float logprob) {
  const std::string_view bytes = tokenizer.token_text(token);
  w.key("token").value(to_valid_utf8(bytes)).key("logprob").value(shown_logprob(logprob)).key("bytes").begin_array();
  for (const char c : bytes) w.value(static_cast<int>(static_cast<uint8_t>(c)));
  w.end_array();
}

uint64_t n_characters(std::string_view text) {
  return static_cast<uint64_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

float shown_logprob(float logprob) {
  return std::isfinite(logprob) ? std::max(logprob, kVeryUnlikely) : kVeryUnlikely;
}

ResponseHead event_stream_head() {
  return {.content_type = "text/event-stream",
          .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}},
          .ping = ":\n\n"};
}

std::string event_of(std::string_view json) {
  std::string out = "data: ";
  out += json;
  out += "\n\n";
  return out;
}

std::string_view openai_finish_name(FinishReason reason) {
  return reason == FinishReason::length ? "length" : "stop";
}

void write_usage(JsonWriter& w, const RequestUsage& usage, uint64_t n_reasoning) {
  w.begin_object();
  w.key("prompt_tokens").value(usage.n_prompt).key("completion_tokens").value(usage.n_generated);
  w.key("total_tokens").value(uint64_t{usage.n_prompt} + usage.n_generated);
  w.key("prompt_tokens_details").begin_object().key("cached_tokens").value(usage.n_cached).end_object();
  w.key("completion_tokens_details").begin_object().key("reasoning_tokens").value(n_reasoning).end_object();
  w.end_object();
}

void write_timings(JsonWriter& w, const RequestUsage& usage, uint32_t n_choices) {
  w.begin_object().key("cache_n").value(usage.n_cached).key("prompt_n").value(usage.n_prompt - usage.n_cached);
  w.key("prompt_ms").value(usage.prefill_seconds * 1e3).key("predicted_n").value(usage.n_generated);
  w.key("predicted_ms").value(usage.decode_seconds * 1e3).key("predicted_per_second");
  const bool has_rate = usage.n_generated > n_choices && usage.decode_seconds > 0;
  has_rate ? w.value((usage.n_generated - n_choices) / usage.decode_seconds) : w.null();
  w.end_object();
}

void write_chat_logprob(JsonWriter& w, const tokenizer::Tokenizer& tokenizer, TokenId token,
                        const TokenLogprobs& logprobs) {
  w.begin_object();
  write_token(w, tokenizer, token, logprobs.logprob);
  w.key("top_logprobs").begin_array();
  for (const TokenLogprob& one : logprobs.top) {
    w.begin_object();
    write_token(w, tokenizer, one.token, one.logprob);
    w.end_object();
  }
  w.end_array().end_object();
}

void write_completion_logprobs(JsonWriter& w, const tokenizer::Tokenizer& tokenizer, std::span<const TokenId> tokens,
                               std::span<const TokenLogprobs* const> logprobs, uint64_t& offset) {
  CHECK(tokens.size() == logprobs.size());
  const size_t n = tokens.size();
  std::vector<std::string> texts;
  for (size_t i = 0; i < n; i++) texts.push_back(to_valid_utf8(tokenizer.token_text(tokens[i])));
  w.begin_object().key("tokens").begin_array();
  for (const std::string& text : texts) w.value(text);
  w.end_array().key("token_logprobs").begin_array();
  for (const TokenLogprobs* one : logprobs) one ? w.value(shown_logprob(one->logprob)) : w.null();
  w.end_array().key("top_logprobs").begin_array();
  for (const TokenLogprobs* of_token : logprobs) {
    if (!of_token) {
      w.null();
      continue;
    }
    w.begin_object();
    std::vector<std::string> seen;  // two tokens may have one text: a key may stand once
    for (const TokenLogprob& one : of_token->top) {
      const std::string text = to_valid_utf8(tokenizer.token_text(one.token));
      if (std::ranges::find(seen, text) != seen.end()) continue;
      seen.push_back(text);
      w.key(text).value(shown_logprob(one.logprob));
    }
    w.end_object();
  }
  w.end_array().key("text_offset").begin_array();
  for (size_t i = 0; i < n; i++) {
    w.value(offset);
    if (tokenizer.is_shown(tokens[i])) offset += n_characters(texts[i]);
  }
  w.end_array().end_object();
}

}  // namespace rocmforge::server
