#include "server/api/message_constraint_fields.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/log.h"

namespace rocmforge::server {
namespace {

constexpr std::pair<std::string_view, uint32_t> kEfforts[] = {
    {"none", 0}, {"minimal", 256}, {"low", 1024}, {"medium", 8192}};  // "high" and others: no limit

const JsonValue* function_named(const JsonArray& tools, std::string_view name) {
  for (const JsonValue& tool : tools) {
    const JsonValue* function = tool.find("function");
    const JsonValue* its_name = function ? function->find("name") : nullptr;
    if (its_name && its_name->as<std::string>() && *its_name->as<std::string>() == name) return function;
  }
  return nullptr;
}

bool is_strict(const JsonArray& tools, std::string_view name) {
  const JsonValue* function = function_named(tools, name);
  const JsonValue* strict = function ? function->find("strict") : nullptr;
  return strict && strict->as<bool>() && *strict->as<bool>();
}

// What a header and a line of the log can carry.
std::string plain_name(std::string_view name) {
  std::string out(name);
  std::ranges::replace_if(out, [](char c) { return c <= ' ' || c >= 0x7f || c == ','; }, '?');
  return out;
}

void tell_unenforced(Fields& fields, const std::vector<grammar::Unenforced>& all, ToolRequest& tools) {
  for (const grammar::Unenforced& one : all) {
    if (is_strict(tools.tools, one.tool)) {
      return fields.refuse("tools", fmt::format("cannot be enforced for '{}', which is strict: {}", one.tool, one.why),
                           "unsupported_feature");
    }
    log(LogLevel::info, "tools: '{}': {}", plain_name(one.tool), one.why);
    std::string name = fmt::format("tools.{}.parameters", plain_name(one.tool));
    if (std::ranges::find(tools.ignored, name) == tools.ignored.end()) tools.ignored.push_back(std::move(name));
  }
}

}  // namespace

std::optional<uint32_t> read_thinking_budget(Fields& fields, const ServedModel& model) {
  const auto budget = fields.integer("thinking_budget_tokens", 0, INT32_MAX);
  if (budget) return static_cast<uint32_t>(*budget);
  const auto effort = fields.text("reasoning_effort", 64);
  if (!effort || model.chat_template->text().find("reasoning_effort") != std::string::npos) return {};
  const auto known = std::ranges::find(kEfforts, *effort, &std::pair<std::string_view, uint32_t>::first);
  return known == std::end(kEfforts) ? std::nullopt : std::optional(known->second);
}

std::optional<ConstraintChoice> constrain_answer(Fields& fields, const ServedModel& model, const AskedMessage& asked,
                                                 const chat::ParserOptions& parser, ToolRequest& tools) {
  const bool has_rules = asked.answer || tools.choice != chat::CallChoice::none || asked.max_thinking_tokens;
  if (!has_rules) return {};
  chat::MessageRules rules{.tools = tools.tools, .calls = tools.choice, .is_parallel = tools.is_parallel};
  rules.reasoning = chat::reasoning_start(parser, asked.may_think);
  const std::string_view prefix = parser.format->start_prefix;
  rules.starts_in_marker = !prefix.empty() && parser.prompt_tail.ends_with(prefix);
  if (asked.answer) rules.answer = asked.answer->source;
  if (!model.constrain_message) {
    if (asked.answer) refuse_constraints(fields, asked.answer->param);
    if (tools.choice == chat::CallChoice::required) refuse_constraints(fields, "tool_choice");
    return {};
  }
  auto made = model.constrain_message(rules, asked.max_thinking_tokens);
  if (made.ok()) {
    tell_unenforced(fields, made->unenforced, tools);
    return std::move(made->choice);
  }
  if (asked.answer) {
    refuse_constraint(fields, asked.answer->param, made.error());
  } else if (tools.choice == chat::CallChoice::required) {
    refuse_constraint(fields, "tools", made.error());
  } else {
    log(LogLevel::info, "tools: calls are not enforced: {}", made.error().message);
    tools.ignored.emplace_back("tools.parameters");
  }
  return {};
}

}  // namespace rocmforge::server
