#include <gtest/gtest.h>

#include "grammar/matcher.h"
#include "server/api/scripted_model.h"

namespace rocmforge::server {
namespace {

using testing::Answer;
using testing::at;
using testing::text;

constexpr const char* kChat = "/v1/chat/completions";
const std::string kTools =
    R"("tools":[{"type":"function","function":{"name":"get_weather","description":"d","parameters":{"type":"object",)"
    R"("properties":{"city":{"type":"string"}},"required":["city"]}}},{"type":"function","function":{"name":"now"}}])";

class ToolsTest : public testing::ScriptedApi {
 protected:
  std::string prompt_of(size_t request) { return *tokenizer_->decode(submitted_[request].request.prompt, true); }
  // The deltas of a stream's chunks that have a choice.
  static std::vector<std::string> deltas(const Answer& answer) {
    std::vector<std::string> out;
    for (const std::string& event : answer.events()) {
      if (event == "[DONE]") continue;
      const auto json = parse_json(event);
      if (text(at(*json, "choices")) != "[]") out.push_back(text(at(*json, "choices", 0, "delta")));
    }
    return out;
  }
};

TEST_F(ToolsTest, ACallIsToldAsOne) {
  const auto exchange = send("POST", kChat, chat(kTools));
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_NE(prompt_of(0).find("get_weather"), std::string::npos) << "the model is told of the tools";
  send_tokens(0, {"I look.\n", "<tool_", "call>{\"name\": \"get_weather\", ", "\"arguments\": {\"city\": \"Be",
                  "rn\"}}", "</tool_call>"});
  send_finish(0);
  const JsonValue json = answer_of(exchange).json();
  EXPECT_EQ(text(at(json, "choices", 0, "finish_reason")), "tool_calls");
  const JsonValue& message = at(json, "choices", 0, "message");
  EXPECT_EQ(text(at(message, "content")), "I look.");
  EXPECT_EQ(text(at(message, "tool_calls", 0, "type")), "function");
  EXPECT_EQ(text(at(message, "tool_calls", 0, "function", "name")), "get_weather");
  EXPECT_EQ(text(at(message, "tool_calls", 0, "function", "arguments")), "{\"city\": \"Bern\"}");
  EXPECT_TRUE(text(at(message, "tool_calls", 0, "id")).starts_with("call-"));
}

TEST_F(ToolsTest, ACallStreamsItsHeaderOnceAndThenItsArguments) {
  const auto exchange = send("POST", kChat, chat(kTools + R"(,"stream":true)"));
  send_tokens(0, {"<think>Hm.</think>", "<tool_call>{\"name\": \"get_weather\", ", "\"arguments\": {\"city\": \"Be",
                  "rn\"}}</tool_call>", "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>"});
  send_finish(0);
  const Answer answer = answer_of(exchange);
  const auto all = deltas(answer);
  ASSERT_EQ(all.size(), 8u) << answer.body;
  EXPECT_EQ(all[1], R"({"reasoning_content":"Hm."})");
  EXPECT_TRUE(all[2].starts_with(R"({"tool_calls":[{"index":0,"id":"call-)")) << all[2];
  EXPECT_TRUE(all[2].ends_with(R"(","type":"function","function":{"name":"get_weather","arguments":""}}]})")) << all[2];
  EXPECT_EQ(all[3], R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"city\": \"Be"}}]})");
  EXPECT_EQ(all[4], R"({"tool_calls":[{"index":0,"function":{"arguments":"rn\"}"}}]})");
  EXPECT_NE(all[5].find(R"("index":1)"), std::string::npos);
  EXPECT_EQ(all[6], R"({"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]})");
  EXPECT_EQ(all[7], "{}");
  EXPECT_NE(answer.body.find(R"("finish_reason":"tool_calls")"), std::string::npos);
}

TEST_F(ToolsTest, AnAnswerWithCallsAloneHasNoContent) {
  const auto exchange = send("POST", kChat, chat(kTools));
  send_tokens(0, {"<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>"});
  send_finish(0, FinishReason::length);
  const JsonValue json = answer_of(exchange).json();
  EXPECT_TRUE(at(json, "choices", 0, "message", "content").is_null());
  EXPECT_EQ(text(at(json, "choices", 0, "finish_reason")), "length");
}

TEST_F(ToolsTest, WithoutToolsTheirMarkersAreText) {
  const std::string call = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
  for (const std::string& more : {std::string(), kTools + R"(,"tool_choice":"none")"}) {
    submitted_.clear();
    const auto exchange = send("POST", kChat, chat(more));
    EXPECT_EQ(prompt_of(0).find("get_weather"), std::string::npos);
    send_tokens(0, {call.c_str()});
    send_finish(0);
    EXPECT_EQ(text(at(answer_of(exchange).json(), "choices", 0, "message", "content")), call);
  }
}

