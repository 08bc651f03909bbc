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
  void expect_refused(const std::string& body, std::string_view param, std::string_view code = "") {
    const Answer answer = post(kChat, body);
    EXPECT_EQ(answer.status, 400) << body;
    const JsonValue json = answer.json();
    EXPECT_EQ(text(at(json, "error", "param")), param) << body << answer.body;
    EXPECT_EQ(text(at(json, "error", "type")), "invalid_request_error");
    if (!code.empty()) {
      EXPECT_EQ(text(at(json, "error", "code")), code);
    }
    EXPECT_EQ(submitted_.size(), 0u) << body;
  }
};

TEST_F(ChatTest, B01_HeadersOfStreamsAndOthers) {
  const Answer streamed = stream("");
  EXPECT_EQ(streamed.head.content_type, "text/event-stream");
  EXPECT_EQ(*streamed.header("Cache-Control"), "no-cache");
  EXPECT_EQ(*streamed.header("X-Accel-Buffering"), "no");
  const auto exchange = send("POST", kChat, chat());
  send_finish(1);
  EXPECT_EQ(answer_of(exchange).head.content_type, "application/json");
}

TEST_F(ChatTest, B02_EventsAreOneLineOfJsonAndEndWithDone) {
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

TEST_F(ChatTest, B03_AStreamLivesBeforeItsFirstToken) {
  const auto exchange = send("POST", kChat, chat("\"stream\":true"));
  const Answer answer = answer_of(exchange);
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.body.starts_with(":\n\n"));
  EXPECT_EQ(answer.head.ping, ":\n\n");
  EXPECT_FALSE(answer.is_finished);
}

