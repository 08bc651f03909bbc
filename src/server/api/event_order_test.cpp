// The order of a stream's events as a grammar, over answers of random parts in random tokens.

#include <fmt/core.h>

#include <random>
#include <regex>

#include "server/api/scripted_model.h"

namespace rocmforge::server {
namespace {

using testing::Answer;
using testing::at;
using testing::text;

constexpr const char* kTools =
    R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])";

class EventOrderTest : public testing::ScriptedApi {
 public:
  // A random message, in random tokens.
  static std::vector<std::string> random_tokens(std::mt19937& random) {
    const char* const kParts[] = {"Hello.",
                                  "<think>Hm.</think>",
                                  "<think>",
                                  "</think>",
                                  "\n\n",
                                  R"(<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>)",
                                  R"(<tool_call>{"name":"f","arguments":{}}</tool_call>)",
                                  R"(<tool_call>{"name":"f","arguments":{"text":"<think>ä)",
                                  "<tool_call>",
                                  R"({"name":)"};
    std::string written;
    for (size_t n = random() % 5; n > 0; n--) written += kParts[random() % std::size(kParts)];
    std::vector<std::string> tokens;
    for (size_t i = 0; i < written.size();) {
      size_t end = std::min(written.size(), i + 1 + random() % 12);
      while (end < written.size() && (written[end] & 0xC0) == 0x80) end++;
      tokens.push_back(written.substr(i, end - i));
      i = end;
    }
    return tokens;
  }
  static std::string joined(const std::vector<std::string>& tokens) {
    std::string out;
    for (const std::string& one : tokens) out += "|" + one;
    return out;
  }

  // The events of random answers, one after the other.
  template <class Check>
  void for_random_answers(const std::string& path, const std::string& body, const Check& check) {
    std::mt19937 random(7);
    for (int i = 0; i < 150; i++) {
      const auto tokens = random_tokens(random);
      const FinishReason reasons[] = {FinishReason::stop, FinishReason::length, FinishReason::error};
      const FinishReason reason = reasons[random() % 3];
      const auto exchange = send("POST", path, body);
      ASSERT_EQ(submitted_.size(), static_cast<size_t>(i) + 1) << answer_of(exchange).body;
      submitted_.back().send(StartEvent{});
      for (const std::string& one : tokens) submitted_.back().send(TokenEvent{.token = TokenId(300), .text = one});
      FinishEvent end{.reason = reason};
      if (reason == FinishReason::error) end.error = Error{ErrorCode::device_failed, "scripted"};
      submitted_.back().send(std::move(end));
      do_work();
      const Answer answer = answer_of(exchange);
      EXPECT_TRUE(answer.is_finished);
      check(answer, reason);
      if (HasFailure()) FAIL() << joined(tokens) << "\n" << answer.body;
    }
  }
};