TEST_F(ToolsTest, OneCallIsTheLastWhereNoneMayFollow) {
  const auto exchange = send("POST", kChat, chat(kTools + R"(,"parallel_tool_calls":false)"));
  send_tokens(0, {"<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>",
                  "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>"});
  send_finish(0);
  EXPECT_EQ(at(answer_of(exchange).json(), "choices", 0, "message", "tool_calls").as<JsonArray>()->size(), 1u);
}

TEST_F(ToolsTest, OnlyAllowedToolsAreOffered) {
  send("POST", kChat,
       chat(kTools + R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto",)"
                     R"("tools":[{"type":"function","function":{"name":"now"}}]}})"));
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_EQ(prompt_of(0).find("get_weather"), std::string::npos);
  EXPECT_NE(prompt_of(0).find("now"), std::string::npos);
}

TEST_F(ToolsTest, CallsAreHeldToTheChoice) {
  const std::string call =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bern\"}}\n</tool_call>";
  const std::string other = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  const std::string text = "It is warm.", wrong = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {}}";
  const std::string schema = R"("response_format":{"type":"json_schema","json_schema":{"schema":{"type":"integer"}}},)";
  struct Case {
    std::string members;
    std::vector<std::string> allowed, refused;
  };
  const std::vector<Case> cases = {
      {kTools, {call, call + "\n" + other, text, text + "\n" + call}, {wrong, text + wrong}},
      {kTools + R"(,"parallel_tool_calls":false)", {call, text}, {call + "\n" + other}},
      {kTools + R"(,"tool_choice":"required")", {call, other, call + "\n" + other}, {text, wrong}},
      {kTools + R"(,"tool_choice":{"type":"function","function":{"name":"now"}})", {other}, {text, call}},
      {kTools + R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required",)"
                R"("tools":[{"type":"function","function":{"name":"now"}}]}})",
       {other},
       {text, call}},
      {schema + kTools, {call, "12"}, {text, wrong}},
      {R"("functions":[{"name":"now"}],"function_call":{"name":"now"})", {other}, {text}}};
  for (const Case& one : cases) {
    submitted_.clear();
    send("POST", kChat, chat(one.members));
    ASSERT_EQ(submitted_.size(), 1u) << one.members;
    ASSERT_TRUE(submitted_[0].request.constraint.has_value()) << one.members;
    const auto is_allowed = [&](const std::string& answer) {
      grammar::Matcher matcher(submitted_[0].request.constraint->constraint);
      const auto n = matcher.accept(answer);
      return n.ok() && *n == answer.size() && matcher.is_end();
    };
    for (const std::string& answer : one.allowed) EXPECT_TRUE(is_allowed(answer)) << one.members << answer;
    for (const std::string& answer : one.refused) EXPECT_FALSE(is_allowed(answer)) << one.members << answer;
  }
  submitted_.clear();
  expect_refused(chat(kTools + R"(,"tool_choice":{"type":"function","function":{"name":"none such"}})"), "tool_choice");
  expect_refused(chat(kTools + R"(,"tool_choice":7)"), "tool_choice");
  expect_refused(chat(R"("tools":[],"tool_choice":"required")"), "tool_choice");
}

TEST_F(ToolsTest, OneSchemaThatCannotBeEnforcedFreesTheArgumentsOfItsToolAlone) {
  const auto tools = [](const char* strict) {
    return R"("stream":true,"tools":[{"type":"function","function":{"name":"odd",)" + std::string(strict) +
           R"("parameters":{"type":"object","properties":{"a":{"unevaluatedProperties":false}}}}},)"
           R"({"type":"function","function":{"name":"now"}},{"type":"web_search"}])";
  };
  const auto exchange = send("POST", kChat, chat(tools("")));
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_EQ(*answer_of(exchange).header("X-Rocmforge-Ignored"), "tools.type, tools.odd.parameters");
  grammar::Matcher matcher(submitted_[0].request.constraint->constraint);
  const std::string odd = "<tool_call>{\"name\": \"odd\", \"arguments\": {\"a\": 7}}</tool_call>";
  const std::string bad = "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": 7}}</tool_call>";
  EXPECT_EQ(*matcher.accept(odd), odd.size());
  EXPECT_LT(*matcher.accept(bad), bad.size());
  submitted_.clear();
  expect_refused(chat(tools(R"("strict":true,)")), "tools", "unsupported_feature");
}

