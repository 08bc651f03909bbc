// One answer through the four APIs, streamed and not: the same reasoning, content and calls.

#include <fmt/core.h>

#include "server/api/scripted_model.h"

namespace rocmforge::server {
namespace {

using testing::Answer;
using testing::at;
using testing::text;

// What an answer says, whatever API it came through.
struct Said {
  std::string reasoning, content;
  std::vector<std::string> calls;  // NAME ARGUMENTS
  bool is_cut = false;

  std::string all() const {
    std::string out = fmt::format("[{}] [{}]", reasoning, content);
    for (const std::string& call : calls) out += " " + call;
    return out + (is_cut ? " cut" : "");
  }
};

class OneAnswerTest : public testing::ScriptedApi {
 public:
  static constexpr const char* kChatTools =
      R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},)"
      R"({"type":"function","function":{"name":"g","parameters":{"type":"object"}}}])";

  // The data of a stream's events or lines.
  static std::vector<JsonValue> events(const Answer& answer) {
    std::vector<JsonValue> out;
    size_t at_byte = 0;
    while (at_byte < answer.body.size()) {
      const size_t end = answer.body.find('\n', at_byte);
      std::string line = answer.body.substr(at_byte, end - at_byte);
      at_byte = end == std::string::npos ? answer.body.size() : end + 1;
      if (line.starts_with("data: ")) line.erase(0, 6);
      if (!line.starts_with("{")) continue;
      out.push_back(*parse_json(line));
    }
    return out;
  }
  std::vector<JsonValue> answers(const std::string& path, const std::string& body, bool is_stream,
                                 const std::vector<std::string>& tokens, FinishReason reason) {
    const auto exchange = send("POST", path, body + (is_stream ? R"(,"stream":true})" : R"(,"stream":false})"));
    EXPECT_EQ(submitted_.size(), ++n_) << answer_of(exchange).body;
    if (submitted_.size() != n_) return {};
    submitted_.back().send(StartEvent{});
    for (const std::string& one : tokens) submitted_.back().send(TokenEvent{.token = TokenId(300), .text = one});
    send_finish(n_ - 1, reason);
    return events(answer_of(exchange));
  }

  Said through_chat(bool is_stream, const std::vector<std::string>& tokens, FinishReason reason) {
    Said said;
    const std::string body = R"({"messages":[{"role":"user","content":"x"}],)" + std::string(kChatTools);
    for (const JsonValue& event : answers("/v1/chat/completions", body, is_stream, tokens, reason)) {
      const JsonValue& choice = at(event, "choices", 0);
      const JsonValue& part = at(choice, is_stream ? "delta" : "message");
      if (part.find("reasoning_content")) said.reasoning += text(at(part, "reasoning_content"));
      if (part.find("content") && !at(part, "content").is_null()) said.content += text(at(part, "content"));
      const auto* calls = part.find("tool_calls") ? at(part, "tool_calls").as<JsonArray>() : nullptr;
      for (const JsonValue& call : calls ? *calls : JsonArray{}) {
        if (at(call, "function").find("name")) said.calls.push_back(text(at(call, "function", "name")) + " ");
        said.calls.back() += text(at(call, "function", "arguments"));
      }
      said.is_cut |= text(at(choice, "finish_reason")) == "length";
    }
    return said;
  }
  Said through_responses(bool is_stream, const std::vector<std::string>& tokens, FinishReason reason) {
    const std::string body = R"({"input":"x","tools":[{"type":"function","name":"f","parameters":{"type":"object"}},)"
                             R"({"type":"function","name":"g","parameters":{"type":"object"}}])";
    Said said;
    for (const JsonValue& event : answers("/v1/responses", body, is_stream, tokens, reason)) {
      if (is_stream) {
        const std::string type = text(at(event, "type"));
        if (type == "response.output_text.delta") said.content += text(at(event, "delta"));
        if (type == "response.reasoning_text.delta") said.reasoning += text(at(event, "delta"));
        if (type == "response.output_item.added" && text(at(event, "item", "type")) == "function_call") {
          said.calls.push_back(text(at(event, "item", "name")) + " ");
        }
        if (type == "response.function_call_arguments.delta") said.calls.back() += text(at(event, "delta"));
        said.is_cut |= type == "response.incomplete";
        continue;
      }
      said.is_cut = text(at(event, "status")) == "incomplete";
      for (const JsonValue& item : *at(event, "output").as<JsonArray>()) {
        const std::string type = text(at(item, "type"));
        if (type == "message") said.content += text(at(item, "content", 0, "text"));
        if (type == "reasoning") said.reasoning += text(at(item, "content", 0, "text"));
        if (type == "function_call") said.calls.push_back(text(at(item, "name")) + " " + text(at(item, "arguments")));
      }
    }
    return said;
  }
  Said through_messages(bool is_stream, const std::vector<std::string>& tokens, FinishReason reason) {
    const std::string body = R"({"max_tokens":9,"messages":[{"role":"user","content":"x"}],"tools":[)"
                             R"({"name":"f","input_schema":{"type":"object"}},{"name":"g","input_schema":{}}])";
    Said said;
    for (const JsonValue& event : answers("/v1/messages", body, is_stream, tokens, reason)) {
      if (is_stream) {
        if (text(at(event, "content_block", "type")) == "tool_use") {
          said.calls.push_back(text(at(event, "content_block", "name")) + " ");
        }
        const JsonValue& delta = at(event, "delta");
        if (delta.find("text")) said.content += text(at(delta, "text"));
        if (delta.find("thinking")) said.reasoning += text(at(delta, "thinking"));
        if (delta.find("partial_json")) said.calls.back() += text(at(delta, "partial_json"));
        said.is_cut |= text(at(delta, "stop_reason")) == "max_tokens";
        continue;
      }
      said.is_cut = text(at(event, "stop_reason")) == "max_tokens";
      for (const JsonValue& block : *at(event, "content").as<JsonArray>()) {
        const std::string type = text(at(block, "type"));
        if (type == "text") said.content += text(at(block, "text"));
        if (type == "thinking") said.reasoning += text(at(block, "thinking"));
        if (type == "tool_use") said.calls.push_back(text(at(block, "name")) + " " + text(at(block, "input")));
      }
    }
    return said;
  }
  Said through_ollama(bool is_stream, const std::vector<std::string>& tokens, FinishReason reason) {
    const std::string body = R"({"messages":[{"role":"user","content":"x"}],)" + std::string(kChatTools);
    Said said;
    for (const JsonValue& line : answers("/api/chat", body, is_stream, tokens, reason)) {
      const JsonValue& message = at(line, "message");
      said.content += text(at(message, "content"));
      if (message.find("thinking")) said.reasoning += text(at(message, "thinking"));
      const auto* calls = message.find("tool_calls") ? at(message, "tool_calls").as<JsonArray>() : nullptr;
      for (const JsonValue& call : calls ? *calls : JsonArray{}) {
        said.calls.push_back(text(at(call, "function", "name")) + " " + text(at(call, "function", "arguments")));
      }
      said.is_cut |= text(at(line, "done_reason")) == "length";
    }
    return said;
  }
  size_t n_ = 0;
};

