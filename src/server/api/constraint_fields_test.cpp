#include "server/api/constraint_fields.h"

#include <gtest/gtest.h>

#include "grammar/vocabulary_constraints.h"
#include "server/api/scripted_model.h"

namespace rocmforge::server {
namespace {

using testing::Answer;
using testing::at;
using testing::ScriptedApi;
using testing::text;

constexpr const char* kChat = "/v1/chat/completions";

class ConstraintFieldsTest : public ScriptedApi {
 protected:
  void SetUp() override {
    ScriptedApi::SetUp();
    model_->constrain = [this](const grammar::Source& source) -> Result<ConstraintChoice> {
      sources_.push_back(source);
      auto made = TRY(constraints_->compile(source));
      return ConstraintChoice{.constraint = std::move(made), .vocabulary = constraints_->vocabulary()};
    };
    model_->constrain_message = [this, constrain = model_->constrain_message](const chat::MessageRules& rules,
                                                                              std::optional<uint32_t> budget) {
      if (rules.answer) sources_.push_back(*rules.answer);
      return constrain(rules, budget);
    };
  }

  std::vector<grammar::Source> sources_;
};

// A worker that compiles is busy for seconds: the others must be free.
TEST_F(ConstraintFieldsTest, WhatIsCompiledIsLargeWorkInEveryApi) {
  const std::string schema = R"({"type":"object"})";
  const std::string tool = R"({"type":"function","function":{"name":"f","parameters":)" + schema + "}}";
  const std::string said = R"([{"role":"user","content":"Once"}])";
  const std::pair<const char*, std::string> kRequests[] = {
      {kChat, chat(R"("tools":[)" + tool + "]")},
      {kChat, chat(R"("functions":[{"name":"f","parameters":)" + schema + "}]")},
      {kChat, chat(R"("response_format":{"type":"json_object"})")},
      {"/v1/completions", R"({"prompt":"Once","structured_outputs":{"regex":"a+"}})"},
      {"/completion", R"({"prompt":"Once","grammar":"root ::= \"a\""})"},
      {"/infill", R"({"input_prefix":"a","input_suffix":"b","json_schema":)" + schema + "}"},
      {"/generate", R"({"prompt":"Once","regex":"a+"})"},
      {"/v1/responses", R"({"input":"Once","tools":[{"type":"function","name":"f","parameters":)" + schema + "}]}"},
      {"/v1/responses",
       R"({"input":"Once","text":{"format":{"type":"json_schema","name":"x","schema":)" + schema + "}}}"},
      {"/v1/messages",
       R"({"max_tokens":4,"messages":)" + said + R"(,"tools":[{"name":"f","input_schema":)" + schema + "}]}"},
      {"/v1/messages", R"({"max_tokens":4,"messages":)" + said +
                           R"(,"output_config":{"format":{"type":"json_schema","schema":)" + schema + "}}}"},
      {"/v1/messages",
       R"({"max_tokens":4,"messages":)" + said + R"(,"output_format":{"type":"json_schema","schema":)" + schema + "}}"},
      {"/api/chat", R"({"model":"story","messages":)" + said + R"(,"format":)" + schema + "}"},
      {"/api/generate", R"({"model":"story","prompt":"Once","format":"json"})"},
      {"/v1/schema/check", R"({"schema":)" + schema + "}"}};
  for (const auto& [path, body] : kRequests) {
    n_large_ = 0;
    send("POST", path, body);
    EXPECT_EQ(n_large_, 1) << path << body;
  }
  n_large_ = 0;
  send("POST", kChat, chat(R"("response_format":null,"guided_json":"")"));
  send("POST", "/v1/completions", R"({"prompt":"Once"})");
  send("POST", "/v1/responses", R"({"input":"Once"})");
  send("POST", "/tokenize", R"({"content":"Once"})");
  EXPECT_EQ(n_large_, 0);
}

TEST_F(ConstraintFieldsTest, EveryServersNamesReachTheEngine) {
  using grammar::Notation;
  const std::pair<const char*, Notation> kForms[] = {
      {R"("response_format":{"type":"json_object"})", Notation::json_object},
      {R"("response_format":{"type":"json_object","schema":{"type":"object"}})", Notation::json_schema},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object"}}})",
       Notation::json_schema},
      {R"("json_schema":{"type":"array"})", Notation::json_schema},
      {R"("grammar":"root ::= \"a\"")", Notation::gbnf},
      {R"("ebnf":"root ::= \"a\"")", Notation::gbnf},
      {R"("regex":"a+")", Notation::regex},
      {R"("guided_json":"{\"type\":\"null\"}")", Notation::json_schema},
      {R"("guided_regex":"a+")", Notation::regex},
      {R"("guided_choice":["a","b"])", Notation::choice},
      {R"("guided_grammar":"root ::= \"a\"")", Notation::gbnf},
      {R"("structured_outputs":{"choice":["a","b"],"json":null})", Notation::choice},
      {R"("structured_outputs":{"json_object":true})", Notation::json_object}};
  for (const auto& [member, notation] : kForms) {
    for (const bool is_chat : {true, false}) {
      submitted_.clear();
      sources_.clear();
      const std::string body = is_chat ? chat(member) : R"({"prompt":"Once",)" + std::string(member) + "}";
      send("POST", is_chat ? kChat : "/v1/completions", body);
      ASSERT_EQ(submitted_.size(), 1u) << member;
      EXPECT_TRUE(submitted_[0].request.constraint.has_value()) << member;
      ASSERT_EQ(sources_.size(), 1u) << member;
      EXPECT_EQ(sources_[0].notation, notation) << member;
    }
  }
}

TEST_F(ConstraintFieldsTest, WhatCannotBeEnforcedIsRefusedByKeywordAndPointer) {
  const Answer answer = post(kChat, chat(R"("response_format":{"type":"json_schema","json_schema":{"schema":
      {"properties":{"a":{"unevaluatedProperties":false}}}}})"));
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(text(at(answer.json(), "error", "param")), "response_format.json_schema.schema");
  EXPECT_NE(text(at(answer.json(), "error", "message")).find("'/properties/a/unevaluatedProperties'"),
            std::string::npos);
  for (const char* wrong : {R"("guided_regex":"(")", R"("grammar":5)", R"("response_format":{"type":"json_schema"})",
                            R"("response_format":{"type":"xml"})", R"("regex":"a","grammar":"root ::= \"a\"")",
                            R"("regex":"a","stop":["x"])", R"("structured_outputs":{"structural_tag":"x"})"}) {
    EXPECT_EQ(post(kChat, chat(wrong)).status, 400) << wrong;
  }
  EXPECT_TRUE(submitted_.empty());
}

