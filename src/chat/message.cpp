#include "chat/message.h"

#include <fmt/core.h>

#include <algorithm>

namespace rocmforge::chat {

void Message::add(std::span<const MessageEvent> events) {
  for (const MessageEvent& event : events) {
    switch (event.kind) {
      case MessageEvent::Kind::reasoning:
        reasoning += event.text;
        break;
      case MessageEvent::Kind::content:
        content += event.text;
        break;
      case MessageEvent::Kind::call:
        calls.push_back({event.id, event.text, {}});
        break;
      case MessageEvent::Kind::arguments:
        calls.back().arguments += event.text;
        break;
      case MessageEvent::Kind::call_end:
        break;
    }
  }
}

Message parse_message(std::string_view text, const ParserOptions& options, size_t n_piece) {
  MessageParser parser(options);
  Message out;
  const size_t n = n_piece == 0 ? std::max<size_t>(text.size(), 1) : n_piece;
  for (size_t at = 0; at < text.size(); at += n) out.add(parser.push(text.substr(at, n)));
  out.add(parser.finish());
  return out;
}

void write_calls(JsonWriter& w, std::span<const ToolCall> calls) {
  w.begin_array();
  for (size_t i = 0; i < calls.size(); i++) {
    w.begin_object().key("id").value(calls[i].id.empty() ? fmt::format("call_{}", i) : calls[i].id);
    w.key("type").value("function").key("function").begin_object();
    w.key("name").value(calls[i].name).key("arguments").value(calls[i].arguments).end_object().end_object();
  }
  w.end_array();
}

void write_message(JsonWriter& w, const Message& message) {
  w.begin_object().key("role").value("assistant").key("reasoning_content").value(message.reasoning);
  w.key("content").value(message.content).key("tool_calls");
  write_calls(w, message.calls);
  w.key("finish_reason").value(message.calls.empty() ? "stop" : "tool_calls").end_object();
}

Result<JsonArray> parse_tools(std::string_view text) {
  JsonValue value = TRY(parse_json(text));
  auto* tools = std::get_if<JsonArray>(&value.state());
  if (!tools) return Error{ErrorCode::invalid_argument, "tools: not an array"};
  return std::move(*tools);
}

}  // namespace rocmforge::chat
