// Answers that come back as history are the tokens that were generated, through every API.

#include "server/api/answer_memory.h"

#include <fmt/core.h>

#include "server/api/scripted_model.h"

namespace rocmforge::server {
namespace {

using testing::Answer;
using testing::at;
using testing::text;

std::optional<std::string> digest_of(std::string_view json) {
  return AnswerDigest::of_message(*parse_json(json));
}

TEST(AnswerDigest, IsThatOfWhatIsSaid) {
  const auto known = digest_of(R"({"role":"assistant","content":"Hi there","tool_calls":[
    {"id":"a","function":{"name":"f","arguments":"{\"a\": 1, \"b\": [true, null]}"}}]})");
  ASSERT_TRUE(known);
  EXPECT_EQ(digest_of(R"({"role":"assistant","content":[{"type":"text","text":"Hi"},{"type":"text","text":" there\n"}],
    "reasoning_content":" ","tool_calls":[{"id":"z","function":{"name":"f","arguments":{"b":[true,null],"a":1.0}}}]})"),
            known);
  for (const char* other :
       {R"({"role":"assistant","content":"Hi there"})", R"({"role":"assistant","content":"Hithere","tool_calls":[
    {"id":"a","function":{"name":"f","arguments":"{\"a\": 1, \"b\": [true, null]}"}}]})",
        R"({"role":"assistant","content":"Hi there","reasoning_content":"Hm","tool_calls":[
    {"id":"a","function":{"name":"f","arguments":"{\"a\": 1, \"b\": [true, null]}"}}]})",
        R"({"role":"assistant","content":"Hi there","tool_calls":[
    {"id":"a","function":{"name":"f","arguments":"{\"a\": 1, \"b\": [null, true]}"}}]})",
        R"({"role":"assistant","content":"Hi there","tool_calls":[
    {"id":"a","function":{"name":"g","arguments":"{\"a\": 1, \"b\": [true, null]}"}}]})"}) {
    ASSERT_TRUE(digest_of(other)) << other;
    EXPECT_NE(digest_of(other), known) << other;
  }
  EXPECT_FALSE(digest_of(R"({"role":"user","content":"Hi"})"));
  EXPECT_FALSE(digest_of(R"({"role":"assistant","content":" "})"));
  EXPECT_FALSE(digest_of(R"({"role":"assistant","content":null})"));
}

TEST(AnswerDigest, IsTheSameInPieces) {
  using Kind = chat::MessageEvent::Kind;
  AnswerDigest pieces;
  for (const char* piece : {" ", "Hi ", " ", "there", " "}) pieces.add({.kind = Kind::content, .text = piece});
  EXPECT_EQ(pieces.finish(), digest_of(R"({"role":"assistant","content":"Hi  there"})"));
  pieces.add({.kind = Kind::call, .text = "f"});
  pieces.add({.kind = Kind::arguments, .text = "{\"a\":"});
  EXPECT_FALSE(pieces.finish()) << "a call that is not complete";
  pieces.add({.kind = Kind::arguments, .text = "1}"});
  pieces.add({.kind = Kind::call_end, .text = {}});
  EXPECT_EQ(pieces.finish(), digest_of(R"({"role":"assistant","content":"Hi  there","tool_calls":[
    {"function":{"name":"f","arguments":{"a":1}}}]})"));
}

// The scripted model writes a call in tokens of its own; then the client sends back what it was given.
class AnswersComeBack : public testing::ScriptedApi {
 protected:
  void SetUp() override {
    ScriptedApi::SetUp();
    use_template(
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<s>[{{ m.role }}]"
        "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}"
        "{% for c in m.tool_calls or [] %}<tool_call>\n{{ c.function | tojson(indent=4) }}\n</tool_call>{% endfor "
        "%}</s>\n"
        "{% endfor %}{% if add_generation_prompt %}<s>[assistant]{% endif %}");
  }
  void use_template(std::string source) {
    template_ = std::make_unique<chat::ChatTemplate>(*chat::ChatTemplate::load(
        file_->metadata(), {.bos = "<s>", .eos = "</s>", .contains = [](std::string_view) { return false; }},
        {.text = std::move(source), .name = {}}));
    model_->chat_template = template_.get();
    tool_format_ = *chat::find_model_format(*template_, *tokenizer_);
  }
  // The tokens of the answer, a character each.
  Answer answer(const std::string& path, const std::string& body, std::string_view written) {
    const size_t n = submitted_.size();
    const auto exchange = send("POST", path, body);
    EXPECT_EQ(submitted_.size(), n + 1) << answer_of(exchange).body;
    if (submitted_.size() != n + 1) return {};
    tokens_.clear();
    submitted_.back().send(StartEvent{});
    for (const char c : written) {
      tokens_.push_back(tokenizer_->encode(std::string(1, c))->back());
      submitted_.back().send(TokenEvent{.token = tokens_.back(), .text = std::string(1, c)});
    }
    send_finish(n);
    return answer_of(exchange);
  }
  // Of the next prompt, whether it is the last one and what was answered to it, and more.
  void expect_next(const std::string& path, const std::string& body) {
    auto known = submitted_.back().request.prompt;
    known.insert(known.end(), tokens_.begin(), tokens_.end());
    const size_t n = submitted_.size();
    const auto exchange = send("POST", path, body);
    ASSERT_EQ(submitted_.size(), n + 1) << answer_of(exchange).body;
    const auto& prompt = submitted_.back().request.prompt;
    ASSERT_GT(prompt.size(), known.size());
    EXPECT_TRUE(std::equal(known.begin(), known.end(), prompt.begin())) << path << "\n"
                                                                        << *tokenizer_->decode(known, true) << "\n"
                                                                        << *tokenizer_->decode(prompt, true);
    send_finish(n);
  }

