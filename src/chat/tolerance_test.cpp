// What models write that is not quite their format, and what only looks like it.

#include <gtest/gtest.h>

#include "chat/message.h"
#include "chat/pattern.h"
#include "support/support.h"

namespace rocmforge::chat {
namespace {

using testing::data_path;
using testing::read_text;

struct Case {
  const char* format;
  std::string text;
  std::string reasoning, content, calls;  // calls as NAME ARGUMENTS; ...
  std::string tail = {};
  std::vector<std::string> control = {};
};

std::string calls_of(const Message& message) {
  std::string out;
  for (const ToolCall& call : message.calls) {
    if (!out.empty()) out += "; ";
    out += call.name + " " + call.arguments;
  }
  return out;
}

void check(const Case& one) {
  SCOPED_TRACE(std::string(one.format) + ": " + one.text);
  static const auto tools = std::make_shared<const ToolSet>(*parse_tools(read_text(data_path("toolcalls/tools.json"))));
  const ParserOptions options = {.format = find_tool_format(one.format),
                                 .tools = tools,
                                 .control = one.control,
                                 .prompt_tail = one.tail,
                                 .tells_early = false};
  const std::string marked = mark_controls(one.text, one.control);
  for (const size_t n : {0, 1, 2, 5}) {
    const Message message = parse_message(marked, options, n);
    EXPECT_EQ(message.reasoning, one.reasoning) << n;
    EXPECT_EQ(message.content, one.content) << n;
    EXPECT_EQ(calls_of(message), one.calls) << n;
  }
}

const char* const kBern = "{\"city\": \"Bern\"}";
const std::string kHermes =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bern\"}}\n</tool_call>";
const std::string kCalled = std::string("get_weather ") + kBern;

TEST(Tolerance, AMarkerThatIsMissingAtAnEndIsNoHarm) {
  check({"hermes", kHermes.substr(0, kHermes.size() - 13), "", "", kCalled});
  check({"hermes", kHermes + "\n</tool_call>\n", "", "", kCalled});
  check({"qwen3-coder", "<function=now>\n</function>\n</tool_call>", "", "", "now {}"});
  check({"qwen3-coder",
         "<tool_call>\n<function=get_weather>\n<parameter=city>\nBern\n</parameter>\n</parameter>\n</function>", "", "",
         kCalled});
  check({"kimi-k2", "<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|>", "", "",
         "now {}"});
  check({"glm-4.5", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Bern</arg_value>", "", "", kCalled});
  check({"granite-3", "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}", "", "", "now {}"});
}

TEST(Tolerance, TextMayStandAroundCalls) {
  check({"hermes", "I look it up.\n\n" + kHermes + "\nDone.", "", "I look it up.\nDone.", kCalled});
  check({"hermes", "<think>\nHm.\n</think>\n\nI look.\n" + kHermes + "\nThen " + kHermes, "Hm.", "I look.\nThen",
         kCalled + "; " + kCalled});
  check({"mistral-args", "Now.[TOOL_CALLS]now[ARGS]{}", "", "Now.", "now {}"});
  check({"gpt-oss",
         "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|>"
         "<|start|>assistant to=functions.now<|channel|>commentary json<|message|>{}<|call|>",
         "Hm.", "I look.", "now {}"});
  check({"gpt-oss",
         "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi.<|return|>", "Hm.",
         "Hi.", ""});
}

TEST(Tolerance, ArgumentsMayBeWrittenInOtherWays) {
  check({"hermes", "<tool_call>{\"arguments\": {\"city\": \"Bern\"}, \"id\": 7, \"name\": \"get_weather\"}</tool_call>",
         "", "", kCalled});
  check({"hermes",
         "<tool_call>{\"name\": \"get_weather\", \"parameters\": \"{\\\"city\\\": \\\"Bern\\\"}\"}</tool_call>", "", "",
         kCalled});
  check(
      {"hermes",
       "<tool_call>{'name': 'find', 'arguments': {'query': 'it\\'s \"x\"', 'exact': True, 'limit': None,}}</tool_call>",
       "", "", "find {\"query\": \"it's \\\"x\\\"\", \"exact\": true, \"limit\": null}"});
  check({"hermes", "<tool_call>{\"type\": \"function\", \"function\": {\"name\": \"now\"}}</tool_call>", "", "",
         "now {}"});
  check(
      {"qwen3-coder",
       "<tool_call>\n<function=find>\n<parameter=query>\n7\n</parameter>\n<parameter=exact>\nTrue\n</parameter>\n"
       "<parameter=filter>\n{'lang': 'de'}\n</parameter>\n<parameter=more>\n[1]\n</parameter>\n<parameter=other>\na b\n"
       "</parameter>\n<parameter=cursor>\nnull\n</parameter>\n</function>\n</tool_call>",
       "", "",
       "find {\"query\": \"7\", \"exact\": true, \"filter\": {\"lang\": \"de\"}, \"more\": [1], \"other\": \"a b\", "
       "\"cursor\": null}"});
  check({"lfm2", "<|tool_call_start|>[write_file(path='a', content='x\n\"y\"')]<|tool_call_end|>", "", "",
         "write_file {\"path\": \"a\", \"content\": \"x\\n\\\"y\\\"\"}"});
  check({"mistral-args", "[TOOL_CALLS]now[ARGS]```json\n{}\n```", "", "", "now {}"});
  check({"llama3-json",
         "{\"type\": \"function\", \"name\": \"now\", \"parameters\": {}}; {\"name\": \"now\", \"parameters\": {}}", "",
         "", "now {}; now {}"});
}

TEST(Tolerance, AMarkerInsideAValueIsText) {
  check({"hermes",
         "<tool_call>{\"name\": \"write_file\", \"arguments\": {\"path\": \"</tool_call>\", \"content\": "
         "\"<tool_call>\"}}</tool_call>",
         "",
         "",
         "write_file {\"path\": \"</tool_call>\", \"content\": \"<tool_call>\"}",
         "",
         {"<tool_call>", "</tool_call>"}});
  check({"qwen3-coder",
         "<tool_call>\n<function=write_file>\n<parameter=content>\na </parameter>\n</function> "
         "b\n\n</parameter>\n</function>\n"
         "</tool_call>",
         "", "", "write_file {\"content\": \"a </parameter>\\n</function> b\\n\"}"});
  check({"minimax-m2",
         "<minimax:tool_call>\n<invoke name=\"write_file\">\n<parameter name=\"content\">a </parameter> b</parameter>\n"
         "</invoke>\n</minimax:tool_call>",
         "", "", "write_file {\"content\": \"a </parameter> b\"}"});
}

TEST(Tolerance, WhatIsNoCallIsContentByteForByte) {
  for (const char* text : {"<tool_call>", "<tool_call>\nnothing\n</tool_call>", "Write <tool_call> like this: {}",
                           "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": }}\n</tool_call>",
                           "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"", "a < b <t ", "  \n"}) {
    check({"hermes", text, "", text, ""});
    check({"hermes", text, "", text, "", "", {"<tool_call>", "</tool_call>"}});
  }
  for (const char* text : {"[text](url)", "[find(1)]", "[unknown(a=1)]", "[1, 2]", "a[now()]"}) {
    check({"pythonic", text, "", text, ""});
  }
  for (const char* text :
       {"{\"name\": \"someone\", \"parameters\": {}}", "{\"a\": 1}", "{\"name\": \"now\"}", "{{}}"}) {
    check({"llama3-json", text, "", text, ""});
  }
  check({"functionary-3.1", "<functional>", "", "<functional>", ""});
  check({"qwen3-coder", "<tool_call>\n<function=find>\n<parameter=query>\nq\n", "",
         "<tool_call>\n<function=find>\n<parameter=query>\nq\n", ""});
  check({"hermes", "<tool_call>{\"name\": <tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>", "",
         "<tool_call>{\"name\":", "now {}"});
}

TEST(Tolerance, ReasoningEndsAtItsMarkerOrAtACall) {
  check({"hermes", "Hm.\n</think>\n\nHi", "Hm.", "Hi", "", "<|im_start|>assistant\n<think>\n"});
  check({"hermes", "Hi <think>", "", "Hi <think>", "", "<think>\n\n</think>\n\n"});
  check({"hermes", "Hm " + kHermes, "Hm", "", kCalled, "<think>\n"});
  check({"hermes", "Hm " + kHermes + "</think>\n\nHi", "Hm", "Hi", kCalled, "<think>\n"});
  check({"hermes", "I write <tool_call> and {\"name\": ... </think>Hi", "I write <tool_call> and {\"name\": ...", "Hi",
         "", "<think>"});
  check({"qwen3-coder", "<tool_call> is a tag</think>", "<tool_call> is a tag", "", "", "<think>\n"});
  check(
      {"hermes", "<think>a</think>" + kHermes + "\n<think>b</think>\n" + kHermes, "ab", "", kCalled + "; " + kCalled});
  check({"mistral-args", "[THINK]Hm.[/THINK]Hi", "Hm.", "Hi", ""});
  check({"gemma-4", "<|channel>thought\nHm.\n<channel|>Hi", "Hm.", "Hi", ""});
  check({"command-r7b", "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Hi<|END_RESPONSE|>", "Hm.", "Hi", ""});
}

TEST(Tolerance, AControlTokenAndItsLettersDiffer) {
  const std::string spelled = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
  static const auto tools = std::make_shared<const ToolSet>();
  const ParserOptions options = {
      .format = find_tool_format("hermes"), .tools = tools, .control = {"<tool_call>", "</tool_call>"}};
  EXPECT_EQ(parse_message(spelled, options).content, spelled);
  EXPECT_EQ(parse_message(mark_controls(spelled, options.control), options).calls.size(), 1u);
}

TEST(Tolerance, ACallThatWasToldKeepsWhatTheModelWrote) {
  const std::string text = "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": oops}}</tool_call> Hi";
  const Message message = parse_message(text, {.format = find_tool_format("hermes")}, 1);
  ASSERT_EQ(message.calls.size(), 1u);
  EXPECT_EQ(message.calls[0].arguments.substr(0, 6), "{\"a\": ");
  EXPECT_EQ(message.content, "Hi");
}

TEST(Tolerance, ReadingStaysLinearHoweverOftenACallBegins) {
  std::string text;
  for (int i = 0; i < 60000; i++) text += "{\"parameters\":{\"a\":";
  const ParserOptions options = {.format = find_tool_format("llama3-json"), .tools = {}, .tells_early = false};
  EXPECT_EQ(parse_message(text, options).content, text);
}

}  // namespace
}  // namespace rocmforge::chat