TEST_F(OneAnswerTest, EveryApiSaysTheSame) {
  struct Case {
    std::string written, said;
    FinishReason reason = FinishReason::stop;
  };
  const Case kCases[] = {
      {"Hello.", "[] [Hello.]"},
      {"", "[] []"},
      {"<think>Hm.</think>Yes.", "[Hm.] [Yes.]"},
      {"<think>Hm.</think>Ye", "[Hm.] [Ye] cut", FinishReason::length},
      {"<think>Hm", "[Hm] [] cut", FinishReason::length},
      {R"(<tool_call>{"name":"f","arguments":{"a":[1,"ä"]}}</tool_call>)", R"([] [] f {"a":[1,"ä"]})"},
      {R"(<think>t</think>Look.<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>)"
       R"(<tool_call>{"name":"g","arguments":{}}</tool_call>)",
       R"([t] [Look.] f {"a":1} g {})"},
      {R"(A <tool_call> that is none)", R"([] [A <tool_call> that is none])"},
      {"<think>a</think>b</think>c", "[a] [b</think>c]"},
  };
  using Through = Said (OneAnswerTest::*)(bool, const std::vector<std::string>&, FinishReason);
  const std::pair<const char*, Through> kApis[] = {{"chat", &OneAnswerTest::through_chat},
                                                   {"responses", &OneAnswerTest::through_responses},
                                                   {"messages", &OneAnswerTest::through_messages},
                                                   {"ollama", &OneAnswerTest::through_ollama}};
  for (const Case& one : kCases) {
    for (const size_t n : {size_t{1}, size_t{3}, size_t{1000}}) {
      std::vector<std::string> tokens;
      for (size_t i = 0; i < one.written.size();) {  // whole characters
        size_t end = std::min(i + n, one.written.size());
        while (end < one.written.size() && (one.written[end] & 0xC0) == 0x80) end++;
        tokens.push_back(one.written.substr(i, end - i));
        i = end;
      }
      for (const auto& [name, through] : kApis) {
        for (const bool is_stream : {false, true}) {
          EXPECT_EQ((this->*through)(is_stream, tokens, one.reason).all(), one.said)
              << name << (is_stream ? ", streamed, " : ", whole, ") << n << ": " << one.written;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rocmforge::server
