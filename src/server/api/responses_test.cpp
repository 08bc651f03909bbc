// The Responses API: events in their order, the object, what is kept, and what clients send.

#include <fmt/core.h>

#include "grammar/matcher.h"
#include "server/api/scripted_model.h"

namespace rocmforge::server {
namespace {

using testing::Answer;
using testing::at;
using testing::text;

constexpr const char* kPath = "/v1/responses";
const std::string kTools =
    R"("tools":[{"type":"function","name":"get_weather","description":"d","strict":true,"parameters":{"type":"object",)"
    R"("properties":{"city":{"type":"string"}},"required":["city"]}},{"type":"custom","name":"apply_patch",)"
    R"("description":"Patches.","format":{"type":"grammar","syntax":"lark","definition":"start: /.+/"}},)"
    R"({"type":"web_search"},{"type":"namespace","name":"n","tools":[]}])";

class ResponsesTest : public testing::ScriptedApi {
 protected:
  static std::string body(std::string_view more = "") {
    return R"({"model":"story","input":"Once upon a time")" + (more.empty() ? "" : "," + std::string(more)) + "}";
  }
  std::string prompt_of(size_t request) { return *tokenizer_->decode(submitted_[request].request.prompt, true); }
  // The answer to a request whose model writes these.
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

// The order of events, as a grammar: what may follow, and that indexes are dense.
void check_order(const std::vector<JsonValue>& events) {
  int64_t n_items = 0;
  bool is_open = false, has_part = false;
  std::string deltas, item_type;
  for (size_t i = 0; i < events.size(); i++) {
    const JsonValue& event = events[i];
    const std::string type = text(at(event, "type"));
    ASSERT_EQ(text(at(event, "sequence_number")), std::to_string(i));
    if (i < 2) {
      ASSERT_EQ(type, i == 0 ? "response.created" : "response.in_progress");
      ASSERT_EQ(text(at(event, "response", "output")), "[]");
      continue;
    }
    if (i + 1 == events.size()) {
      ASSERT_FALSE(is_open);
      ASSERT_TRUE(type == "response.completed" || type == "response.incomplete" || type == "response.failed") << type;
      ASSERT_EQ(static_cast<int64_t>(at(event, "response", "output").as<JsonArray>()->size()), n_items);
      continue;
    }
    ASSERT_EQ(text(at(event, "output_index")), std::to_string(n_items)) << type;
    if (type == "response.output_item.added") {
      ASSERT_FALSE(std::exchange(is_open, true));
      item_type = text(at(event, "item", "type"));
      deltas.clear();
    } else if (type == "response.content_part.added") {
      ASSERT_TRUE(is_open && !std::exchange(has_part, true));
      ASSERT_TRUE(item_type == "message" || item_type == "reasoning");
    } else if (type == "response.output_text.delta" || type == "response.reasoning_text.delta") {
      ASSERT_TRUE(has_part);
      ASSERT_EQ(text(at(event, "content_index")), "0");
      deltas += text(at(event, "delta"));
    } else if (type == "response.output_text.done" || type == "response.reasoning_text.done") {
      ASSERT_EQ(text(at(event, "text")), deltas);
    } else if (type == "response.content_part.done") {
      ASSERT_TRUE(std::exchange(has_part, false));
      ASSERT_EQ(text(at(event, "part", "text")), deltas);
    } else if (type.ends_with("arguments.delta") || type.ends_with("input.delta")) {
      ASSERT_TRUE(is_open && !has_part);
      deltas += text(at(event, "delta"));
    } else if (type.ends_with("arguments.done")) {
      ASSERT_EQ(text(at(event, "arguments")), deltas);
    } else if (type.ends_with("input.done")) {
      ASSERT_EQ(text(at(event, "input")), deltas);
    } else {
      ASSERT_EQ(type, "response.output_item.done");
      ASSERT_TRUE(std::exchange(is_open, false) && !has_part);
      n_items++;
    }
  }
}

// The answer's object without what differs between two requests.
std::string items_of(const JsonValue& response) {
  std::string out;
  for (const JsonValue& item : *at(response, "output").as<JsonArray>()) {
    for (const char* key : {"type", "role", "name", "arguments", "input", "content", "status"}) {
      out += fmt::format("{}={};", key, text(at(item, key)));
    }
  }
  return out;
}

TEST_F(ResponsesTest, TextIsOneMessage) {
  const JsonValue json = answered(body(), {" there", " was"}).json();
  EXPECT_TRUE(text(at(json, "id")).starts_with("resp_"));
  EXPECT_EQ(text(at(json, "object")), "response");
  EXPECT_EQ(text(at(json, "status")), "completed");
  EXPECT_EQ(text(at(json, "model")), "story");
  EXPECT_EQ(text(at(json, "output", 0, "type")), "message");
  EXPECT_EQ(text(at(json, "output", 0, "content", 0, "text")), " there was");
  EXPECT_EQ(text(at(json, "output", 0, "content", 0, "annotations")), "[]");
  EXPECT_EQ(text(at(json, "usage")),
            R"({"input_tokens":7,"input_tokens_details":{"cached_tokens":2},"output_tokens":3,)"
            R"("output_tokens_details":{"reasoning_tokens":0},"total_tokens":10})");
  for (const char* key : {"error", "incomplete_details", "instructions", "max_output_tokens", "previous_response_id"}) {
    EXPECT_TRUE(at(json, key).is_null()) << key;
  }
  for (const char* key : {"tools", "tool_choice", "parallel_tool_calls", "reasoning", "text", "truncation", "metadata",
                          "background", "store", "created_at", "service_tier"}) {
    EXPECT_NE(text(at(json, key)), "(absent)") << key;
  }
}

TEST_F(ResponsesTest, EventsComeInTheirOrderAndEndInTheWholeAnswer) {
  const std::initializer_list<const char*> tokens = {
      "<think>Hm",
      ", so.</think>",
      "I look.",
      "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Be",
      "rn\"}}</tool_call>",
      "<tool_call>{\"name\": \"apply_patch\", \"arguments\": {\"input\": \"a\\nb\"}}</tool_call>"};
  const Answer streamed = answered(body(kTools + R"(,"stream":true)"), tokens);
  EXPECT_EQ(*streamed.header("X-Rocmforge-Ignored"), "tools.type");
  const auto events = parsed(streamed);
  check_order(events);
  const JsonValue& last = at(events.back(), "response");
  ASSERT_EQ(at(last, "output").as<JsonArray>()->size(), 4u) << streamed.body;
  EXPECT_EQ(text(at(last, "output", 0, "content", 0, "text")), "Hm, so.");
  EXPECT_EQ(text(at(last, "output", 0, "summary")), "[]");
  EXPECT_EQ(text(at(last, "output", 2, "arguments")), "{\"city\": \"Bern\"}");
  EXPECT_EQ(text(at(last, "output", 3, "type")), "custom_tool_call");
  EXPECT_EQ(text(at(last, "output", 3, "input")), "a\nb");
  const JsonValue whole = answered(body(kTools), tokens).json();
  EXPECT_EQ(items_of(whole), items_of(last));
  EXPECT_EQ(streamed.body.find("[DONE]"), std::string::npos);
}

TEST_F(ResponsesTest, ItDoesNotMatterWhereTheTokensAreCut) {
  const std::string said =
      "<think>a</think>b<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"x\"}}</tool_call>";
  const std::string expected = items_of(answered(body(kTools), {said.c_str()}).json());
  for (size_t cut = 1; cut < said.size(); cut++) {
    const auto exchange = send("POST", kPath, body(kTools + R"(,"stream":true)"));
    send_tokens(n_, {said.substr(0, cut).c_str(), said.substr(cut).c_str()});
    send_finish(n_++);
    const auto events = parsed(answer_of(exchange));
    check_order(events);
    ASSERT_EQ(items_of(at(events.back(), "response")), expected) << cut;
  }
}

TEST_F(ResponsesTest, AnAnswerThatIsCutIsIncomplete) {
  for (const char* more : {"", R"("stream":true)"}) {
    const Answer answer = answered(body(more), {" a"}, FinishReason::length);
    const JsonValue json = *more ? at(parsed(answer).back(), "response") : answer.json();
    EXPECT_EQ(text(at(json, "status")), "incomplete");
    EXPECT_EQ(text(at(json, "incomplete_details", "reason")), "max_output_tokens");
    EXPECT_EQ(text(at(json, "output", 0, "status")), "incomplete");
    if (*more) {
      EXPECT_EQ(text(at(parsed(answer).back(), "type")), "response.incomplete");
    }
  }
}

TEST_F(ResponsesTest, AFailureInAStreamIsItsLastEvent) {
  const auto exchange = send("POST", kPath, body(R"("stream":true)"));
  send_tokens(0, {" a"});
  submitted_[0].send(FinishEvent{.reason = FinishReason::error, .error = Error{ErrorCode::device_failed, "secret"}});
  const Answer answer = answer_of(exchange);
  const auto events = parsed(answer);
  check_order(events);
  EXPECT_EQ(text(at(events.back(), "type")), "response.failed");
  EXPECT_EQ(text(at(events.back(), "response", "error", "code")), "device_failed");
  EXPECT_EQ(answer.body.find("secret"), std::string::npos);
}

TEST_F(ResponsesTest, TooLongAConversationFailsInTheStream) {
  const std::string input = fmt::format(R"("input":"{}")", std::string(9000, 'x'));
  const Answer streamed = post(kPath, "{" + input + R"(,"stream":true})");
  EXPECT_EQ(streamed.status, 200);
  const auto events = parsed(streamed);
  check_order(events);
  EXPECT_EQ(text(at(events.back(), "response", "error", "code")), "context_length_exceeded");
  const Answer whole = post(kPath, "{" + input + "}");
  EXPECT_EQ(whole.status, 400);
  EXPECT_EQ(text(at(whole.json(), "error", "code")), "context_length_exceeded");
  EXPECT_EQ(text(at(whole.json(), "error", "param")), "input");
}

TEST_F(ResponsesTest, WaitingIsToldInEvents) {
  const auto exchange = send("POST", kPath, body(R"("stream":true)"));
  const Answer answer = answer_of(exchange);
  EXPECT_TRUE(answer.head.ping.starts_with("event: response.in_progress\ndata: {")) << answer.head.ping;
  const auto events = answer.events();
  EXPECT_EQ(answer.head.ping, "event: response.in_progress\ndata: " + events[1] + "\n\n");
}

TEST_F(ResponsesTest, AConversationContinuesWhereItWas) {
  const std::string first = text(at(answered(body(R"("instructions":"Be brief.")"), {" there"}).json(), "id"));
  EXPECT_NE(prompt_of(0).find("Be brief."), std::string::npos);
  const auto more = fmt::format(R"({{"input":"And then?","previous_response_id":"{}"}})", first);
  const JsonValue second = answered(more, {" it"}).json();
  EXPECT_EQ(text(at(second, "previous_response_id")), first);
  const std::string prompt = prompt_of(1);
  EXPECT_EQ(prompt.find("Be brief."), std::string::npos) << "instructions are for one response";
  const size_t a = prompt.find("Once upon a time"), b = prompt.find(" there"), c = prompt.find("And then?");
  EXPECT_TRUE(a < b && b < c && c != std::string::npos) << prompt;
  const auto third = fmt::format(R"({{"input":"On.","previous_response_id":"{}"}})", text(at(second, "id")));
  answered(third, {" on"});
  EXPECT_NE(prompt_of(2).find("Once upon a time"), std::string::npos);
  EXPECT_NE(prompt_of(2).find(" it"), std::string::npos);
}

TEST_F(ResponsesTest, WhatIsKeptCanBeReadAndDeleted) {
  const Answer made = answered(body(), {" there"});
  const std::string id = text(at(made.json(), "id")), path = std::string(kPath) + "/" + id;
  EXPECT_EQ(ask("GET", path).body, made.body);
  const JsonValue items = ask("GET", path + "/input_items").json();
  EXPECT_EQ(text(at(items, "data", 0, "content", 0, "text")), "Once upon a time");
  EXPECT_EQ(text(at(items, "first_id")), text(at(items, "data", 0, "id")));
  EXPECT_EQ(text(at(items, "has_more")), "false");
  EXPECT_EQ(text(at(ask("DELETE", path).json(), "deleted")), "true");
  EXPECT_EQ(ask("GET", path).status, 404);
  EXPECT_EQ(ask("DELETE", path).status, 404);
  const Answer gone = post(kPath, fmt::format(R"({{"input":"x","previous_response_id":"{}"}})", id));
  EXPECT_EQ(gone.status, 404);
  EXPECT_EQ(text(at(gone.json(), "error", "code")), "previous_response_not_found");
  const std::string unkept = text(at(answered(body(R"("store":false)"), {" x"}).json(), "id"));
  EXPECT_EQ(ask("GET", std::string(kPath) + "/" + unkept).status, 404);
}

TEST_F(ResponsesTest, StreamedAnswersAreKeptToo) {
  const auto events = parsed(answered(body(R"("stream":true)"), {" there"}));
  const std::string id = text(at(events[0], "response", "id"));
  EXPECT_EQ(text(ask("GET", std::string(kPath) + "/" + id).json()), text(at(events.back(), "response")));
}

TEST_F(ResponsesTest, ItemsAreListedInPages) {
  const std::string item = R"({"role":"user","content":"x"})";
  const auto many = fmt::format(R"({{"input":[{0},{0},{0}]}})", item);
  const std::string path = std::string(kPath) + "/" + text(at(answered(many, {" y"}).json(), "id")) + "/input_items";
  const JsonValue all = ask("GET", path + "?order=asc").json();
  ASSERT_EQ(at(all, "data").as<JsonArray>()->size(), 3u);
  const JsonValue newest = ask("GET", path + "?limit=2").json();
  EXPECT_EQ(text(at(newest, "has_more")), "true");
  EXPECT_EQ(text(at(newest, "first_id")), text(at(all, "last_id")));
  const JsonValue rest = ask("GET", path + "?after=" + text(at(newest, "last_id"))).json();
  EXPECT_EQ(text(at(rest, "first_id")), text(at(all, "first_id")));
  EXPECT_EQ(ask("GET", path + "?limit=0").status, 400);
}

TEST_F(ResponsesTest, InTheBackgroundTheAnswerGoesToTheStore) {
  const Answer begun = post(kPath, body(R"("background":true)"));
  ASSERT_EQ(begun.status, 200);
  EXPECT_EQ(text(at(begun.json(), "status")), "queued");
  const std::string id = text(at(begun.json(), "id")), path = std::string(kPath) + "/" + id;
  EXPECT_EQ(text(at(ask("GET", path).json(), "status")), "queued");
  EXPECT_EQ(post(kPath, fmt::format(R"({{"input":"x","previous_response_id":"{}"}})", id)).status, 404);
  send_tokens(0, {" there"});
  send_finish(0);
  const JsonValue done = ask("GET", path).json();
  EXPECT_EQ(text(at(done, "status")), "completed");
  EXPECT_EQ(text(at(done, "output", 0, "content", 0, "text")), " there");
  EXPECT_EQ(text(at(done, "background")), "true");
}

TEST_F(ResponsesTest, WhatRunsInTheBackgroundCanBeCancelledAndDeleted) {
  const std::string id = text(at(post(kPath, body(R"("background":true)")).json(), "id"));
  const std::string path = std::string(kPath) + "/" + id;
  EXPECT_EQ(text(at(post(path + "/cancel", "").json(), "status")), "cancelled");
  EXPECT_TRUE(submitted_[0].is_cancelled);
  send_finish(0, FinishReason::cancelled);
  EXPECT_EQ(text(at(ask("GET", path).json(), "status")), "cancelled");
  const std::string other = text(at(post(kPath, body(R"("background":true)")).json(), "id"));
  EXPECT_EQ(ask("DELETE", std::string(kPath) + "/" + other).status, 200);
  EXPECT_TRUE(submitted_[1].is_cancelled);
  send_finish(1, FinishReason::cancelled);
  EXPECT_EQ(ask("GET", std::string(kPath) + "/" + other).status, 404) << "it does not come back";
  n_ = 2;
  const std::string plain = text(at(answered(body(), {" x"}).json(), "id"));
  EXPECT_EQ(post(std::string(kPath) + "/" + plain + "/cancel", "").status, 400);
}

TEST_F(ResponsesTest, AFullQueueIsSaidInTheBackgroundToo) {
  refuse_with_ = ErrorCode::queue_full;
  EXPECT_EQ(post(kPath, body(R"("background":true)")).status, 429);
}

// The text of a custom tool stands inside of JSON; its grammar holds there.
TEST_F(ResponsesTest, TextsOfCustomToolsAreHeldToTheirGrammars) {
  struct Case {
    const char *syntax, *definition, *in, *out;
  };
  for (const Case& one : {Case{"lark", R"(start: \"*** Begin\" LF line+\nline: /[+-].*/ LF\n%import common.LF)",
                               R"(*** Begin\n+a \"b\"\n-\n)", R"(*** Begin\n)"},
                          Case{"regex", "[0-9]+-[0-9]+", "12-3", "12-"}}) {
    const std::string tool = fmt::format(
        R"({{"type":"custom","name":"patch","format":{{"type":"grammar","syntax":"{}","definition":"{}"}}}})",
        one.syntax, one.definition);
    const Answer answer = answered(
        body(fmt::format(R"("tools":[{}],"tool_choice":{{"type":"custom","name":"patch"}},"parallel_tool_calls":false)",
                         tool)),
        {" x"});
    EXPECT_EQ(answer.header("X-Rocmforge-Ignored"), nullptr);
    const auto& constraint = submitted_.back().request.constraint;
    ASSERT_TRUE(constraint.has_value());
    const auto accepts = [&](std::string_view input) {
      grammar::Matcher matcher(constraint->constraint);
      const std::string call = fmt::format(
          "<tool_call>\n{{\"name\": \"patch\", \"arguments\": {{\"input\": \"{}\"}}}}\n</tool_call>", input);
      const auto n = matcher.accept(call);
      return n.ok() && *n == call.size() && matcher.is_end();
    };
    EXPECT_TRUE(accepts(one.in)) << one.syntax;
    EXPECT_FALSE(accepts(one.out)) << one.syntax;
    EXPECT_EQ(prompt_of(submitted_.size() - 1).find("x-lark"), std::string::npos) << "told in words";
  }
}

TEST_F(ResponsesTest, ItemsBecomeTheConversation) {
  answered(R"({"instructions":"Sys.","input":[
    {"type":"message","role":"developer","content":[{"type":"input_text","text":"Dev."}]},
    {"role":"user","content":"Weather?"},
    {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"rocmforge.1.Thought."},
    {"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look.","annotations":[]}]},
    {"type":"function_call","call_id":"c1","name":"get_weather","arguments":"{\"city\":\"Bern\"}"},
    {"type":"custom_tool_call","call_id":"c2","name":"apply_patch","input":"line\n"},
    {"type":"function_call_output","call_id":"c1","output":"sunny"},
    {"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"patched"}]},
    {"type":"web_search_call","id":"ws_1"}],)" +
               kTools + "}",
           {" ok"});
  const std::string prompt = prompt_of(0);
  for (const char* part : {"Sys.", "Dev.", "Weather?", "I look.", "Bern", "line\\n", "sunny", "patched"}) {
    EXPECT_NE(prompt.find(part), std::string::npos) << part << "\n" << prompt;
  }
}