  static constexpr const char* kSaid =
      R"(<think>Let me see.</think>Wait.<tool_call>{"arguments":{"b":[1,true],"a":"x"},"name":"f"}</tool_call>)";
  static constexpr const char* kChatTools =
      R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])";
  std::vector<TokenId> tokens_;
};

std::string json_of(const JsonValue& value) {
  return JsonWriter().value(value).take();
}

TEST_F(AnswersComeBack, ThroughChatCompletions) {
  const std::string begin = R"({"messages":[{"role":"user","content":"x"})", end = fmt::format("],{}}}", kChatTools);
  const JsonValue said = answer("/v1/chat/completions", begin + end, kSaid).json();
  const JsonValue& message = at(said, "choices", 0, "message");
  ASSERT_EQ(text(at(message, "reasoning_content")), "Let me see.");
  const std::string id = text(at(message, "tool_calls", 0, "id"));
  expect_next("/v1/chat/completions", fmt::format(R"({},{},{{"role":"tool","tool_call_id":"{}","content":"y"}}{})",
                                                  begin, json_of(message), id, end));
}

TEST_F(AnswersComeBack, ThroughResponsesWithAndWithoutTheStore) {
  const std::string tools = R"("tools":[{"type":"function","name":"f","parameters":{"type":"object"}}])";
  const std::string first = fmt::format(R"({{"input":[{{"role":"user","content":"x"}}],{}}})", tools);
  const JsonValue said = answer("/v1/responses", first, kSaid).json();
  std::string items;
  for (const JsonValue& item : *at(said, "output").as<JsonArray>()) items += "," + json_of(item);
  const std::string result = fmt::format(R"({{"type":"function_call_output","call_id":"{}","output":"y"}})",
                                         text(at(said, "output", 2, "call_id")));
  expect_next("/v1/responses",
              fmt::format(R"({{"input":[{{"role":"user","content":"x"}}{},{}],{}}})", items, result, tools));

  const JsonValue again = answer("/v1/responses", first, kSaid).json();
  expect_next("/v1/responses",
              fmt::format(R"({{"previous_response_id":{},"input":[{}],{}}})", json_of(at(again, "id")), result, tools));
}

TEST_F(AnswersComeBack, ThroughMessages) {
  const std::string end = R"(],"tools":[{"name":"f","input_schema":{"type":"object"}}]})";
  const std::string begin = R"({"max_tokens":99,"messages":[{"role":"user","content":"x"})";
  const JsonValue said = answer("/v1/messages", begin + end, kSaid).json();
  const std::string id = text(at(said, "content", 2, "id"));
  expect_next("/v1/messages",
              fmt::format(R"({},{{"role":"assistant","content":{}}},{{"role":"user","content":[{{"type":"tool_result",)"
                          R"("tool_use_id":"{}","content":"y"}}]}}{})",
                          begin, json_of(at(said, "content")), id, end));
}

TEST_F(AnswersComeBack, ThroughOllamaAndOutOfAStream) {
  const std::string begin = R"({"messages":[{"role":"user","content":"x"})", end = fmt::format("],{}", kChatTools);
  const JsonValue said = answer("/api/chat", begin + end + R"(,"stream":false})", kSaid).json();
  const std::string result = R"({"role":"tool","tool_name":"f","content":"y"})";
  const std::string more = fmt::format("{},{},{}{}}}", begin, json_of(at(said, "message")), result, end);
  expect_next("/api/chat", more);
  (void)answer("/api/chat", begin + end + "}", kSaid);  // the same, streamed
  expect_next("/api/chat", more);
}

TEST_F(AnswersComeBack, ToTheirOwnClientAlone) {
  const std::string body = R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"Yes."},)"
                           R"({"role":"user","content":"z"}]})";
  (void)answer("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}]})", "Yes.");
  expect_next("/v1/chat/completions", body);
  AnswerMemory memory({}, system_clock());
  memory.put("m", "digest", "a", {{TokenId(5), TokenId(6)}, "tail"}, *tokenizer_);
  EXPECT_TRUE(memory.find("m", "digest", "a", *tokenizer_));
  EXPECT_EQ(memory.find("m", "digest", "a", *tokenizer_)->prompt_tail, "tail");
  EXPECT_EQ(memory.find("m", "digest", "a", *tokenizer_)->tokens, (std::vector{TokenId(5), TokenId(6)}));
  EXPECT_FALSE(memory.find("m", "digest", "b", *tokenizer_));
  EXPECT_FALSE(memory.find("n", "digest", "a", *tokenizer_));
}

// An answer that a stop string or an error ended has other tokens than its text.
TEST_F(AnswersComeBack, OnlyWhereTheyAreWhole) {
  const std::string body = R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"Yes."},)"
                           R"({"role":"user","content":"z"}]})";
  const auto exchange =
      send("POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}],"stop":["Q"]})");
  const auto first = submitted_.back().request.prompt;
  for (const char c : std::string_view("Yes.Q")) {
    const TokenId token = tokenizer_->encode(std::string(1, c))->back();
    submitted_.back().send(TokenEvent{.token = token, .text = c == 'Q' ? "" : std::string(1, c)});
  }
  submitted_.back().send(FinishEvent{.reason = FinishReason::stop, .stopped_by = 0});
  do_work();
  EXPECT_EQ(answer_of(exchange).status, 200);
  send("POST", "/v1/chat/completions", body);
  const auto plain = submitted_.back().request.prompt;
  (void)answer("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}]})", "Yes.");
  send("POST", "/v1/chat/completions", body);
  EXPECT_NE(submitted_.back().request.prompt, plain) << "what was whole is known";
}

}  // namespace
}  // namespace rocmforge::server
