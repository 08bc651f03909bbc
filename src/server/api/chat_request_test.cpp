// What a chat request may say and what it may not: numbered as in chat_test.cpp, limits as in the list of what must be
// survived.

#include <fmt/core.h>

#include "server/api/scripted_model.h"

namespace rocmforge::server {
namespace {

using testing::Answer;
using testing::at;
using testing::ScriptedApi;
using testing::text;

constexpr const char* kChat = "/v1/chat/completions";

class ChatRequestTest : public ScriptedApi {};

TEST_F(ChatRequestTest, EveryParameterArrives) {
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

TEST_F(ChatRequestTest, UnknownFieldsAreIgnoredAndNullIsAbsent) {
  send("POST", kChat,
       chat(R"("store":true,"metadata":{"a":"b"},"service_tier":"auto","prompt_cache_key":"k","verbosity":"low",
    "safety_identifier":"s","max_tokens":null,"stop":null,"temperature":null,"n":null,"stream":null,"stream_options":null,
    "tools":null,"tool_choice":null,"response_format":null,"logprobs":null,"top_logprobs":null,"logit_bias":null,"seed":null,
    "model":null)"));
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_FALSE(submitted_[0].request.max_tokens);
}

TEST_F(ChatRequestTest, WrongTypesNameTheirField) {
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

TEST_F(ChatRequestTest, APromptThatIsNotToBeCachedSharesNothing) {
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

TEST_F(ChatRequestTest, IntegersOutsideTheirRangeAreRefused) {
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

TEST_F(ChatRequestTest, FloatsOutsideTheirRangeAreRefused) {
  for (const char* field :
       {"temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repeat_penalty"}) {
    for (const char* bad : {"1e39", "-1e39", "-3", "\"NaN\"", "101"}) {
      expect_refused(chat("\"" + std::string(field) + "\":" + bad), field);
    }
    expect_refused(chat("\"" + std::string(field) + "\":NaN"), "null", "invalid_json");
    expect_refused(chat("\"" + std::string(field) + "\":1e400"), "null", "invalid_json");
  }
}

TEST_F(ChatRequestTest, TokensOutsideTheVocabularyAreRefused) {
  for (const char* id : {"-1", "4096", "2147483648", "99999999999999999999", "1.5", "", " 1", "0x1", "1 "}) {
    expect_refused(chat("\"logit_bias\":{\"" + std::string(id) + "\":1}"), "logit_bias");
  }
  for (const char* bias : {"101", "-101", "\"1\"", "null", "[]"}) {
    expect_refused(chat("\"logit_bias\":{\"1\":" + std::string(bias) + "}"), "logit_bias");
  }
}

TEST_F(ChatRequestTest, FanOutIsBounded) {
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

TEST_F(ChatRequestTest, EmptyAndMalformedConversationsAreRefused) {
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

TEST_F(ChatRequestTest, RolesAndPartsAreUnderstood) {
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

TEST_F(ChatRequestTest, ReasoningComesBackUnderEitherName) {
  const auto thinking = chat::ChatTemplate::load(
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

TEST_F(ChatRequestTest, ControlTokensInAMessageStayText) {
  send("POST", kChat, R"({"messages":[{"role":"user","content":"a</s>b<s>c"}]})");
  ASSERT_EQ(submitted_.size(), 1u);
  const auto& prompt = submitted_[0].request.prompt;
  EXPECT_EQ(prompt[0], TokenId(1));  // the real one, at the start
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), TokenId(1)), 1);
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), TokenId(2)), 0);
}

TEST_F(ChatRequestTest, EveryTextOfAMessageCountsAgainstTheContext) {
  const std::string message = R"({"messages":[{"role":"user","content":"hi","x":")";
  expect_refused(message + std::string(1u << 20, '<') + R"("}]})", "messages", "context_length_exceeded");
  expect_refused(message + R"(","y":[{"z":")" + std::string(1u << 20, '<') + R"("}]}]})", "messages",
                 "context_length_exceeded");
}

TEST_F(ChatRequestTest, MembersOfAnObjectAreBounded) {
  std::string members = R"("a":1)";
  for (int i = 0; i < 4096; i++) members += fmt::format(R"(,"k{}":1)", i);
  const Answer answer = post(kChat, chat(members));
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(text(at(answer.json(), "error", "code")), "request_too_large");
}

TEST_F(ChatRequestTest, FormatsAndChoicesThatNothingEnforcesAreRefused) {
  model_->constrain_message = {};
  expect_refused(chat(R"("response_format":{"type":"json_object"})"), "response_format", "unsupported_feature");
  expect_refused(chat(R"("response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{}}})"),
                 "response_format");
  expect_refused(chat(R"("tool_choice":"required")"), "tool_choice");
  expect_refused(chat(R"("tool_choice":{"type":"function","function":{"name":"f"}})"), "tool_choice");
  expect_refused(chat(R"("grammar":"root ::= x")"), "grammar");
  const std::pair<std::string, const char*> kForms[] = {
      {"json_schema", "{}"}, {"structured_outputs", R"({"regex":"a"})"},
      {"regex", R"("a")"},   {"ebnf", R"("root ::= x")"},
      {"guided_json", "{}"}, {"guided_choice", R"(["a"])"}};
  for (const auto& [name, value] : kForms) {
    expect_refused(chat("\"" + name + "\":" + value), name, "unsupported_feature");
  }
  expect_refused(chat(R"("modalities":["text","audio"])"), "modalities", "unsupported_feature");
  for (const char* fine :
       {R"("response_format":{"type":"text"})", R"("tools":[])", R"("tools":[{}],"tool_choice":"none")",
        R"("tool_choice":"auto")", R"("parallel_tool_calls":false)", R"("modalities":["text"])"}) {
    submitted_.clear();
    send("POST", kChat, chat(fine));
    EXPECT_EQ(submitted_.size(), 1u) << fine;
  }
}

}  // namespace
}  // namespace rocmforge::server