TEST_F(ResponsesTest, ReferencesToItemsAreFollowed) {
  const JsonValue first = answered(body(), {" there"}).json();
  const auto next =
      fmt::format(R"({{"input":[{{"type":"item_reference","id":"{}"}},{{"role":"user","content":"On."}}]}})",
                  text(at(first, "output", 0, "id")));
  answered(next, {" x"});
  EXPECT_NE(prompt_of(1).find(" there"), std::string::npos);
  const Answer none = post(kPath, R"({"input":[{"type":"item_reference","id":"msg_none"}]})");
  EXPECT_EQ(none.status, 400);
  EXPECT_EQ(text(at(none.json(), "error", "code")), "item_not_found");
}

TEST_F(ResponsesTest, InputTokensAreCounted) {
  const JsonValue json = post("/v1/responses/input_tokens", body()).json();
  EXPECT_EQ(text(at(json, "object")), "response.input_tokens");
  answered(body(), {" x"});
  EXPECT_EQ(text(at(json, "input_tokens")), std::to_string(submitted_[0].request.prompt.size()));
}

TEST_F(ResponsesTest, WhatIsWrongIsSaidByItsNameHere) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"({})", "input"},
      {R"({"input":7})", "input"},
      {R"({"input":[]})", "input"},
      {R"({"input":[7]})", "input[0]"},
      {R"({"input":[{"role":"king","content":"x"}]})", "input[0].role"},
      {R"({"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]})", "input[0].content[0].type"},
      {R"({"input":[{"type":"function_call","call_id":"c"}]})", "input[0].name"},
      {R"({"input":"x","max_output_tokens":0})", "max_output_tokens"},
      {R"({"input":"x","temperature":"hot"})", "temperature"},
      {R"({"input":"x","store":"yes"})", "store"},
      {R"({"input":"x","conversation":"c"})", "conversation"},
      {R"({"input":"x","prompt":{"id":"p"}})", "prompt"},
      {R"({"input":"x","background":true,"stream":true})", "background"},
      {R"({"input":"x","background":true,"store":false})", "background"},
      {R"({"input":"x","text":{"format":{"type":"xml"}}})", "text.format"},
      {R"({"input":"x","tools":[{"type":"function"}]})", "tools[0].name"},
      {R"({"input":"x","instructions":[]})", "instructions"},
  };
  for (const auto& [request, param] : kCases) {
    const Answer answer = post(kPath, request);
    EXPECT_EQ(answer.status, 400) << request;
    EXPECT_EQ(text(at(answer.json(), "error", "param")), param) << request << answer.body;
  }
  EXPECT_EQ(submitted_.size(), 0u);
}

