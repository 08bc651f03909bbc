// Anthropic's Messages API: events in their order, the message, and what clients send.

#include "server/api/messages_request.h"

#include <fmt/core.h>

#include "server/api/scripted_model.h"

namespace rocmforge::server {
namespace {

using testing::Answer;
using testing::at;
using testing::text;

constexpr const char* kPath = "/v1/messages";
const std::string kTools =
    R"("tools":[{"name":"get_weather","description":"d","input_schema":{"type":"object","properties":{"city":)"
    R"({"type":"string"}},"required":["city"]}},{"name":"now","input_schema":{"type":"object"}},)"
    R"({"type":"web_search_20250305","name":"web_search"}])";

class MessagesTest : public testing::ScriptedApi {
 protected:
  static std::string body(std::string_view more = "") {
    return R"({"model":"story","max_tokens":64,"messages":[{"role":"user","content":"Once upon a time"}])" +
           (more.empty() ? "" : "," + std::string(more)) + "}";
  }
  std::string prompt_of(size_t request) { return *tokenizer_->decode(submitted_[request].request.prompt, true); }
  Answer answered(const std::string& request, std::initializer_list<const char*> tokens,
                  FinishReason reason = FinishReason::stop) {
    const auto exchange = send("POST", kPath, request);
    EXPECT_EQ(submitted_.size(), n_ + 1) << answer_of(exchange).body;
    if (submitted_.size() != n_ + 1) return {};
    send_tokens(n_, tokens);
    send_finish(n_++, reason);
    return answer_of(exchange);
  }
  static std::vector<JsonValue> parsed(const Answer& answer) {
    std::vector<JsonValue> out;
    for (const std::string& event : answer.events()) out.push_back(*parse_json(event));
    return out;
  }
  size_t n_ = 0;
};

// Checks the order of events as a grammar, and puts the blocks together as clients do.
std::string assembled(const std::vector<JsonValue>& events) {
  std::string out, block, json;
  int64_t n_blocks = 0;
  bool is_open = false;
  for (size_t i = 0; i < events.size(); i++) {
    const JsonValue& event = events[i];
    const std::string type = text(at(event, "type"));
    if (i == 0) {
      EXPECT_EQ(type, "message_start");
      EXPECT_EQ(text(at(event, "message", "content")), "[]");
      EXPECT_NE(text(at(event, "message", "usage", "input_tokens")), "(absent)");
    } else if (type == "content_block_start") {
      EXPECT_FALSE(std::exchange(is_open, true));
      EXPECT_EQ(text(at(event, "index")), std::to_string(n_blocks));
      const JsonValue& begun = at(event, "content_block");
      block = text(at(begun, "type")) + ":" + (begun.find("name") ? text(at(begun, "name")) + ":" : "");
      json.clear();
    } else if (type == "content_block_delta") {
      EXPECT_TRUE(is_open);
      EXPECT_EQ(text(at(event, "index")), std::to_string(n_blocks));
      for (const char* key : {"text", "thinking", "partial_json"}) {
        if (at(event, "delta").find(key)) json += text(at(event, "delta", key));
      }
    } else if (type == "content_block_stop") {
      EXPECT_TRUE(std::exchange(is_open, false));
      EXPECT_EQ(text(at(event, "index")), std::to_string(n_blocks++));
      out += block + json + ";";
    } else if (type == "message_delta") {
      EXPECT_FALSE(is_open);
      EXPECT_EQ(i + 2, events.size());
      out += text(at(event, "delta", "stop_reason"));
      EXPECT_NE(text(at(event, "usage", "output_tokens")), "(absent)");
    } else if (type == "message_stop") {
      EXPECT_EQ(i + 1, events.size());
    } else {
      EXPECT_EQ(type, "ping");
    }
  }
  return out;
}

// The same of an answer in one piece.
std::string assembled(const JsonValue& message) {
  std::string out;
  for (const JsonValue& block : *at(message, "content").as<JsonArray>()) {
    const std::string type = text(at(block, "type"));
    out += type + ":";
    if (type == "tool_use") out += text(at(block, "name")) + ":" + text(at(block, "input"));
    if (type == "text") out += text(at(block, "text"));
    if (type == "thinking") out += text(at(block, "thinking"));
    out += ";";
  }
  return out + text(at(message, "stop_reason"));
}

TEST_F(MessagesTest, TextIsOneBlock) {
  const JsonValue json = answered(body(), {" there", " was"}).json();
  EXPECT_TRUE(text(at(json, "id")).starts_with("msg_"));
  EXPECT_EQ(text(at(json, "type")), "message");
  EXPECT_EQ(text(at(json, "role")), "assistant");
  EXPECT_EQ(text(at(json, "model")), "story");
  EXPECT_EQ(assembled(json), "text: there was;end_turn");
  EXPECT_TRUE(at(json, "stop_sequence").is_null());
  EXPECT_EQ(text(at(json, "usage")),
            R"({"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":2,"output_tokens":3})");
}

TEST_F(MessagesTest, BlocksComeInTheirOrderAndSayWhatTheWholeAnswerSays) {
  const std::initializer_list<const char*> tokens = {
      "<think>Hm",
      ", so.</think>",
      "I look.",
      "<tool_call>{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Be",
      "rn\"}}</tool_call>",
      "<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>"};
  const Answer streamed = answered(body(kTools + R"(,"stream":true)"), tokens);
  EXPECT_EQ(*streamed.header("X-Rocmforge-Ignored"), "tools.type");
  const std::string expected =
      "thinking:Hm, so.;text:I look.;tool_use:get_weather:{\"city\":\"Bern\"};tool_use:now:{};tool_use";
  EXPECT_EQ(assembled(parsed(streamed)), expected);
  EXPECT_EQ(assembled(answered(body(kTools), tokens).json()), expected);
  EXPECT_NE(streamed.body.find("signature_delta"), std::string::npos);
}

TEST_F(MessagesTest, ItDoesNotMatterWhereTheTokensAreCut) {
  const std::string said =
      "<think>a</think>b<tool_call>{\"name\":\"get_weather\",\"arguments\":{\"city\":\"x\"}}</tool_call>";
  const std::string expected = assembled(answered(body(kTools), {said.c_str()}).json());
  for (size_t cut = 1; cut < said.size(); cut++) {
    const auto exchange = send("POST", kPath, body(kTools + R"(,"stream":true)"));
    send_tokens(n_, {said.substr(0, cut).c_str(), said.substr(cut).c_str()});
    send_finish(n_++);
    ASSERT_EQ(assembled(parsed(answer_of(exchange))), expected) << cut;
  }
}

TEST_F(MessagesTest, ReasonsOfTheEnd) {
  for (const char* more : {"", R"("stream":true)"}) {
    const Answer cut = answered(body(more), {" a"}, FinishReason::length);
    EXPECT_EQ(*more ? assembled(parsed(cut)) : assembled(cut.json()), "text: a;max_tokens");
  }
  const auto exchange = send("POST", kPath, body(R"("stop_sequences":["","END","STOP"])"));
  ASSERT_EQ(submitted_[n_].request.stop, (std::vector<std::string>{"END", "STOP"}));
  send_tokens(n_, {" a"});
  submitted_[n_].send(FinishEvent{.reason = FinishReason::stop, .stopped_by = 1});
  do_work();
  const JsonValue json = answer_of(exchange).json();
  EXPECT_EQ(text(at(json, "stop_reason")), "stop_sequence");
  EXPECT_EQ(text(at(json, "stop_sequence")), "STOP");
  n_++;
  const auto full = send("POST", kPath, body());
  send_tokens(n_, {" a"});
  submitted_[n_].send(FinishEvent{.reason = FinishReason::length, .usage = {.n_prompt = 1000, .n_generated = 24}});
  do_work();
  EXPECT_EQ(text(at(answer_of(full).json(), "stop_reason")), "model_context_window_exceeded");
}

TEST_F(MessagesTest, AFailureInAStreamIsItsLastEvent) {
  const auto exchange = send("POST", kPath, body(R"("stream":true)"));
  send_tokens(0, {" a"});
  submitted_[0].send(FinishEvent{.reason = FinishReason::error, .error = Error{ErrorCode::device_failed, "secret"}});
  const Answer answer = answer_of(exchange);
  const JsonValue last = parsed(answer).back();
  EXPECT_EQ(text(at(last, "type")), "error");
  EXPECT_EQ(text(at(last, "error", "type")), "overloaded_error");
  EXPECT_EQ(answer.body.find("secret"), std::string::npos);
}

TEST_F(MessagesTest, WaitingIsToldInPings) {
  const auto exchange = send("POST", kPath, body(R"("stream":true)"));
  const Answer answer = answer_of(exchange);
  EXPECT_EQ(answer.head.ping, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
  const auto events = parsed(answer);
  ASSERT_EQ(events.size(), 2u) << "both come before the prompt is computed";
  EXPECT_EQ(text(at(events[0], "message", "usage", "input_tokens")),
            std::to_string(submitted_[0].request.prompt.size()));
}

TEST_F(MessagesTest, BlocksBecomeTheConversation) {
  answered(
      R"({"model":"story","max_tokens":5,"system":[{"type":"text","text":"Sys.","cache_control":{"type":"ephemeral"}}],
    "messages":[{"role":"user","content":[{"type":"text","text":"Weather?","cache_control":{"type":"ephemeral"}}]},
    {"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"text","text":"I look."},
      {"type":"tool_use","id":"t1","name":"get_weather","input":{"city":"Bern"}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"sunny"}]},
      {"type":"text","text":"And now?"},{"type":"document","source":{"type":"text","data":"A file."}}]}],)" +
          kTools + R"(,"metadata":{"user_id":"u"},"context_management":{},"thinking":{"type":"adaptive"}})",
      {" ok"});
  const std::string prompt = prompt_of(0);
  size_t last = 0;
  for (const char* part : {"Sys.", "Weather?", "I look.", "Bern", "sunny", "And now?", "A file."}) {
    const size_t found = prompt.find(part, last);
    EXPECT_NE(found, std::string::npos) << part << "\n" << prompt;
    last = found == std::string::npos ? last : found;
  }
}

