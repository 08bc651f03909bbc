#include "chat/message_parser.h"

#include <gtest/gtest.h>

#include <sstream>

#include "chat/message.h"
#include "chat/pattern.h"
#include "support/support.h"

namespace rocmforge::chat {
namespace {

using testing::data_path;
using testing::read_text;

std::shared_ptr<const ToolSet> known_tools() {
  static const auto tools = std::make_shared<const ToolSet>(*parse_tools(read_text(data_path("toolcalls/tools.json"))));
  return tools;
}

ParserOptions options_for(std::string_view format, std::vector<std::string> control = {}) {
  return {.format = find_tool_format(format), .tools = known_tools(), .control = std::move(control)};
}

std::string shown(const Message& message) {
  JsonWriter w;
  write_message(w, message);
  return w.take();
}

// The message, by a parser that waits for whole calls; every way to cut the text gives it.
Message parsed(std::string_view text, ParserOptions options) {
  const std::string marked = mark_controls(text, options.control);
  options.tells_early = false;
  const Message whole = parse_message(marked, options);
  EXPECT_EQ(shown(parse_message(marked, options, 1)), shown(whole)) << text;
  EXPECT_EQ(shown(parse_message(marked, options, 3)), shown(whole)) << text;
  for (size_t cut = 1; cut < marked.size(); cut++) {
    MessageParser parser(options);
    Message message;
    message.add(parser.push(std::string_view(marked).substr(0, cut)));
    message.add(parser.push(std::string_view(marked).substr(cut)));
    message.add(parser.finish());
    EXPECT_EQ(shown(message), shown(whole)) << text << " cut at " << cut;
  }
  return whole;
}

// The same from a parser that tells calls as soon as it can.
Message streamed(std::string_view text, ParserOptions options) {
  const std::string marked = mark_controls(text, options.control);
  options.tells_early = true;
  const Message whole = parse_message(marked, options);
  EXPECT_EQ(shown(parse_message(marked, options, 1)), shown(whole)) << text;
  return whole;
}

std::string json(const JsonValue& value) {
  JsonWriter w;
  return w.value(value).take();
}

std::string said(const JsonValue& value, const char* key) {
  return *value.find(key)->as<std::string>();
}

void check_golden(const JsonValue& one) {
  SCOPED_TRACE(said(one, "id"));
  ParserOptions options = options_for(said(one, "family"));
  ASSERT_NE(options.format, nullptr);
  options.prompt_tail = said(one, "prompt_tail");
  const JsonValue& expected = *one.find("expected");
  const auto check = [&](const Message& message) {
    EXPECT_EQ(message.reasoning, said(expected, "reasoning"));
    EXPECT_EQ(message.content, said(expected, "content"));
    const auto& calls = *expected.find("tool_calls")->as<JsonArray>();
    ASSERT_EQ(message.calls.size(), calls.size()) << shown(message);
    for (size_t i = 0; i < calls.size(); i++) {
      EXPECT_EQ(message.calls[i].name, said(calls[i], "name"));
      const auto arguments = parse_json(message.calls[i].arguments);
      ASSERT_TRUE(arguments.ok()) << message.calls[i].arguments;
      EXPECT_EQ(json(*arguments), json(*calls[i].find("arguments")));
    }
    if (const JsonValue* ids = one.find("ids")) {
      for (size_t i = 0; i < calls.size(); i++) {
        EXPECT_EQ(message.calls[i].id, *(*ids->as<JsonArray>())[i].as<std::string>());
      }
    }
  };
  check(parsed(said(one, "text"), options));
  check(streamed(said(one, "text"), options));
  for (const JsonValue& token : *one.find("special_tokens")->as<JsonArray>()) {
    options.control.push_back(*token.as<std::string>());
  }
  check(parsed(said(one, "text"), options));
  check(streamed(said(one, "text"), options));
}

TEST(MessageParser, ReadsEveryGoldenInAllChunkings) {
  std::istringstream lines(read_text(data_path("toolcalls/cases.jsonl")));
  size_t n = 0;
  for (std::string line; std::getline(lines, line); n++) check_golden(*parse_json(line));
  EXPECT_EQ(n, 91u);
}

}  // namespace
}  // namespace rocmforge::chat
