#pragma once
// A complete message of an assistant, and its JSON as in OpenAI's Chat completions.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "chat/message_parser.h"

namespace rocmforge::chat {

struct ToolCall {
  std::string id, name, arguments;
};

struct Message {
  std::string reasoning, content;
  std::vector<ToolCall> calls;

  void add(std::span<const MessageEvent> events);
};

// Parses `text`, in pieces of `n_piece` bytes (0: in one piece).
Message parse_message(std::string_view text, const ParserOptions& options, size_t n_piece = 0);

// [{"id", "type", "function": {"name", "arguments"}}, ...]; calls without an id get call_INDEX.
void write_calls(JsonWriter& w, std::span<const ToolCall> calls);
// {"role", "reasoning_content", "content", "tool_calls", "finish_reason"}
void write_message(JsonWriter& w, const Message& message);

// An array of tools in OpenAI's form. Errors: invalid_argument, json_*.
Result<JsonArray> parse_tools(std::string_view text);

}  // namespace rocmforge::chat
