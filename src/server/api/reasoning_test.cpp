#include "server/api/scripted_model.h"

namespace rocmforge::server {
namespace {

using testing::at;
using testing::text;

class ReasoningTest : public testing::ScriptedApi {};

TEST_F(ReasoningTest, ReasoningHasItsOwnField) {
  const auto exchange = send("POST", "/v1/chat/completions", chat());
  send_tokens(0, {"<think>", "why", "</think>", "\n\nanswer"});
  send_finish(0);
  const JsonValue json = answer_of(exchange).json();
  EXPECT_EQ(text(at(json, "choices", 0, "message", "reasoning_content")), "why");
  EXPECT_EQ(text(at(json, "choices", 0, "message", "content")), "answer");
}

TEST_F(ReasoningTest, ReasoningStreamsInItsOwnField) {
  const auto exchange =
      send("POST", "/v1/chat/completions", chat(R"("stream":true,"stream_options":{"include_usage":true})"));
  send_tokens(0, {"<think>", "why", "</think>", "\n\nanswer"});
  send_finish(0);
  const auto events = answer_of(exchange).events();
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(text(at(*parse_json(events[1]), "choices", 0, "delta")), R"({"reasoning_content":"why"})");
  EXPECT_EQ(text(at(*parse_json(events[2]), "choices", 0, "delta")), R"({"content":"answer"})");
  EXPECT_EQ(text(at(*parse_json(events[4]), "usage", "completion_tokens_details", "reasoning_tokens")), "2");
}

TEST_F(ReasoningTest, ReasoningHasBothNamesWhenAskedFor) {
  const auto exchange = send("POST", "/v1/chat/completions", chat(R"("reasoning_format":"both")"));
  const auto stream = send("POST", "/v1/chat/completions", chat(R"("reasoning_format":"both","stream":true)"));
  for (const size_t i : {0, 1}) {
    send_tokens(i, {"<think>why</think>", "answer"});
    send_finish(i);
  }
  const JsonValue json = answer_of(exchange).json();
  EXPECT_EQ(text(at(json, "choices", 0, "message", "reasoning_content")), "why");
  EXPECT_EQ(text(at(json, "choices", 0, "message", "reasoning")), "why");
  EXPECT_EQ(text(at(*parse_json(answer_of(stream).events().at(1)), "choices", 0, "delta")),
            R"({"reasoning_content":"why","reasoning":"why"})");
}

TEST_F(ReasoningTest, ReasoningStaysInTheContentWhenAskedFor) {
  const auto exchange = send("POST", "/v1/chat/completions", chat(R"("reasoning_format":"none")"));
  send_tokens(0, {"<think>", "why", "</think>"});
  send_finish(0);
  EXPECT_EQ(text(at(answer_of(exchange).json(), "choices", 0, "message", "content")), "<think>why</think>");
}

}  // namespace
}  // namespace rocmforge::server
