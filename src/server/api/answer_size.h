#pragma once
// How many bytes an answer takes, before it is made (call.h counts them).

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/request.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::server {

// No less than `text` takes as a JSON string.
uint64_t json_text_bytes(std::string_view text);

// No less than a token adds to an answer: its text and, if asked for, its logprobs.
uint64_t token_answer_bytes(const tokenizer::Tokenizer& tokenizer, const TokenEvent& event);

// What the answers to all these requests take together if they become as long as they may and their tokens are of the
// usual length. Longer tokens are counted as they come.
uint64_t expected_answer_bytes(std::span<const GenerationRequest> requests, uint32_t n_context);

}  // namespace rocmforge::server
