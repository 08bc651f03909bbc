// What real clients depend on, as the numbered behaviours of the API research list them.

#include <cmath>

#include "base/utf8.h"
#include "server/api/scripted_model.h"

namespace rocmforge::server {
namespace {

using testing::Answer;
using testing::at;
using testing::ScriptedApi;
using testing::text;

constexpr const char* kChat = "/v1/chat/completions";

class ChatTest : public ScriptedApi {
 protected:
  // A stream with the given tokens, finished.
  Answer stream(std::string_view more, std::initializer_list<const char*> tokens = {" a", " b"}) {
    const auto exchange = send("POST", kChat, chat("\"stream\":true" + (more.empty() ? "" : "," + std::string(more))));
    send_tokens(submitted_.size() - 1, tokens);
    send_finish(submitted_.size() - 1);
    return answer_of(exchange);
  }
};

TEST_F(ChatTest, HeadersOfStreamsAndOthers) {
  const Answer streamed = stream("");
  EXPECT_EQ(streamed.head.content_type, "text/event-stream");
  EXPECT_EQ(*streamed.header("Cache-Control"), "no-cache");
  EXPECT_EQ(*streamed.header("X-Accel-Buffering"), "no");
  const auto exchange = send("POST", kChat, chat());
  send_finish(1);
  EXPECT_EQ(answer_of(exchange).head.content_type, "application/json");
}

TEST_F(ChatTest, EventsAreOneLineOfJsonAndEndWithDone) {
  const Answer answer = stream("", {" two\nlines", "\xff bad \xe2\x82"});
  const auto events = answer.events();
  ASSERT_GE(events.size(), 5u);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_TRUE(answer.is_finished);
  for (size_t i = 0; i + 1 < events.size(); i++) {
    EXPECT_TRUE(parse_json(events[i]).ok()) << events[i];
    EXPECT_TRUE(is_valid_utf8(events[i]));
  }
}

TEST_F(ChatTest, AStreamLivesBeforeItsFirstToken) {
  const auto exchange = send("POST", kChat, chat("\"stream\":true"));
  const Answer answer = answer_of(exchange);
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.body.starts_with(":\n\n"));
  EXPECT_EQ(answer.head.ping, ":\n\n");
  EXPECT_FALSE(answer.is_finished);
}

TEST_F(ChatTest, AnErrorInAStreamIsItsLastEvent) {
  const auto exchange = send("POST", kChat, chat("\"stream\":true"));
  send_tokens(0, {" a"});
  submitted_[0].send(
      FinishEvent{.reason = FinishReason::error, .error = Error{ErrorCode::device_failed, "/secret/path"}});
  const Answer answer = answer_of(exchange);
  const auto events = answer.events();
  ASSERT_EQ(events.size(), 4u);
  const JsonValue error = *parse_json(events[2]);
  EXPECT_EQ(text(at(error, "error", "code")), "device_failed");
  EXPECT_EQ(text(at(error, "error", "type")), "unavailable_error");
  EXPECT_EQ(answer.body.find("/secret"), std::string::npos);
  EXPECT_EQ(events[3], "[DONE]");
  EXPECT_TRUE(answer.is_finished);
}

TEST_F(ChatTest, NoNormalChunkHasAnErrorKey) {
  for (const std::string& event : stream("\"stream_options\":{\"include_usage\":true}").events()) {
    EXPECT_EQ(event.find("\"error\""), std::string::npos);
  }
}

TEST_F(ChatTest, PathsWithAndWithoutPrefixSlashAndQuery) {
  for (const char* path :
       {"/v1/chat/completions", "/chat/completions", "/v1/chat/completions/", "/chat/completions?beta=true"}) {
    send("POST", path, chat());
  }
  EXPECT_EQ(submitted_.size(), 4u);
}

TEST_F(ChatTest, ErrorsHaveFourKeysAndStringCodes) {
  for (const std::string& body :
       {std::string("{"), std::string("[]"), std::string("{}"), chat("\"n\":0"), chat("\"model\":\"none\"")}) {
    const JsonValue json = post(kChat, body).json();
    const auto* error = at(json, "error").as<JsonObject>();
    ASSERT_TRUE(error) << body;
    ASSERT_GE(error->size(), 4u);
    EXPECT_EQ((*error)[0].first, "message");
    EXPECT_EQ((*error)[1].first, "type");
    EXPECT_EQ((*error)[2].first, "param");
    EXPECT_EQ((*error)[3].first, "code");
    const JsonValue& code = (*error)[3].second;
    EXPECT_TRUE(code.is_null() || code.as<std::string>());
  }
}

TEST_F(ChatTest, StatusFollowsTheCause) {
  EXPECT_EQ(post(kChat, "{\"messages\":").status, 400);
  EXPECT_EQ(post(kChat, chat("\"model\":\"gpt-4\"")).status, 404);
  EXPECT_EQ(text(at(post(kChat, chat("\"model\":\"gpt-4\"")).json(), "error", "code")), "model_not_found");
  EXPECT_EQ(ask("GET", "/v1/nothing").status, 404);
  const Answer wrong_method = ask("GET", kChat);
  EXPECT_EQ(wrong_method.status, 405);
  EXPECT_EQ(*wrong_method.header("Allow"), "POST, OPTIONS");
  for (const auto& [code, status] :
       std::initializer_list<std::pair<ErrorCode, int>>{{ErrorCode::queue_full, 429},
                                                        {ErrorCode::draining, 503},
                                                        {ErrorCode::device_failed, 503},
                                                        {ErrorCode::model_not_finite, 500}}) {
    refuse_with_ = code;
    const Answer answer = post(kChat, chat());
    EXPECT_EQ(answer.status, status);
    EXPECT_EQ(answer.header("Retry-After") != nullptr, status != 500);
    if (status == 500) {
      EXPECT_EQ(*answer.header("x-should-retry"), "false");
    }
  }
  load_error_ = Error{ErrorCode::gguf_bad_magic, "/secret/model.gguf: bad magic"};
  const Answer broken = post(kChat, chat());
  EXPECT_EQ(broken.status, 500);
  EXPECT_EQ(broken.body.find("/secret"), std::string::npos);
}

TEST_F(ChatTest, AModelThatIsNotReadyAndNotToBeWaitedFor) {
  is_ready_ = false;
  const Answer answer = post(kChat, chat("\"wait_for_model\":false"));
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(*answer.header("Retry-After"), "1");
  send("POST", kChat, chat("\"wait_for_model\":true"));
  ASSERT_EQ(waiting_.size(), 2u) << "both have it loaded";
  for (auto& ready : waiting_) ready(ModelRef(model_));
  do_work();
  EXPECT_EQ(submitted_.size(), 1u);
  // One that cannot be loaded is not said to be loading.
  load_error_ = Error{ErrorCode::gguf_bad_magic, "/secret/model.gguf: bad magic"};
  EXPECT_EQ(post(kChat, chat("\"wait_for_model\":false")).status, 500);
  load_error_.reset();
  is_ready_ = true;
  send("POST", kChat, chat("\"wait_for_model\":false"));
  EXPECT_EQ(submitted_.size(), 2u);
}

TEST_F(ChatTest, TheContextsEndHasTheWordsClientsLookFor) {
  for (const std::string& body : {chat("\"max_tokens\":1024"), R"({"messages":[{"role":"user","content":")" +
                                                                   std::string(20'000, 'x') + R"("}]})"}) {
    const Answer answer = post(kChat, body);
    EXPECT_EQ(answer.status, 400);
    const JsonValue json = answer.json();
    EXPECT_EQ(text(at(json, "error", "code")), "context_length_exceeded");
    EXPECT_NE(text(at(json, "error", "message")).find("maximum context length is 1024 tokens"), std::string::npos);
    EXPECT_EQ(text(at(json, "error", "n_ctx")), "1024");
    EXPECT_TRUE(at(json, "error", "n_prompt_tokens").as<int64_t>());
  }
  EXPECT_TRUE(submitted_.empty());
}

TEST_F(ChatTest, TheRestHeldForAStopComesBeforeTheEnd) {
  const auto exchange = send("POST", kChat, chat("\"stream\":true"));
  send_tokens(0, {" a", ""});
  send_finish(0, FinishReason::length, " held");
  const auto events = answer_of(exchange).events();
  ASSERT_EQ(events.size(), 5u);  // role, " a", " held", end, [DONE]
  EXPECT_EQ(text(at(*parse_json(events[2]), "choices", 0, "delta", "content")), " held");
  EXPECT_EQ(text(at(*parse_json(events[3]), "choices", 0, "finish_reason")), "length");
}

TEST_F(ChatTest, SeveralChoicesHaveSeedsInARowAndInterleave) {
  const auto exchange = send("POST", kChat, chat("\"n\":2,\"seed\":41,\"stream\":true"));
  ASSERT_EQ(submitted_.size(), 2u);
  EXPECT_EQ(submitted_[0].request.sampling.seed, 41u);
  EXPECT_EQ(submitted_[1].request.sampling.seed, 42u);
  submitted_[1].send(TokenEvent{.token = TokenId(5), .text = "b"});
  submitted_[0].send(TokenEvent{.token = TokenId(5), .text = "a"});
  send_finish(1);
  EXPECT_FALSE(answer_of(exchange).is_finished);
  send_finish(0);
  Answer rest = answer_of(exchange);
  EXPECT_TRUE(rest.is_finished);
  EXPECT_EQ(rest.events().back(), "[DONE]");
}

TEST_F(ChatTest, IndicesOfChoices) {
  const auto exchange = send("POST", kChat, chat("\"n\":3"));
  for (size_t i : {2u, 0u, 1u}) {
    submitted_[i].send(TokenEvent{.token = TokenId(5), .text = std::to_string(i)});
    send_finish(i);
  }
  const JsonValue json = answer_of(exchange).json();
  for (int i = 0; i < 3; i++) {
    EXPECT_EQ(text(at(json, "choices", i, "index")), std::to_string(i));
    EXPECT_EQ(text(at(json, "choices", i, "message", "content")), std::to_string(i));
  }
  EXPECT_EQ(text(at(json, "usage", "prompt_tokens")), "7") << "the prompt counts once";
  EXPECT_EQ(text(at(json, "usage", "completion_tokens")), "9");
}

TEST_F(ChatTest, AChoiceThatIsNotAcceptedEndsTheOthers) {
  refuse_with_ = ErrorCode::queue_full;
  refuse_from_ = 2;
  const auto exchange = send("POST", kChat, chat("\"n\":4,\"stream\":true"));
  const Answer answer = answer_of(exchange);
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(submitted_[0].is_cancelled);
  EXPECT_TRUE(submitted_[1].is_cancelled);
  send_tokens(0, {" late"});  // events that were already on their way harm nobody
  send_finish(0, FinishReason::cancelled);
}

TEST_F(ChatTest, MemoryThatRunsOutEndsItsRequestOnly) {
  const auto accept = model_->generate;
  for (const bool is_stream : {false, true}) {
    submitted_.clear();
    model_->generate = [&](GenerationRequest request, EventReceiver receiver) {
      if (submitted_.size() == 1) throw std::bad_alloc();
      return accept(std::move(request), std::move(receiver));
    };
    const auto exchange = send("POST", kChat, chat(is_stream ? R"("n":2,"stream":true)" : R"("n":2)"));
    const Answer answer = answer_of(exchange);
    EXPECT_EQ(answer.status, 503);
    EXPECT_TRUE(answer.header("Retry-After"));
    EXPECT_EQ(text(at(answer.json(), "error", "code")), "out_of_memory");
    EXPECT_TRUE(submitted_[0].is_cancelled);
    send_tokens(0, {" a"});  // the choice that was accepted has nobody to tell
    send_finish(0);
    model_->generate = accept;
    const auto next = send("POST", kChat, chat());
    send_finish(1);
    EXPECT_EQ(answer_of(next).status, 200);
  }
}

TEST_F(ChatTest, RequestsWithoutSeedGetDifferentOnes) {
  send("POST", kChat, chat());
  send("POST", kChat, chat());
  EXPECT_NE(submitted_[0].request.sampling.seed, submitted_[1].request.sampling.seed);
}

TEST_F(ChatTest, TheWholeObject) {
  const auto exchange = send("POST", kChat, chat("\"model\":\"org/story:q4\""));
  send_tokens(0, {" Hello", " w\"o\xc0"});
  send_finish(0);
  const Answer answer = answer_of(exchange);
  EXPECT_EQ(answer.status, 200);
  const JsonValue json = answer.json();
  EXPECT_TRUE(text(at(json, "id")).starts_with("chatcmpl-"));
  EXPECT_EQ(text(at(json, "object")), "chat.completion");
  EXPECT_TRUE(at(json, "created").as<int64_t>());
  EXPECT_EQ(text(at(json, "model")), "org/story:q4");
  EXPECT_EQ(text(at(json, "system_fingerprint")), "rocmforge");
  EXPECT_EQ(text(at(json, "choices", 0, "message", "role")), "assistant");
  EXPECT_EQ(text(at(json, "choices", 0, "message", "content")), " Hello w\"o\xEF\xBF\xBD");
  EXPECT_TRUE(at(json, "choices", 0, "message", "refusal").is_null());
  EXPECT_FALSE(at(json, "choices", 0, "message").find("tool_calls"));
  EXPECT_TRUE(at(json, "choices", 0, "logprobs").is_null());
  EXPECT_EQ(text(at(json, "choices", 0, "finish_reason")), "stop");
}

TEST_F(ChatTest, ChunksOfAStream) {
  const auto events = stream("").events();
  ASSERT_EQ(events.size(), 5u);
  const JsonValue first = *parse_json(events[0]), second = *parse_json(events[1]), last = *parse_json(events[3]);
  EXPECT_EQ(text(at(first, "choices", 0, "delta")), R"({"role":"assistant","content":""})");
  EXPECT_EQ(text(at(second, "choices", 0, "delta")), R"({"content":" a"})");
  EXPECT_TRUE(at(second, "choices", 0, "finish_reason").is_null());
  EXPECT_EQ(text(at(last, "choices", 0, "delta")), "{}");
  EXPECT_EQ(text(at(last, "choices", 0, "finish_reason")), "stop");
  for (const JsonValue& chunk : {first, second, last}) {
    EXPECT_EQ(text(at(chunk, "object")), "chat.completion.chunk");
    EXPECT_EQ(text(at(chunk, "id")), text(at(first, "id")));
    EXPECT_EQ(text(at(chunk, "created")), text(at(first, "created")));
    EXPECT_FALSE(chunk.find("usage"));
  }
}

TEST_F(ChatTest, UsageComesWhenAskedFor) {
  const auto events = stream(R"("stream_options":{"include_usage":true})").events();
  ASSERT_EQ(events.size(), 6u);
  for (size_t i = 0; i < 4; i++) EXPECT_TRUE(at(*parse_json(events[i]), "usage").is_null());
  const JsonValue usage = *parse_json(events[4]);
  EXPECT_EQ(text(at(usage, "choices")), "[]");
  EXPECT_EQ(text(at(usage, "usage")),
            R"({"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":2},)"
            R"("completion_tokens_details":{"reasoning_tokens":0}})");
  EXPECT_EQ(text(at(usage, "timings")),
            R"({"cache_n":2,"prompt_n":5,"prompt_ms":20,"predicted_n":3,"predicted_ms":500,)"
            R"("predicted_per_second":4})");
  submitted_.clear();
  expect_refused(chat(R"("stream_options":{"include_usage":true})"), "stream_options");
}

TEST_F(ChatTest, LogprobsOfWholesAndStreams) {
  const TokenLogprobs logprobs{.logprob = -0.5f, .top = {{TokenId(300), -0.5f}, {TokenId(301), -INFINITY}}};
  for (const bool streaming : {false, true}) {
    submitted_.clear();
    const auto exchange =
        send("POST", kChat,
             chat("\"logprobs\":true,\"top_logprobs\":2,\"stream\":" + std::string(streaming ? "true" : "false")));
    submitted_[0].send(TokenEvent{.token = TokenId(300), .text = "", .logprobs = logprobs});
    send_finish(0);
    const Answer answer = answer_of(exchange);
    const JsonValue json = streaming ? *parse_json(answer.events()[1]) : answer.json();
    const JsonValue& entry = at(json, "choices", 0, "logprobs", "content", 0);
    EXPECT_EQ(text(at(entry, "token")), std::string(tokenizer_->token_text(TokenId(300))));
    EXPECT_EQ(text(at(entry, "logprob")), "-0.5");
    EXPECT_TRUE(at(entry, "bytes").as<JsonArray>());
    EXPECT_EQ(at(entry, "top_logprobs").as<JsonArray>()->size(), 2u);
    EXPECT_EQ(text(at(entry, "top_logprobs", 1, "logprob")), "-9999");
    EXPECT_TRUE(at(json, "choices", 0, "logprobs", "refusal").is_null());
  }
  submitted_.clear();
  expect_refused(chat("\"top_logprobs\":2"), "top_logprobs");
}

TEST_F(ChatTest, ADisconnectCancelsEveryChoice) {
  for (const char* streaming : {"true", "false"}) {
    submitted_.clear();
    const auto exchange = send("POST", kChat, chat("\"n\":2,\"stream\":" + std::string(streaming)));
    exchange->cancel();
    do_work();
    EXPECT_TRUE(submitted_[0].is_cancelled);
    EXPECT_TRUE(submitted_[1].is_cancelled);
    send_finish(0, FinishReason::cancelled);
    send_finish(1, FinishReason::cancelled);
  }
}

TEST_F(ChatTest, ASlowReaderIsCancelledFromWithinAnEvent) {
  const auto exchange = send("POST", kChat, chat("\"stream\":true"));
  const std::string long_text(10'000, 'x');
  for (int i = 0; i < 50; i++) submitted_[0].send(TokenEvent{.token = TokenId(5), .text = long_text});
  EXPECT_TRUE(exchange->is_cancelled());
  do_work();
  EXPECT_TRUE(submitted_[0].is_cancelled);
  send_finish(0, FinishReason::cancelled);
}

}  // namespace
}  // namespace rocmforge::server