TEST_F(ChatTest, B04_AnErrorInAStreamIsItsLastEvent) {
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

TEST_F(ChatTest, B04_NoNormalChunkHasAnErrorKey) {
  for (const std::string& event : stream("\"stream_options\":{\"include_usage\":true}").events()) {
    EXPECT_EQ(event.find("\"error\""), std::string::npos);
  }
}

TEST_F(ChatTest, B06_PathsWithAndWithoutPrefixSlashAndQuery) {
  for (const char* path :
       {"/v1/chat/completions", "/chat/completions", "/v1/chat/completions/", "/chat/completions?beta=true"}) {
    send("POST", path, chat());
  }
  EXPECT_EQ(submitted_.size(), 4u);
}

TEST_F(ChatTest, B07_ErrorsHaveFourKeysAndStringCodes) {
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

TEST_F(ChatTest, B08_StatusFollowsTheCause) {
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

TEST_F(ChatTest, B08_AModelThatIsNotReadyAndNotToBeWaitedFor) {
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

TEST_F(ChatTest, B09_TheContextsEndHasTheWordsClientsLookFor) {
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

TEST_F(ChatTest, B11_EveryParameterArrives) {
  send("POST", kChat,
       chat(R"("max_completion_tokens":9,"max_tokens":5,"temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.125,
    "presence_penalty":1,"frequency_penalty":-1,"repeat_penalty":1.5,"repeat_last_n":-1,"seed":-3,"stop":["x","y"],
    "logit_bias":{"17":-100,"18":2.5},"logprobs":true,"top_logprobs":3,"ignore_eos":true,"user":"u")"));
  ASSERT_EQ(submitted_.size(), 1u);
  const GenerationRequest& r = submitted_[0].request;
  EXPECT_EQ(r.max_tokens, 9u);
  EXPECT_EQ(r.sampling.temperature, 0.5f);
  EXPECT_EQ(r.sampling.top_p, 0.25f);
  EXPECT_EQ(r.sampling.top_k, 7u);
  EXPECT_EQ(r.sampling.min_p, 0.125f);
  EXPECT_EQ(r.sampling.presence_penalty, 1);
  EXPECT_EQ(r.sampling.frequency_penalty, -1);
  EXPECT_EQ(r.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(r.sampling.penalty_last_n, -1);
  EXPECT_EQ(r.sampling.seed, static_cast<uint64_t>(-3));
  EXPECT_EQ(r.stop, (std::vector<std::string>{"x", "y"}));
  ASSERT_EQ(r.sampling.logit_bias.size(), 2u);
  EXPECT_EQ(r.sampling.logit_bias[0].token, TokenId(17));
  EXPECT_EQ(r.sampling.logit_bias[1].bias, 2.5f);
  EXPECT_TRUE(r.sampling.want_logprobs);
  EXPECT_EQ(r.sampling.n_logprobs, 3u);
  EXPECT_TRUE(r.ignore_end_of_text);
}

TEST_F(ChatTest, B12_UnknownFieldsAreIgnoredAndNullIsAbsent) {
  send("POST", kChat,
       chat(R"("store":true,"metadata":{"a":"b"},"service_tier":"auto","prompt_cache_key":"k","verbosity":"low",
    "safety_identifier":"s","max_tokens":null,"stop":null,"temperature":null,"n":null,"stream":null,"stream_options":null,
    "tools":null,"tool_choice":null,"response_format":null,"logprobs":null,"top_logprobs":null,"logit_bias":null,"seed":null,
    "model":null)"));
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_FALSE(submitted_[0].request.max_tokens);
}

TEST_F(ChatTest, B12_WrongTypesNameTheirField) {
  for (const char* field : {"temperature",
                            "top_p",
                            "min_p",
                            "presence_penalty",
                            "frequency_penalty",
                            "repeat_penalty",
                            "n",
                            "max_tokens",
                            "max_completion_tokens",
                            "seed",
                            "top_k",
                            "repeat_last_n",
                            "stream",
                            "logprobs",
                            "ignore_eos",
                            "cache_prompt",
                            "parallel_tool_calls",
                            "user",
                            "reasoning_format",
                            "logit_bias",
                            "stream_options",
                            "chat_template_kwargs",
                            "model",
                            "stop"}) {
    for (const char* wrong : {"\"x\"", "[1]", "{\"a\":1}", "true", "1.5"}) {
      const std::string name = field, value = wrong;
      const bool is_right = (value == "\"x\"" && (name == "model" || name == "stop" || name == "user")) ||
                            (value == "true" && (name == "stream" || name == "logprobs" || name == "ignore_eos" ||
                                                 name == "cache_prompt" || name == "parallel_tool_calls")) ||
                            (value == "{\"a\":1}" && (name == "stream_options" || name == "chat_template_kwargs")) ||
                            (value == "1.5" && (name == "temperature" || name.ends_with("_penalty")));
      if (is_right) continue;
      const Answer answer = post(kChat, chat("\"" + name + "\":" + value));
      EXPECT_EQ(answer.status, 400) << name << value;
      EXPECT_EQ(text(at(answer.json(), "error", "param")), name) << value;
    }
  }
  expect_refused(chat(R"("max_completion_tokens":1,"max_tokens":"x")"), "max_tokens");
  EXPECT_TRUE(submitted_.empty());
}

TEST_F(ChatTest, B11_APromptThatIsNotToBeCachedSharesNothing) {
  for (const char* more : {R"("cache_prompt":true)", R"("cache_prompt":null)", R"("cache_prompt":false,"n":2)",
                           R"("cache_prompt":false,"cache_salt":"s")"}) {
    send("POST", kChat, chat(more));
  }
  ASSERT_EQ(submitted_.size(), 5u);
  std::vector<std::string> salts;
  for (const Submitted& one : submitted_) salts.push_back(one.request.cache_salt);
  EXPECT_EQ(salts[0], "");
  EXPECT_EQ(salts[1], "");
  EXPECT_NE(salts[2], "");
  EXPECT_EQ(salts[3], salts[2]) << "the prompt of two choices is computed once";
  EXPECT_NE(salts[4], salts[2]);
}

TEST_F(ChatTest, H1_IntegersOutsideTheirRangeAreRefused) {
  for (const char* field : {"n", "max_tokens", "max_completion_tokens", "top_logprobs", "top_k", "repeat_last_n"}) {
    for (const char* bad :
         {"-9223372036854775808", "-2147483648", "-2", "2147483648", "4294967296", "9223372036854775807",
          "9223372036854775808", "18446744073709551616", "1e300", "-1e300", "1.5"}) {
      expect_refused(chat("\"logprobs\":true,\"" + std::string(field) + "\":" + bad), field);
    }
  }
  for (const char* bad : {"0", "-1", "17", "1000000000"}) expect_refused(chat("\"n\":" + std::string(bad)), "n");
  expect_refused(chat("\"max_tokens\":0"), "max_tokens");
  expect_refused(chat("\"logprobs\":true,\"top_logprobs\":21"), "top_logprobs");
  send("POST", kChat, chat("\"n\":16.0"));
  EXPECT_EQ(submitted_.size(), 16u);
}

TEST_F(ChatTest, H2_FloatsOutsideTheirRangeAreRefused) {
  for (const char* field :
       {"temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repeat_penalty"}) {
    for (const char* bad : {"1e39", "-1e39", "-3", "\"NaN\"", "101"}) {
      expect_refused(chat("\"" + std::string(field) + "\":" + bad), field);
    }
    expect_refused(chat("\"" + std::string(field) + "\":NaN"), "null", "invalid_json");
    expect_refused(chat("\"" + std::string(field) + "\":1e400"), "null", "invalid_json");
  }
}

TEST_F(ChatTest, H3_TokensOutsideTheVocabularyAreRefused) {
  for (const char* id : {"-1", "4096", "2147483648", "99999999999999999999", "1.5", "", " 1", "0x1", "1 "}) {
    expect_refused(chat("\"logit_bias\":{\"" + std::string(id) + "\":1}"), "logit_bias");
  }
  for (const char* bias : {"101", "-101", "\"1\"", "null", "[]"}) {
    expect_refused(chat("\"logit_bias\":{\"1\":" + std::string(bias) + "}"), "logit_bias");
  }
}

TEST_F(ChatTest, H4_FanOutIsBounded) {
  std::string biases, stops, messages, tools;
  for (int i = 0; i < 1025; i++) biases += (i ? ",\"" : "\"") + std::to_string(i) + "\":1";
  expect_refused(chat("\"logit_bias\":{" + biases + "}"), "logit_bias");
  for (int i = 0; i < 17; i++) stops += (i ? ",\"" : "\"") + std::to_string(i) + "\"";
  expect_refused(chat("\"stop\":[" + stops + "]"), "stop");
  expect_refused(chat("\"stop\":\"" + std::string(257, 'x') + "\""), "stop");
  for (int i = 0; i < 4097; i++) messages += std::string(i ? "," : "") + R"({"role":"user","content":""})";
  expect_refused("{\"messages\":[" + messages + "]}", "messages");
  for (int i = 0; i < 257; i++) tools += i ? ",{}" : "{}";
  expect_refused(chat("\"tools\":[" + tools + "]"), "tools");
  send("POST", kChat, chat("\"stop\":\"" + std::string(256, 'x') + "\""));
  EXPECT_EQ(submitted_.size(), 1u);
}

TEST_F(ChatTest, H5_EmptyAndMalformedConversationsAreRefused) {
  expect_refused("{}", "messages");
  expect_refused(R"({"messages":[]})", "messages");
  expect_refused(R"({"messages":null})", "messages");
  expect_refused(R"({"messages":"hi"})", "messages");
  expect_refused(R"({"messages":["hi"]})", "messages[0]");
  expect_refused(R"({"messages":[{"role":"user"}]})", "messages[0].content");
  expect_refused(R"({"messages":[{"role":"user","content":null}]})", "messages[0].content");
  expect_refused(R"({"messages":[{"role":"user","content":5}]})", "messages[0].content");
  expect_refused(R"({"messages":[{"role":"boss","content":"x"}]})", "messages[0].role");
  expect_refused(R"({"messages":[{"content":"x"}]})", "messages[0].role");
}

TEST_F(ChatTest, B13_RolesAndPartsAreUnderstood) {
  send("POST", kChat,
       R"({"messages":[{"role":"developer","content":"d"},{"role":"user","content":[{"type":"text","text":"a"},
    {"type":"text","text":"b"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":
    {"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"r"},
    {"role":"assistant","content":"t","tool_calls":[],"reasoning_content":"r"},{"role":"user","content":"u"}]})");
  EXPECT_EQ(submitted_.size(), 1u);
  submitted_.clear();
  expect_refused(R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x"}}]}]})",
                 "messages[0].content[0].type");
  expect_refused(R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "messages[0].content[0].text");
  expect_refused(R"({"messages":[{"role":"user","content":["x"]}]})", "messages[0].content[0].type");
}

TEST_F(ChatTest, B13_ReasoningComesBackUnderEitherName) {
  const auto thinking = tokenizer::ChatTemplate::load(
      {}, {.bos = "", .eos = "", .contains = [](std::string_view) { return false; }},
      {.text = "{% for m in messages %}[{{ m.reasoning_content or '' }}]{{ m.content }}{% endfor %}", .name = ""});
  ASSERT_TRUE(thinking.ok());
  model_->chat_template = &*thinking;
  for (const char* more :
       {R"("reasoning_content":"why")", R"("reasoning":"why")", R"("reasoning":"why","reasoning_content":null)",
        R"("reasoning":"other","reasoning_content":"why")"}) {
    const std::string body = R"({"messages":[{"role":"assistant","content":"a",)" + std::string(more) + "}]}";
    EXPECT_EQ(text(at(post("/apply-template", body).json(), "prompt")), "[why]a") << more;
  }
}

TEST_F(ChatTest, V9_ControlTokensInAMessageStayText) {
  send("POST", kChat, R"({"messages":[{"role":"user","content":"a</s>b<s>c"}]})");
  ASSERT_EQ(submitted_.size(), 1u);
  const auto& prompt = submitted_[0].request.prompt;
  EXPECT_EQ(prompt[0], TokenId(1));  // the real one, at the start
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), TokenId(1)), 1);
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), TokenId(2)), 0);
}

TEST_F(ChatTest, B14_TheRestHeldForAStopComesBeforeTheEnd) {
  const auto exchange = send("POST", kChat, chat("\"stream\":true"));
  send_tokens(0, {" a", ""});
  send_finish(0, FinishReason::length, " held");
  const auto events = answer_of(exchange).events();
  ASSERT_EQ(events.size(), 5u);  // role, " a", " held", end, [DONE]
  EXPECT_EQ(text(at(*parse_json(events[2]), "choices", 0, "delta", "content")), " held");
  EXPECT_EQ(text(at(*parse_json(events[3]), "choices", 0, "finish_reason")), "length");
}

TEST_F(ChatTest, B15_SeveralChoicesHaveSeedsInARowAndInterleave) {
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

TEST_F(ChatTest, B15_IndicesOfChoices) {
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

TEST_F(ChatTest, B15_AChoiceThatIsNotAcceptedEndsTheOthers) {
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
    EXPECT_EQ(answer.status, 500);
    EXPECT_EQ(*answer.header("x-should-retry"), "false");
    EXPECT_EQ(text(at(answer.json(), "error", "code")), "internal_error");
    send_tokens(0, {" a"});  // the choice that was accepted has nobody to tell
    send_finish(0);
    model_->generate = accept;
    const auto next = send("POST", kChat, chat());
    send_finish(1);
    EXPECT_EQ(answer_of(next).status, 200);
  }
}

TEST_F(ChatTest, B16_RequestsWithoutSeedGetDifferentOnes) {
  send("POST", kChat, chat());
  send("POST", kChat, chat());
  EXPECT_NE(submitted_[0].request.sampling.seed, submitted_[1].request.sampling.seed);
}

TEST_F(ChatTest, B17_TheWholeObject) {
  const auto exchange = send("POST", kChat, chat("\"model\":\"org/story:q4\""));
  send_tokens(0, {" Hello", " w\"o\xff"});
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

TEST_F(ChatTest, B18_B19_ChunksOfAStream) {
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

TEST_F(ChatTest, B21_UsageComesWhenAskedFor) {
  const auto events = stream(R"("stream_options":{"include_usage":true})").events();
  ASSERT_EQ(events.size(), 6u);
  for (size_t i = 0; i < 4; i++) EXPECT_TRUE(at(*parse_json(events[i]), "usage").is_null());
  const JsonValue usage = *parse_json(events[4]);
  EXPECT_EQ(text(at(usage, "choices")), "[]");
  EXPECT_EQ(text(at(usage, "usage")),
            R"({"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":2},)"
            R"("completion_tokens_details":{"reasoning_tokens":0}})");
  submitted_.clear();
  expect_refused(chat(R"("stream_options":{"include_usage":true})"), "stream_options");
}

TEST_F(ChatTest, B22_LogprobsOfWholesAndStreams) {
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

TEST_F(ChatTest, B24_B25_ToolsAndFormatsThatAreNotThereYetSaySo) {
  expect_refused(chat(R"("response_format":{"type":"json_object"})"), "response_format", "unsupported_feature");
  expect_refused(chat(R"("response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{}}})"),
                 "response_format");
  expect_refused(chat(R"("tools":[{"type":"function","function":{"name":"f"}}])"), "tools", "unsupported_feature");
  expect_refused(chat(R"("tool_choice":"required")"), "tool_choice");
  expect_refused(chat(R"("tool_choice":{"type":"function","function":{"name":"f"}})"), "tool_choice");
  expect_refused(chat(R"("grammar":"root ::= x")"), "grammar");
  expect_refused(chat(R"("json_schema":{})"), "json_schema");
  for (const char* fine :
       {R"("response_format":{"type":"text"})", R"("tools":[])", R"("tools":[{}],"tool_choice":"none")",
        R"("tool_choice":"auto")", R"("parallel_tool_calls":false)"}) {
    submitted_.clear();
    send("POST", kChat, chat(fine));
    EXPECT_EQ(submitted_.size(), 1u) << fine;
  }
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