TEST_F(EventOrderTest, OfResponses) {
  const std::map<std::string, char> kLetters = {{"response.created", 'C'},
                                                {"response.in_progress", 'I'},
                                                {"response.content_part.added", 'p'},
                                                {"response.output_text.delta", 't'},
                                                {"response.output_text.done", 'T'},
                                                {"response.reasoning_text.delta", 'r'},
                                                {"response.reasoning_text.done", 'R'},
                                                {"response.content_part.done", 'P'},
                                                {"response.function_call_arguments.delta", 'a'},
                                                {"response.function_call_arguments.done", 'A'},
                                                {"response.output_item.done", 'D'},
                                                {"response.completed", 'x'},
                                                {"response.incomplete", 'y'},
                                                {"response.failed", 'z'}};
  const std::map<std::string, char> kItems = {{"message", 'm'}, {"reasoning", 'h'}, {"function_call", 'f'}};
  const std::regex order("CI(mpt+TPD|hpr+RPD|fa*AD)*[xyz]");
  const std::string body =
      R"({"input":"x","stream":true,"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]})";
  for_random_answers("/v1/responses", body, [&](const Answer& answer, FinishReason reason) {
    std::string letters, item_id, said;
    int64_t n = 0, n_done = 0;
    JsonArray items;
    for (const std::string& data : answer.events()) {
      const JsonValue event = *parse_json(data);
      const std::string type = text(at(event, "type"));
      EXPECT_EQ(text(at(event, "sequence_number")), std::to_string(n++));
      if (type == "response.output_item.added") {
        letters += kItems.at(text(at(event, "item", "type")));
        item_id = text(at(event, "item", "id"));
        EXPECT_EQ(text(at(event, "item", "status")), "in_progress");
        said.clear();
      } else {
        ASSERT_TRUE(kLetters.contains(type)) << type;
        letters += kLetters.at(type);
      }
      if (event.find("output_index")) {
        EXPECT_EQ(text(at(event, "output_index")), std::to_string(n_done));
      }
      if (event.find("item_id")) {
        EXPECT_EQ(text(at(event, "item_id")), item_id);
      }
      const bool is_text = type.find("_text.") != std::string::npos;
      EXPECT_EQ(event.find("content_index") != nullptr, is_text || type.find("content_part") != std::string::npos);
      if (event.find("delta")) said += text(at(event, "delta"));
      if (type.ends_with("_text.done")) {
        EXPECT_EQ(text(at(event, "text")), said);
      }
      if (type.ends_with("arguments.done")) {
        EXPECT_EQ(text(at(event, "arguments")), said);
      }
      if (type == "response.output_item.done") {
        EXPECT_EQ(text(at(event, "item", "id")), item_id);
        items.push_back(at(event, "item"));
        n_done++;
      }
      if (event.find("response")) {
        EXPECT_TRUE(at(event, "response", "output").as<JsonArray>());
        const char last = letters.back();
        if (last == 'x' || last == 'y' || last == 'z') {
          EXPECT_EQ(text(at(event, "response", "output")), text(JsonValue(items)));
        }
      }
    }
    EXPECT_TRUE(std::regex_match(letters, order)) << letters;
    EXPECT_EQ(letters.back(), reason == FinishReason::stop ? 'x' : reason == FinishReason::length ? 'y' : 'z');
  });
}

TEST_F(EventOrderTest, OfMessages) {
  const std::map<std::string, char> kLetters = {{"message_start", 'S'},      {"ping", 'g'},
                                                {"content_block_stop", 'E'}, {"message_delta", 'D'},
                                                {"message_stop", 'X'},       {"error", 'R'}};
  const std::map<std::string, char> kBlocks = {{"text", 'T'}, {"thinking", 'H'}, {"tool_use", 'U'}};
  const std::map<std::string, char> kDeltas = {
      {"text_delta", 't'}, {"thinking_delta", 'h'}, {"signature_delta", 's'}, {"input_json_delta", 'j'}};
  const std::regex whole("Sg*(Tt+E|Hh+sE|Uj*E)*DX"), failed("Sg*(Tt+E|Hh+sE|Uj*E)*(Tt+|Hh+|Uj*)?R");
  const std::string body = R"({"max_tokens":9,"stream":true,"messages":[{"role":"user","content":"x"}],)"
                           R"("tools":[{"name":"f","input_schema":{"type":"object"}}]})";
  for_random_answers("/v1/messages", body, [&](const Answer& answer, FinishReason reason) {
    std::string letters;
    int64_t n_stopped = 0;
    for (const std::string& data : answer.events()) {
      const JsonValue event = *parse_json(data);
      const std::string type = text(at(event, "type"));
      if (type == "content_block_start") {
        letters += kBlocks.at(text(at(event, "content_block", "type")));
      } else if (type == "content_block_delta") {
        letters += kDeltas.at(text(at(event, "delta", "type")));
      } else {
        ASSERT_TRUE(kLetters.contains(type)) << type;
        letters += kLetters.at(type);
      }
      if (event.find("index")) {
        EXPECT_EQ(text(at(event, "index")), std::to_string(n_stopped));
      }
      if (type == "content_block_stop") n_stopped++;
      const char* holder = type == "message_start" ? "message" : nullptr;
      const JsonValue& usage = holder ? at(event, holder, "usage") : at(event, "usage");
      if (holder || type == "message_delta") {
        EXPECT_TRUE(usage.find("output_tokens") && usage.find("input_tokens")) << data;
      }
    }
    EXPECT_TRUE(std::regex_match(letters, reason == FinishReason::error ? failed : whole)) << letters;
  });
}