TEST_F(MessagesTest, ErrorsHaveAnthropicsShape) {
  const std::pair<std::string, const char*> kCases[] = {
      {R"({"messages":[{"role":"user","content":"x"}]})", "max_tokens"},
      {R"({"max_tokens":1})", "messages"},
      {R"({"max_tokens":1,"messages":[]})", "messages"},
      {R"({"max_tokens":1,"messages":[7]})", "messages.0"},
      {R"({"max_tokens":1,"messages":[{"role":"king","content":"x"}]})", "messages.0.role"},
      {R"({"max_tokens":1,"messages":[{"role":"user","content":[{"type":"image"}]}]})", "messages.0.content.0.type"},
      {body(R"("temperature":"hot")"), "temperature"},
      {body(R"("stop_sequences":"x")"), "stop_sequences"},
      {body(R"("thinking":{"type":"maybe"})"), "thinking.type"},
      {body(R"("tools":[{"description":"x"}])"), "tools.0.name"},
      {body(kTools + R"(,"tool_choice":{"type":"some"})"), "tool_choice.type"},
      {body(R"("output_config":{"format":{"type":"xml"}})"), "output_config.format"},
  };
  for (const auto& [request, param] : kCases) {
    const Answer answer = post(kPath, request);
    EXPECT_EQ(answer.status, 400) << request;
    const JsonValue json = answer.json();
    EXPECT_EQ(text(at(json, "type")), "error");
    EXPECT_EQ(text(at(json, "error", "type")), "invalid_request_error");
    EXPECT_NE(text(at(json, "error", "message")).find("'" + std::string(param) + "'"), std::string::npos)
        << request << answer.body;
    EXPECT_EQ(text(at(json, "request_id")), *answer.header("X-Request-Id"));
  }
  EXPECT_EQ(submitted_.size(), 0u);
  const std::string long_text(9000, 'x');
  const Answer large =
      post(kPath, fmt::format(R"({{"max_tokens":1,"messages":[{{"role":"user","content":"{}"}}]}})", long_text));
  EXPECT_TRUE(text(at(large.json(), "error", "message")).starts_with("prompt is too long: "));
  EXPECT_EQ(text(at(post(kPath, R"({"model":"none","max_tokens":1})").json(), "error", "type")), "not_found_error");
}

