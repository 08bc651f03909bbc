// What a grammar of messages allows, the parser of the same format reads: calls of known tools with arguments of their
// schemas, whatever is written.
#include "chat/message_grammar.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <sstream>

#include "chat/message.h"
#include "chat/pattern.h"
#include "chat/relaxed_schema.h"
#include "grammar/matcher.h"
#include "grammar/sampler.h"
#include "support/support.h"

namespace rocmforge::chat {
namespace {

using grammar::Constraint;
using testing::data_path;
using testing::read_text;

// Every kind of parameter that a format writes in a way of its own.
constexpr std::string_view kTools = R"([
  {"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{
    "city":{"type":"string","minLength":1,"maxLength":20},"days":{"type":"integer","minimum":1,"maximum":14},
    "unit":{"enum":["celsius","fahrenheit"]},"exact":{"type":"boolean"}},"required":["city"],"additionalProperties":false}}},
  {"type":"function","function":{"name":"now"}},
  {"type":"function","function":{"name":"search-docs_v2","parameters":{"type":"object","properties":{
    "query":{"type":"string","maxLength":30},"tags":{"type":"array","items":{"type":"string","maxLength":8},"maxItems":3},
    "filter":{"type":"object","properties":{"lang":{"type":["string","null"],"maxLength":5},"n":{"type":"number"}},
      "required":["lang"],"additionalProperties":false},
    "either":{"type":["string","integer"],"maxLength":6},"code":{"type":"string","pattern":"^[a-z]{2}\\d+$","maxLength":9}},
    "required":["query","filter"],"additionalProperties":false}}}])";

JsonArray tools() {
  return *parse_tools(kTools);
}

std::vector<std::string> markers_as_tokens(const ToolFormat& format) {
  std::vector<std::string> out;
  for (const std::string& one : markers_of(format)) {
    if (one.starts_with('<') || one.starts_with('[')) out.push_back(one);
  }
  return out;
}

MessageRules rules_of(const ToolFormat& format, bool has_tokens, CallChoice calls) {
  MessageRules out{.format = &format, .tools = tools(), .calls = calls};
  if (has_tokens) out.tokens.control = markers_as_tokens(format);
  if (format.is_harmony) out.tokens.end_of_text = {"<|call|>", "<|return|>"};
  return out;
}

std::shared_ptr<Constraint> compiled(const MessageRules& rules) {
  auto out = compile_message(rules);
  EXPECT_TRUE(out.ok()) << rules.format->name << ": " << out.error().message;
  return out.ok() ? out->constraint : nullptr;
}

Message read(const std::string& text, const MessageRules& rules, std::string prompt_tail = "") {
  return parse_message(text, {.format = rules.format,
                              .tools = std::make_shared<const ToolSet>(rules.tools),
                              .control = rules.tokens.control,
                              .prompt_tail = std::move(prompt_tail)});
}

const JsonValue& schema_of(const JsonArray& all, std::string_view name) {
  static const JsonValue empty = JsonObject{{"type", JsonValue("object")}, {"additionalProperties", JsonValue(false)}};
  for (const JsonValue& tool : all) {
    const JsonValue& function = *tool.find("function");
    if (*function.find("name")->as<std::string>() != name) continue;
    const JsonValue* schema = function.find("parameters");
    return schema ? *schema : empty;
  }
  ADD_FAILURE() << "no tool is called '" << name << "'";
  return empty;
}

bool meets(const std::string& json, const JsonValue& schema) {
  const auto constraint = grammar::compile({.text = JsonWriter().value(schema).take()});
  grammar::Matcher matcher(*constraint);
  const auto n = matcher.accept(json);
  return n.ok() && *n == json.size() && matcher.is_end();
}

void expect_calls_of_tools(const Message& message, const JsonArray& all, std::string_view text) {
  for (const ToolCall& call : message.calls) {
    EXPECT_TRUE(meets(call.arguments, schema_of(all, call.name)))
        << call.name << " with " << call.arguments << "\nin " << text;
  }
}

size_t accepted(const std::shared_ptr<Constraint>& constraint, std::string_view text, bool& is_end) {
  grammar::Matcher matcher(constraint);
  const auto n = matcher.accept(text);
  EXPECT_TRUE(n.ok());
  is_end = n.ok() && matcher.is_end();
  return n.ok() ? *n : 0;
}