TEST_F(ToolsTest, AThinkingBudgetReachesTheEngine) {
  tool_format_.control = {"<think>", "</think>"};
  const std::pair<const char*, std::optional<uint32_t>> kCases[] = {{R"("thinking_budget_tokens":50)", 50},
                                                                    {R"("reasoning_effort":"low")", 1024},
                                                                    {R"("reasoning_effort":"high")", {}}};
  for (const auto& [member, budget] : kCases) {
    submitted_.clear();
    send("POST", kChat, chat(member));
    ASSERT_EQ(submitted_.size(), 1u);
    const auto& constraint = submitted_[0].request.constraint;
    ASSERT_EQ(constraint.has_value(), budget.has_value()) << member;
    if (!budget) continue;
    ASSERT_TRUE(constraint->thinking) << member;
    EXPECT_EQ(constraint->thinking->max_tokens, *budget);
    EXPECT_FALSE(constraint->thinking->closing.empty());
  }
  submitted_.clear();
  expect_refused(chat(R"("thinking_budget_tokens":-1)"), "thinking_budget_tokens");
}

TEST_F(ToolsTest, ToolsThatAreWrongSayWhatIs) {
  expect_refused(chat(R"("tools":[7])"), "tools[0]");
  expect_refused(chat(R"("tools":[{"type":"function"}])"), "tools[0].function");
  expect_refused(chat(R"("tools":[{"type":"function","function":{"name":""}}])"), "tools[0].function.name");
  expect_refused(chat(R"("tools":[{"function":{"name":"f","parameters":7}}])"), "tools[0].function.parameters");
  expect_refused(chat(R"("functions":[{}])"), "functions[0].name");
}

TEST_F(ToolsTest, CallsAndResultsOfEarlierTurnsAreInThePrompt) {
  send("POST", kChat, R"({"messages":[{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[
    {"id":"c1","type":"function","function":{"name":"now","arguments":"{\"a\":1}"}}]},
    {"role":"tool","tool_call_id":"c1","content":"noon"}]})");
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_NE(prompt_of(0).find(R"({"name": "now", "arguments": {"a":1}})"), std::string::npos) << prompt_of(0);
  EXPECT_NE(prompt_of(0).find("<tool_response>\nnoon"), std::string::npos) << prompt_of(0);
}

TEST_F(ToolsTest, TheOlderFormHasOneFunctionCall) {
  const auto whole = send("POST", kChat, R"({"functions":[{"name":"now"}],"messages":[{"role":"user","content":"u"},
    {"role":"assistant","content":null,"function_call":{"name":"now","arguments":"{}"}},
    {"role":"function","name":"now","content":"noon"}]})");
  const auto stream = send("POST", kChat, chat(R"("stream":true,"functions":[{"name":"now"}])"));
  ASSERT_EQ(submitted_.size(), 2u);
  EXPECT_NE(prompt_of(0).find("<tool_response>\nnoon"), std::string::npos) << prompt_of(0);
  for (const size_t i : {0, 1}) {
    send_tokens(i, {"<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>"});
    send_finish(i);
  }
  const JsonValue json = answer_of(whole).json();
  EXPECT_EQ(text(at(json, "choices", 0, "message", "function_call")), R"({"name":"now","arguments":"{}"})");
  EXPECT_EQ(text(at(json, "choices", 0, "finish_reason")), "function_call");
  EXPECT_EQ(deltas(answer_of(stream)).at(1), R"({"function_call":{"name":"now","arguments":""}})");
}

TEST_F(ToolsTest, ControlTokensArriveBetweenMarks) {
  tool_format_.control = {"<tool_call>", "</tool_call>"};
  tool_format_.markers = std::make_shared<const std::vector<TokenId>>(std::vector<TokenId>{TokenId(300)});
  const auto exchange = send("POST", kChat, chat(kTools));
  EXPECT_EQ(submitted_[0].request.marked_tokens, tool_format_.markers);
  send_tokens(0, {"a <tool_call> b\n", "\xFF<tool_call>\xFE", "{\"name\": \"now\"}", "\xFF</tool_call>\xFE"});
  send_finish(0);
  const JsonValue json = answer_of(exchange).json();
  EXPECT_EQ(text(at(json, "choices", 0, "message", "content")), "a <tool_call> b");
  EXPECT_EQ(text(at(json, "choices", 0, "message", "tool_calls", 0, "function", "arguments")), "{}");
}

TEST_F(ToolsTest, ParseTellsWhatATextHolds) {
  const Answer answer = post("/parse", R"({"format":"mistral-args","text":"Hi[TOOL_CALLS]now[ARGS]{}","chunks":1})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.body,
            R"({"role":"assistant","reasoning_content":"","content":"Hi","tool_calls":[{"id":"call_0",)"
            R"("type":"function","function":{"name":"now","arguments":"{}"}}],"finish_reason":"tool_calls"})");
  EXPECT_EQ(text(at(post("/parse", R"({"text":"Hm</think>Hi","prompt_tail":"<think>"})").json(), "reasoning_content")),
            "Hm");
  EXPECT_EQ(post("/parse", R"({"text":"x","format":"none such"})").status, 400);
  EXPECT_EQ(post("/parse", R"({"format":"hermes"})").status, 400);
}

}  // namespace
}  // namespace rocmforge::server