TEST_F(ResponsesTest, AnAnswerLongerThanTheContextIsShortened) {
  answered(body(R"("max_output_tokens":100000)"), {" x"});
  EXPECT_EQ(*submitted_[0].request.max_tokens + submitted_[0].request.prompt.size(), model_->n_context);
}

TEST_F(ResponsesTest, WhatAStreamKeepsIsCounted) {
  ApiOptions options;
  options.max_answer_bytes = 4000;
  start(options);
  const auto exchange = send("POST", kPath, body(R"("stream":true)"));
  const std::string piece(500, 'x');
  for (int i = 0; i < 8; i++) submitted_[0].send(TokenEvent{.token = TokenId(300), .text = piece});
  const Answer answer = answer_of(exchange);
  EXPECT_TRUE(answer.is_finished);
  EXPECT_TRUE(submitted_[0].is_cancelled);
  EXPECT_EQ(text(at(parsed(answer).back(), "response", "error", "code")), "answer_too_large");
}

TEST_F(ResponsesTest, ALongAnswerReachesItsReader) {
  const auto exchange = send("POST", kPath, body(R"("stream":true)"));
  const std::string piece(64u << 10, 'x');
  Answer answer;
  for (int i = 0; i < 8; i++) {
    submitted_[0].send(TokenEvent{.token = TokenId(300), .text = piece});
    collect(exchange, answer);
  }
  send_finish(0);
  collect(exchange, answer);
  EXPECT_TRUE(answer.is_finished) << "the end is larger than what may be unsent otherwise";
  check_order(parsed(answer));
}

