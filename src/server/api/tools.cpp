#include "server/api/tools.h"

#include <fmt/core.h>

#include <algorithm>

#include "server/api/generation_fields.h"

namespace rocmforge::server {
namespace {

constexpr size_t kMaxNameBytes = 256;

const std::string* text_in(const JsonValue& value, std::string_view key) {
  const JsonValue* found = value.find(key);
  return found ? found->as<std::string>() : nullptr;
}

// What is wrong with a function's description; empty: nothing.
void check_function(Fields& fields, const JsonValue& function, const std::string& at) {
  if (!function.as<JsonObject>()) return fields.refuse(at, "must be an object.");
  const std::string* name = text_in(function, "name");
  if (!name || name->empty() || name->size() > kMaxNameBytes) {
    return fields.refuse(at + ".name", fmt::format("must be a string of 1 to {} bytes.", kMaxNameBytes));
  }
  const JsonValue* parameters = function.find("parameters");
  if (parameters && !parameters->is_null() && !parameters->as<JsonObject>()) {
    fields.refuse(at + ".parameters", "must be an object: a JSON schema.");
  }
}

void add_ignored(ToolRequest& out, std::string name) {
  if (std::ranges::find(out.ignored, name) == out.ignored.end()) out.ignored.push_back(std::move(name));
}

void read_list(Fields& fields, ToolRequest& out) {
  const JsonArray* tools = fields.array("tools", kMaxTools);
  for (size_t i = 0; tools && i < tools->size() && !fields.error(); i++) {
    const JsonValue& tool = (*tools)[i];
    const std::string at = fmt::format("tools[{}]", i);
    if (!tool.as<JsonObject>()) return fields.refuse(at, "must be an object.");
    const std::string* type = text_in(tool, "type");
    if (type && *type != "function") {
      add_ignored(out, "tools.type");
      continue;
    }
    const JsonValue* function = tool.find("function");
    if (!function) return fields.refuse(at + ".function", "must be an object.");
    check_function(fields, *function, at + ".function");
    out.tools.push_back(tool);
  }
  const JsonArray* functions = fields.array("functions", kMaxTools);
  if (!functions || functions->empty() || !out.tools.empty()) return;
  out.is_old = true;
  for (size_t i = 0; i < functions->size() && !fields.error(); i++) {
    check_function(fields, (*functions)[i], fmt::format("functions[{}]", i));
    out.tools.push_back(JsonObject{{"type", JsonValue("function")}, {"function", (*functions)[i]}});
  }
}

const std::string* name_of(const JsonValue& tool) {
  const JsonValue* function = tool.find("function");
  return text_in(function ? *function : tool, "name");
}

// {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [...]}}: the others are not offered.
void read_allowed(Fields& fields, const JsonValue& choice, ToolRequest& out) {
  const JsonValue* allowed = choice.find("allowed_tools");
  if (!allowed) allowed = &choice;  // as the Responses API has it
  const std::string* mode = text_in(*allowed, "mode");
  const JsonValue* listed = allowed->find("tools");
  const auto* list = listed ? listed->as<JsonArray>() : nullptr;
  if (!mode || !list || (*mode != "auto" && *mode != "required")) {
    return fields.refuse("tool_choice", "must have the mode \"auto\" or \"required\", and an array of tools.");
  }
  if (*mode == "required") out.choice = chat::CallChoice::required;
  std::erase_if(out.tools, [&](const JsonValue& tool) {
    const std::string* name = name_of(tool);
    return std::ranges::none_of(*list, [&](const JsonValue& one) {
      const std::string* wanted = name_of(one);
      return wanted && name && *wanted == *name;
    });
  });
}

// {"type": "function", "function": {"name": N}}, or {"name": N} in the older form: N has to be called.
void read_named(Fields& fields, const char* member, const JsonValue& choice, ToolRequest& out) {
  const std::string* wanted = name_of(choice);
  if (!wanted) return fields.refuse(member, "must be \"none\", \"auto\", \"required\" or name a function.");
  std::erase_if(out.tools, [&](const JsonValue& tool) { return !name_of(tool) || *name_of(tool) != *wanted; });
  if (out.tools.empty()) fields.refuse(member, fmt::format("names '{}', which is none of the tools.", *wanted));
  out.choice = chat::CallChoice::required;
}

void read_choice(Fields& fields, const char* member, ToolRequest& out) {
  const JsonValue* choice = fields.find(member);
  if (!choice) return;
  const std::string* name = choice->as<std::string>();
  if (name && *name == "auto") return;
  if (name && *name == "none") return out.tools.clear();
  const std::string* type = text_in(*choice, "type");
  if (type && *type == "allowed_tools") {
    read_allowed(fields, *choice, out);
  } else if (name && *name == "required") {
    out.choice = chat::CallChoice::required;
  } else {
    read_named(fields, member, *choice, out);
  }
  if (!fields.error() && out.choice == chat::CallChoice::required && out.tools.empty()) {
    fields.refuse(member, "asks for a call, and there are no tools.");
  }
}

void set_member(JsonObject& object, std::string_view key, JsonValue to) {
  std::erase_if(object, [&](const auto& member) { return member.first == key; });
  object.emplace_back(std::string(key), std::move(to));
}

}  // namespace

JsonArray shown_tools(JsonArray tools) {
  for (JsonValue& tool : tools) {
    JsonValue* at = &tool;
    for (const char* key : {"function", "parameters", "properties", "input"}) {
      auto* members = at ? std::get_if<JsonObject>(&at->state()) : nullptr;
      const auto found =
          members ? std::ranges::find(*members, key, &JsonObject::value_type::first) : JsonObject::iterator();
      at = members && found != members->end() ? &found->second : nullptr;
    }
    auto* input = at ? std::get_if<JsonObject>(&at->state()) : nullptr;
    if (input) std::erase_if(*input, [](const auto& member) { return member.first == kGrammarKeyword; });
  }
  return tools;
}

ToolRequest read_tools(Fields& fields) {
  ToolRequest out;
  const JsonValue* choice = fields.find("tool_choice");
  const std::string* name = choice ? choice->as<std::string>() : nullptr;
  if (name && *name == "none") {
    for (const char* unused : {"tools", "functions"}) fields.array(unused, kMaxTools);
    fields.find("function_call");
    fields.boolean("parallel_tool_calls");
    return out;
  }
  read_list(fields, out);
  if (fields.error()) return out;
  out.choice = chat::CallChoice::automatic;
  read_choice(fields, "tool_choice", out);
  read_choice(fields, "function_call", out);
  out.is_parallel = fields.boolean("parallel_tool_calls").value_or(true) && !out.is_old;
  if (out.tools.empty()) out.choice = chat::CallChoice::none;
  if (!fields.error() && !out.tools.empty()) out.set = std::make_shared<const chat::ToolSet>(out.tools);
  return out;
}

void rename_old_calls(JsonArray& messages) {
  size_t n_calls = 0;
  for (JsonValue& message : messages) {
    auto* members = std::get_if<JsonObject>(&message.state());
    if (!members) continue;
    const JsonValue* call = message.find("function_call");
    if (call && call->as<JsonObject>() && !message.find("tool_calls")) {
      const JsonObject renamed = {
          {"id", JsonValue(fmt::format("call_{}", ++n_calls))}, {"type", JsonValue("function")}, {"function", *call}};
      set_member(*members, "tool_calls", JsonValue(JsonArray{renamed}));
      std::erase_if(*members, [](const auto& member) { return member.first == "function_call"; });
    }
    const std::string* role = text_in(message, "role");
    if (!role || *role != "function") continue;
    set_member(*members, "role", JsonValue("tool"));
    set_member(*members, "tool_call_id", JsonValue(fmt::format("call_{}", n_calls)));
  }
}

}  // namespace rocmforge::server