TEST(MessageGrammar, EverySentenceWithARequiredCallIsReadAsCallsOfTheirSchemas) {
  for (const ToolFormat& format : tool_formats()) {
    for (const bool has_tokens : {false, true}) {
      const MessageRules rules = rules_of(format, has_tokens, CallChoice::required);
      const auto constraint = compiled(rules);
      ASSERT_TRUE(constraint);
      for (uint64_t seed = 0; seed < 6; seed++) {
        const auto text = grammar::random_sentence(constraint, {.seed = seed, .length = 300});
        ASSERT_TRUE(text.ok()) << format.name << ": " << text.error().message;
        const Message message = read(*text, rules);
        ASSERT_FALSE(message.calls.empty()) << format.name << ": " << *text;
        EXPECT_EQ(message.content, "") << format.name << ": " << *text;
        expect_calls_of_tools(message, rules.tools, std::string(format.name) + ": " + *text);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(MessageGrammar, WithAutomaticCallsTextIsFreeUpToACall) {
  for (const ToolFormat& format : tool_formats()) {
    const MessageRules rules = rules_of(format, true, CallChoice::automatic);
    const auto constraint = compiled(rules);
    ASSERT_TRUE(constraint);
    bool is_end = false;
    if (!format.is_harmony) {
      const std::string text = "A \"text\" {1} [2](x) of <any> kind.\n```\ncode()\n```";
      EXPECT_EQ(accepted(constraint, text, is_end), text.size()) << format.name;
      EXPECT_TRUE(is_end) << format.name;
    }
    for (uint64_t seed = 0; seed < 3; seed++) {
      const auto text = grammar::random_sentence(constraint, {.seed = seed, .length = 60});
      ASSERT_TRUE(text.ok()) << format.name << ": " << text.error().message;
      expect_calls_of_tools(read(*text, rules), rules.tools, std::string(format.name) + ": " + *text);
    }
  }
}

TEST(MessageGrammar, ModelsMayWriteWhatTheyAreKnownToWrite) {
  std::istringstream lines(read_text(data_path("toolcalls/cases.jsonl")));
  const JsonArray all = *parse_tools(read_text(data_path("toolcalls/tools.json")));
  size_t n_cases = 0;
  for (std::string line; std::getline(lines, line);) {
    const JsonValue json = *parse_json(line);
    const auto text_of = [&](const char* key) { return *json.find(key)->as<std::string>(); };
    // Calls as templates write them, in answers that end well.
    const std::string id = text_of("id");
    if (!id.ends_with("/one-call") && !id.ends_with("/two-calls") && !id.ends_with("/all-types")) continue;
    const ToolFormat* format = find_tool_format(text_of("family"));
    ASSERT_TRUE(format) << id;
    MessageRules rules{.format = format, .tools = all, .calls = CallChoice::automatic};
    for (const JsonValue& one : *json.find("special_tokens")->as<JsonArray>()) {
      rules.tokens.control.push_back(*one.as<std::string>());
    }
    rules.tokens.end_of_text = {text_of("stop_token")};
    const ParserOptions options{
        .format = format, .control = rules.tokens.control, .prompt_tail = text_of("prompt_tail")};
    rules.reasoning = reasoning_start(options);
    rules.starts_in_marker = !format->start_prefix.empty();
    std::string text = mark_controls(text_of("text"), rules.tokens.control);
    bool is_end = false;
    const size_t n = accepted(compiled(rules), text, is_end);
    EXPECT_TRUE(n == text.size() && is_end) << id << ": " << text.substr(0, n) << "  |  " << text.substr(n);
    n_cases++;
  }
  EXPECT_GT(n_cases, 40u);
}

// Of a schema what can be enforced is.
TEST(MessageGrammar, OneKeywordThatCannotBeEnforcedLeavesTheRest) {
  constexpr std::string_view kBad =
      R"([{"type":"function","function":{"name":"find","parameters":{"type":"object","properties":{
      "city":{"enum":["Bern","Basel"]},"code":{"type":"string","pattern":"(a)\\1"},
      "other":{"$ref":"https://example.com/far.json"},"never":{"not":{"unevaluatedProperties":false}},
      "all":{"type":"array","items":{"type":"integer"},"uniqueItems":true}},
      "required":["city"],"additionalProperties":false}}},
    {"type":"function","function":{"name":"good","parameters":{"type":"object","properties":{"n":{"type":"integer"}},
      "additionalProperties":false}}}])";
  MessageRules rules{.format = find_tool_format("hermes"), .tools = *parse_tools(kBad), .calls = CallChoice::required};
  const auto made = compile_message(rules);
  ASSERT_TRUE(made.ok()) << made.error().message;
  std::vector<std::string> pointers;
  for (const grammar::Unenforced& one : made->unenforced) {
    EXPECT_EQ(one.tool, "find");
    pointers.push_back(one.why.substr(0, one.why.find("' is not enforced")));
  }
  std::ranges::sort(pointers);
  EXPECT_EQ(pointers, (std::vector<std::string>{"'/properties/all/uniqueItems", "'/properties/code/pattern",
                                                "'/properties/never/not", "'/properties/other/$ref"}));
  const auto may_call = [&](std::string_view name, std::string_view arguments) {
    bool is_end = false;
    const std::string text =
        fmt::format("<tool_call>\n{{\"name\": \"{}\", \"arguments\": {}}}\n</tool_call>", name, arguments);
    return accepted(made->constraint, text, is_end) == text.size() && is_end;
  };
  EXPECT_TRUE(may_call("find", R"({"city": "Bern", "code": "xyz", "other": [1], "all": [2, 2], "never": {"x": 1}})"));
  EXPECT_FALSE(may_call("find", R"({"city": "Rome"})"));
  EXPECT_FALSE(may_call("find", R"({"code": "xyz"})"));
  EXPECT_FALSE(may_call("find", R"({"city": "Bern", "code": 5})"));
  EXPECT_FALSE(may_call("find", R"({"city": "Bern", "all": ["x"]})"));
  EXPECT_FALSE(may_call("find", R"({"city": "Bern", "new": 5})"));
  EXPECT_TRUE(may_call("good", R"({"n": 5})"));
  EXPECT_FALSE(may_call("good", R"({"n": "5"})"));
}