TEST_F(EventOrderTest, OfChats) {
  const std::string body = R"({"messages":[{"role":"user","content":"x"}],"stream":true,)"
                           R"("stream_options":{"include_usage":true},)" +
                           std::string(kTools) + "}";
  // o: role; r, c: reasoning and content; k: a call's header; a: arguments; f: the finish; u: usage; e: an error; d:
  // done.
  const std::regex whole("o[rc]*(ka+[rc]*)*fud"), cut("o[rc]*(ka*[rc]*)*fud"), failed("o[rc]*(ka*[rc]*)*ed");
  for_random_answers("/v1/chat/completions", body, [&](const Answer& answer, FinishReason reason) {
    std::string letters;
    int64_t n_calls = 0;
    for (const std::string& data : answer.events()) {
      if (data == "[DONE]") {
        letters += 'd';
        continue;
      }
      const JsonValue event = *parse_json(data);
      if (event.find("error")) {
        letters += 'e';
        continue;
      }
      const JsonValue& choice = at(event, "choices", 0);
      const JsonValue& delta = at(choice, "delta");
      if (at(event, "choices").as<JsonArray>()->empty()) {
        letters += 'u';
      } else if (!at(choice, "finish_reason").is_null()) {
        letters += 'f';
        EXPECT_TRUE(delta.as<JsonObject>()->empty());
        const bool is_call = n_calls > 0 && reason == FinishReason::stop;
        EXPECT_EQ(text(at(choice, "finish_reason")), is_call                        ? "tool_calls"
                                                     : reason == FinishReason::stop ? "stop"
                                                                                    : "length");
      } else if (delta.find("role")) {
        letters += 'o';
      } else if (delta.find("tool_calls")) {
        const JsonValue& call = at(delta, "tool_calls", 0);
        const bool is_header = call.find("id") != nullptr;
        letters += is_header ? 'k' : 'a';
        if (is_header) n_calls++;
        EXPECT_EQ(text(at(call, "index")), std::to_string(n_calls - 1));
        EXPECT_EQ(at(call, "function").find("name") != nullptr, is_header);
        EXPECT_EQ(call.find("type") != nullptr, is_header);
        EXPECT_TRUE(at(call, "function").find("arguments"));
      } else {
        letters += delta.find("reasoning_content") ? 'r' : 'c';
      }
    }
    const std::regex& order = reason == FinishReason::stop ? whole : reason == FinishReason::length ? cut : failed;
    EXPECT_TRUE(std::regex_match(letters, order)) << letters;
  });
}

TEST_F(EventOrderTest, OfOllama) {
  const std::string body = R"({"messages":[{"role":"user","content":"x"}],)" + std::string(kTools) + "}";
  for_random_answers("/api/chat", body, [&](const Answer& answer, FinishReason reason) {
    std::string letters;
    for (size_t begin = 0; begin < answer.body.size();) {
      const size_t end = answer.body.find('\n', begin);
      ASSERT_NE(end, std::string::npos);
      const JsonValue line = *parse_json(answer.body.substr(begin, end - begin));
      begin = end + 1;
      if (line.find("error")) {
        letters += 'e';
        continue;
      }
      EXPECT_EQ(text(at(line, "message", "role")), "assistant");
      EXPECT_TRUE(at(line, "message").find("content") && line.find("created_at") && line.find("model"));
      letters += *at(line, "done").as<bool>() ? 'D' : 'p';
    }
    EXPECT_TRUE(std::regex_match(letters, std::regex(reason == FinishReason::error ? "p*e" : "p*D"))) << letters;
  });
}

}  // namespace
}  // namespace rocmforge::server