TEST_F(ConstraintFieldsTest, WhiteSpaceAndTheEndAtTheLimitAreTheClients) {
  for (const bool is_chat : {true, false}) {
    submitted_.clear();
    sources_.clear();
    const std::string members =
        R"("structured_outputs":{"json":{"type":"array"},"disable_any_whitespace":true,"whitespace_pattern":" ?"},)"
        R"("on_length":"close","jump_forward":false)";
    send("POST", is_chat ? kChat : "/v1/completions", is_chat ? chat(members) : R"({"prompt":"Once",)" + members + "}");
    ASSERT_EQ(submitted_.size(), 1u);
    ASSERT_EQ(sources_.size(), 1u);
    EXPECT_FALSE(sources_[0].schema.has_white_space);
    EXPECT_EQ(sources_[0].schema.white_space, " ?");
    EXPECT_TRUE(submitted_[0].request.constraint->closes_at_length);
    EXPECT_FALSE(submitted_[0].request.constraint->jumps);
  }
  submitted_.clear();
  send("POST", kChat, chat(R"("regex":"a+","on_length":"cut")"));
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_FALSE(submitted_[0].request.constraint->closes_at_length);
  EXPECT_TRUE(submitted_[0].request.constraint->jumps);
  for (const char* wrong : {R"("on_length":"stop")", R"("jump_forward":1)",
                            R"("structured_outputs":{"json":{},"disable_any_whitespace":3})",
                            R"("guided_json":{},"guided_whitespace_pattern":"(")"}) {
    EXPECT_EQ(post(kChat, chat(wrong)).status, 400) << wrong;
  }
}

TEST_F(ConstraintFieldsTest, ASchemaCanBeCheckedWithoutAModel) {
  const Answer good = post("/v1/schema/check", R"({"schema":{"type":"integer"}})");
  EXPECT_EQ(good.status, 200);
  EXPECT_EQ(text(at(good.json(), "exact")), "true");
  const Answer bad = post("/v1/schema/check", R"({"json_schema":{"$dynamicRef":"#x"}})");
  EXPECT_EQ(text(at(bad.json(), "exact")), "false");
  EXPECT_NE(text(at(bad.json(), "error", "message")).find("'/$dynamicRef'"), std::string::npos);
  EXPECT_EQ(post("/v1/schema/check", "{}").status, 400);
}

}  // namespace
}  // namespace rocmforge::server
