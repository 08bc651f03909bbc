#pragma once
// Server-sent events, and the pieces that the shapes of answers share.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/request.h"
#include "server/http/exchange.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::server {

inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

// The head of a stream of events, with comments while it is silent.
ResponseHead event_stream_head();

// One event with one line of data. JSON text holds no line breaks.
std::string event_of(std::string_view json);

// As OpenAI names reasons: cancelled is a stop that somebody asked for.
std::string_view openai_finish_name(FinishReason reason);

void write_usage(JsonWriter& w, const RequestUsage& usage, uint64_t n_reasoning = 0);

// The engine's own times, by llama.cpp's names. The first token of a choice counts as the prompt's: the rate is that of
// the others, and null where there is none.
void write_timings(JsonWriter& w, const RequestUsage& usage, uint32_t n_choices);

// As JSON can hold it: OpenAI writes -9999 for what has no probability.
float shown_logprob(float logprob);

// {"token", "logprob", "bytes", "top_logprobs"} of a chat's answer.
void write_chat_logprob(JsonWriter& w, const tokenizer::Tokenizer& tokenizer, TokenId token,
                        const TokenLogprobs& logprobs);

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"} of a completion's. `offset` is where the first token
// begins in the text, in characters; it is moved to where the last ends. A null logprob is written as null.
// REQUIRES: as many logprobs as tokens
void write_completion_logprobs(JsonWriter& w, const tokenizer::Tokenizer& tokenizer, std::span<const TokenId> tokens,
                               std::span<const TokenLogprobs* const> logprobs, uint64_t& offset);

}  // namespace rocmforge::server