// Without a keyword that says which keys or items others speak of, those others would allow less.
TEST(MessageGrammar, ARelaxedSchemaAllowsAllThatTheSchemaAllows) {
  const auto relaxed = [](std::string_view schema, std::string pointer) {
    const auto out =
        relax_schema(*parse_json(schema), Error{ErrorCode::unsupported, "schema: 'x' at '" + pointer + "': no"});
    return out ? JsonWriter().value(out->schema).take() : "nothing";
  };
  EXPECT_EQ(relaxed(R"({"patternProperties":{"(a)\\1":{}},"additionalProperties":false})", "/patternProperties"), "{}");
  EXPECT_EQ(relaxed(R"({"prefixItems":[{"x":1}],"items":false,"minItems":1})", "/prefixItems"), R"({"minItems":1})");
  EXPECT_EQ(
      relaxed(R"({"properties":{"not":{"x":1,"type":"string"}},"additionalProperties":false})", "/properties/not/x"),
      R"({"properties":{"not":{"type":"string"}},"additionalProperties":false})");
  EXPECT_EQ(relaxed(R"({"oneOf":[{"x":1},{"type":"null"}],"type":"object"})", "/oneOf/0/x"), R"({"type":"object"})");
  EXPECT_EQ(relaxed(R"({"anyOf":[5,{"type":"null"}]})", "/anyOf/0"), R"({"anyOf":[true,{"type":"null"}]})");
  EXPECT_EQ(relaxed(R"({"a/b":1,"c~d":2})", "/a~1b"), R"({"c~d":2})");
  EXPECT_EQ(relaxed(R"({"a":1})", "/b"), "nothing");
  EXPECT_FALSE(relax_schema(*parse_json("{}"), Error{ErrorCode::limit_exceeded, "schema: too large"}).has_value());
}

TEST(MessageGrammar, HundredsOfToolsAreOneGrammar) {
  std::string json = "[";
  for (int i = 0; i < 300; i++) {
    json +=
        (i == 0 ? "" : ",") +
        fmt::format(R"({{"type":"function","function":{{"name":"tool_{0}","parameters":{{"type":"object","properties":{{
            "path_{0}":{{"type":"string"}},"limit":{{"type":"integer","minimum":0,"maximum":{0}}},
            "kind":{{"enum":["a{0}","b","c"]}},"tags":{{"type":"array","items":{{"type":"string"}}}},
            "options":{{"type":"object","properties":{{"deep":{{"type":"boolean"}},"name":{{"type":"string"}}}}}}}},
            "required":["path_{0}"],"additionalProperties":false}}}}}})",
                    i);
  }
  for (const char* name : {"hermes", "qwen3-coder", "llama3-json"}) {
    MessageRules rules{
        .format = find_tool_format(name), .tools = *parse_tools(json + "]"), .calls = CallChoice::automatic};
    const auto start = std::chrono::steady_clock::now();
    const auto made = compile_message(rules);
    const auto compiled_at = std::chrono::steady_clock::now();
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_TRUE(made->unenforced.empty());
    grammar::Matcher matcher(made->constraint);
    const std::string text = "I will look. ";
    EXPECT_EQ(*matcher.accept(text), text.size());
    const std::chrono::duration<double> seconds = compiled_at - start;
    RecordProperty(std::string(name) + "_seconds", std::to_string(seconds.count()));
    // The last tool is found by its name.
    const std::string call =
        name == std::string("qwen3-coder") ? "<tool_call>\n<function=tool_299>\n<parameter=path_299>"
        : name == std::string("hermes")    ? "<tool_call>\n{\"name\": \"tool_299\", \"arguments\": {\"path_299"
                                           : "{\"name\": \"tool_299\", \"parameters\": {\"path_299";
    EXPECT_EQ(*matcher.accept(call), call.size()) << name;
  }
}

}  // namespace
}  // namespace rocmforge::chat