TEST_F(ResponsesTest, LogprobsComeWithTheText) {
  for (const char* more : {"", R"(,"stream":true)"}) {
    const auto exchange =
        send("POST", kPath, body(R"("include":["message.output_text.logprobs"],"top_logprobs":1)" + std::string(more)));
    EXPECT_TRUE(submitted_[n_].request.sampling.want_logprobs);
    for (const int32_t id : {300, 301}) {
      submitted_[n_].send(TokenEvent{
          .token = TokenId(id), .text = "t", .logprobs = TokenLogprobs{.logprob = -1, .top = {{TokenId(id), -1}}}});
    }
    send_finish(n_++);
    const Answer answer = answer_of(exchange);
    const JsonValue json = *more ? at(parsed(answer).back(), "response") : answer.json();
    EXPECT_EQ(at(json, "output", 0, "content", 0, "logprobs").as<JsonArray>()->size(), 2u) << answer.body;
  }
}

TEST_F(ResponsesTest, ACustomToolWithARegularExpressionIsHeldToIt) {
  const Answer answer =
      answered(body(R"("tool_choice":"required","tools":[{"type":"custom","name":"dial","format":{"type":"grammar",)"
                    R"("syntax":"regex","definition":"[0-9]{3}|none"}}])"),
               {" a"});
  const std::string* ignored = answer.header("X-Rocmforge-Ignored");
  EXPECT_TRUE(ignored == nullptr || ignored->find("tools.format") == std::string::npos);
  ASSERT_TRUE(submitted_[0].request.constraint.has_value());
  const auto allows = [&](const std::string& input) {
    grammar::Matcher matcher(submitted_[0].request.constraint->constraint);
    const std::string call =
        "<tool_call>\n{\"name\": \"dial\", \"arguments\": {\"input\": \"" + input + "\"}}\n</tool_call>";
    return *matcher.accept(call) == call.size();
  };
  EXPECT_TRUE(allows("123"));
  EXPECT_TRUE(allows("none"));
  EXPECT_FALSE(allows("1234"));
  EXPECT_FALSE(allows("some"));
}

}  // namespace
}  // namespace rocmforge::server
