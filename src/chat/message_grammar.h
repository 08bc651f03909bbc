#pragma once
// What a model may write in an answer: reasoning, text, calls of tools, or a text that a schema or grammar describes.
// It is one grammar, so that the borders between these parts are enforced like the parts.
//
// The texts have control tokens between marks (tokenizer/control_marks.h).

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "chat/call_syntax.h"
#include "chat/message_parser.h"
#include "grammar/compile.h"

namespace rocmforge::chat {

enum class CallChoice : uint8_t { none, automatic, required };

enum class ReasoningStart : uint8_t {
  none,
  may_begin,  // the model may open it
  inside,     // the prompt has opened it
};

struct MessageRules {
  const ToolFormat* format = nullptr;  // not null
  MarkerTokens tokens = {};
  JsonArray tools = {};  // in OpenAI's form
  CallChoice calls = CallChoice::none;
  bool is_parallel = true;
  ReasoningStart reasoning = ReasoningStart::none;
  std::optional<grammar::Source> answer = {};  // absent: free text
  bool starts_in_marker = false;               // the prompt ends with the format's start_prefix
};

// Errors: those of grammar::add_source() for the answer; invalid_argument (a call is required, and none can be
// written); limit_exceeded.
Result<grammar::Compiled> compile_message(const MessageRules& rules, const grammar::FindToken& find_token = {});

// Equal for equal rules.
std::string cache_key(const MessageRules& rules);

// How the reasoning of an answer begins, by the end of its prompt. `may_think`: the request does not forbid it.
ReasoningStart reasoning_start(ParserOptions options, bool may_think = true);

}  // namespace rocmforge::chat