TEST_F(MessagesTest, TokensAreCounted) {
  const JsonValue json =
      post("/v1/messages/count_tokens", R"({"messages":[{"role":"user","content":"Once upon a time"}]})").json();
  answered(body(), {" x"});
  EXPECT_EQ(text(at(json, "input_tokens")), std::to_string(submitted_[0].request.prompt.size()));
}

TEST_F(MessagesTest, ModelsAreListedInTheShapeOfTheAsker) {
  const Answer theirs = ask("GET", "/v1/models?limit=1000", "", {{"anthropic-version", "2023-06-01"}});
  const JsonValue json = theirs.json();
  EXPECT_EQ(text(at(json, "data", 0)),
            R"({"type":"model","id":"story","display_name":"story","created_at":"2023-11-14T22:13:20Z"})");
  EXPECT_EQ(text(at(json, "has_more")), "false");
  EXPECT_EQ(text(at(json, "first_id")), "story");
  EXPECT_EQ(text(at(json, "last_id")), "org/story:q4");
  EXPECT_EQ(text(at(ask("GET", "/v1/models/story", "", {{"anthropic-version", "x"}}).json(), "type")), "model");
  EXPECT_EQ(text(at(ask("GET", "/v1/models").json(), "object")), "list");
}

TEST_F(MessagesTest, TheStampOfClaudeCodeDoesNotChangeThePrompt) {
  const auto ask_with = [&](const char* stamp) {
    answered(body(fmt::format(R"("system":[{{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.9; )"
                              R"(cc_entrypoint=cli; cch={};"}},{{"type":"text","text":"You help. cch=keep;"}}])",
                              stamp)),
             {" x"});
    return submitted_.back().request.prompt;
  };
  const auto a = ask_with("1a2b3"), b = ask_with("fffff");
  EXPECT_EQ(a, b);
  std::string other = "Remember cch=1a2b3; always.";
  normalise_stamp(other);
  EXPECT_EQ(other, "Remember cch=1a2b3; always.") << "only in a line of that name";
  std::string line = "x-anthropic-billing-header: a; cch=1a2b3\ncch=5;";
  normalise_stamp(line);
  EXPECT_EQ(line, "x-anthropic-billing-header: a; cch=00000\ncch=5;");
}

}  // namespace
}  // namespace rocmforge::server
