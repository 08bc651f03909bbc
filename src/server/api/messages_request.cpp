#include "server/api/messages_request.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "server/api/body_parts.h"

namespace rocmforge::server {
namespace {

constexpr RenamedParam kRenamed[] = {
    {"response_format", "output_config.format"},
    {"stop", "stop_sequences"},
    {"reasoning_effort", "output_config.effort"},
};

// Members that mean something in a chat's body and not here.
constexpr std::string_view kOfChats[] = {
    "n",        "functions",    "function_call",         "response_format", "stop",
    "logprobs", "top_logprobs", "max_completion_tokens", "stream_options",  "parallel_tool_calls"};
// Those of this API that change no answer here.
constexpr std::string_view kWithoutEffect[] = {"metadata",          "service_tier",   "cache_control",
                                               "anthropic_version", "anthropic_beta", "context_management",
                                               "container",         "speed",          "inference_geo"};

class Reader {
 public:
  Reader(JsonObject body, MessagesRequest& out) : body_(std::move(body)), out_(out) {}

  std::optional<ApiError> read(bool needs_length) {
    if (needs_length && !has("max_tokens")) refuse("max_tokens", "must be an integer.");
    read_system();
    if (!error_) read_conversation();
    if (!error_) read_tools();
    if (!error_) read_thinking();
    if (!error_) read_output_config();
    if (!error_) read_rest();
    out_.chat = JsonValue(std::move(chat_));
    return std::move(error_);
  }

 private:
  void refuse(std::string param, const std::string& message, std::string code = {}) {
    if (!error_) error_ = ApiError::bad_param(param, fmt::format("'{}' {}", param, message), std::move(code));
  }
  void ignore(std::string name) {
    if (std::ranges::find(out_.ignored, name) == out_.ignored.end()) out_.ignored.push_back(std::move(name));
  }
  bool has(std::string_view name) const {
    const auto found = std::ranges::find(body_, name, &JsonObject::value_type::first);
    return found != body_.end() && !found->second.is_null();
  }

  void read_system() {
    JsonValue system = take_member(body_, "system");
    if (system.is_null()) return;
    if (!system.as<std::string>() && !system.as<JsonArray>()) {
      return refuse("system", "must be a string or an array of blocks.");
    }
    std::string text = content_text(system);
    normalise_stamp(text);
    if (text.empty()) return;
    messages_.emplace_back(JsonObject{{"role", JsonValue("system")}, {"content", JsonValue(std::move(text))}});
  }

  void read_conversation() {
    JsonValue messages = take_member(body_, "messages");
    auto* list = array_in(messages);
    if (!list || list->empty()) return refuse("messages", "must be an array with at least one message.");
    for (size_t i = 0; i < list->size() && !error_; i++) {
      add_message(std::move((*list)[i]), fmt::format("messages.{}", i));
    }
    if (error_) return;
    join_leading_system(messages_);
    chat_.emplace_back("messages", std::move(messages_));
  }

  void add_message(JsonValue message, const std::string& at) {
    auto* members = object_in(message);
    if (!members) return refuse(at, "must be an object.");
    const std::string role = text_or(message, "role", "");
    if (role != "user" && role != "assistant" && role != "system") {
      return refuse(at + ".role", "must be user or assistant.");
    }
    JsonValue content = take_member(*members, "content");
    if (content.as<std::string>()) {
      messages_.emplace_back(JsonObject{{"role", JsonValue(role)}, {"content", std::move(content)}});
      return;
    }
    auto* blocks = array_in(content);
    if (!blocks) return refuse(at + ".content", "must be a string or an array of blocks.");
    role == "assistant" ? add_answer(*blocks, at) : add_question(*blocks, role, at);
  }

  static JsonValue text_part(std::string text) {
    return JsonObject{{"type", JsonValue("text")}, {"text", JsonValue(std::move(text))}};
  }

  // What a block says as text; nothing: it is of a type that is skipped, or refused.
  std::optional<std::string> text_of(const JsonValue& block, const std::string& at) {
    const std::string type = text_or(block, "type", "");
    if (type == "text") {
      if (const std::string* text = text_in(block, "text")) return *text;
      refuse(at + ".text", "must be a string.");
      return {};
    }
    if (type == "image") {
      refuse(at + ".type", "can not be \"image\": this server reads no images.", "unsupported_feature");
      return {};
    }
    if (type == "document") {
      const JsonValue* source = block.find("source");
      const std::string kind = source ? text_or(*source, "type", "") : "";
      if (kind == "text") return text_or(*source, "data", "");
      const JsonValue* inner = kind == "content" ? source->find("content") : nullptr;
      if (inner) return content_text(*inner);
      refuse(at + ".source.type", "can only be \"text\" or \"content\": this server reads no files.",
             "unsupported_feature");
      return {};
    }
    if (type.empty()) refuse(at + ".type", "must be a string.");
    ignore("messages.content.type");
    return {};
  }

  // Results of tools are messages of their own, before what the user says with them.
  void add_question(const JsonArray& blocks, const std::string& role, const std::string& at) {
    JsonArray parts;
    for (size_t i = 0; i < blocks.size() && !error_; i++) {
      const std::string here = fmt::format("{}.content.{}", at, i);
      if (text_or(blocks[i], "type", "") == "tool_result") {
        add_result(blocks[i], here);
      } else if (auto text = text_of(blocks[i], here)) {
        parts.push_back(text_part(*std::move(text)));
      }
    }
    if (parts.empty()) return;
    messages_.emplace_back(JsonObject{{"role", JsonValue(role)}, {"content", std::move(parts)}});
  }

  void add_result(const JsonValue& block, const std::string& at) {
    std::string text;
    const JsonValue* content = block.find("content");
    if (const auto* whole = content ? content->as<std::string>() : nullptr) {
      text = *whole;
    } else if (const auto* blocks = content ? content->as<JsonArray>() : nullptr) {
      for (size_t i = 0; i < blocks->size() && !error_; i++) {
        const auto part = text_of((*blocks)[i], fmt::format("{}.content.{}", at, i));
        if (!part) continue;
        if (!text.empty()) text += "\n";
        text += *part;
      }
    }
    const JsonValue* is_error = block.find("is_error");
    if (is_error && is_error->as<bool>() && *is_error->as<bool>()) text = "Error: " + text;
    messages_.emplace_back(JsonObject{{"role", JsonValue("tool")},
                                      {"tool_call_id", JsonValue(text_or(block, "tool_use_id", ""))},
                                      {"content", JsonValue(std::move(text))}});
  }

  void add_answer(const JsonArray& blocks, const std::string& at) {
    std::string reasoning;
    JsonArray parts, calls;
    for (size_t i = 0; i < blocks.size() && !error_; i++) {
      const std::string here = fmt::format("{}.content.{}", at, i);
      const std::string type = text_or(blocks[i], "type", "");
      if (type == "thinking") {
        reasoning += text_or(blocks[i], "thinking", "");
      } else if (type == "redacted_thinking") {
        ignore("messages.content.type");
      } else if (type == "tool_use") {
        const std::string* name = text_in(blocks[i], "name");
        if (!name) return refuse(here + ".name", "must be a string.");
        const JsonValue* input = blocks[i].find("input");
        JsonObject function{{"name", JsonValue(*name)}, {"arguments", JsonValue(input ? json_of(*input) : "{}")}};
        calls.push_back(JsonObject{{"id", JsonValue(text_or(blocks[i], "id", ""))},
                                   {"type", JsonValue("function")},
                                   {"function", std::move(function)}});
      } else if (auto text = text_of(blocks[i], here)) {
        parts.push_back(text_part(*std::move(text)));
      }
    }
    JsonObject message{{"role", JsonValue("assistant")}, {"content", JsonValue()}};
    // One text is a string: templates of old know no parts.
    if (parts.size() == 1) message[1].second = text_or(parts[0], "text", "");
    if (parts.size() > 1) message[1].second = std::move(parts);
    if (parts.empty() && calls.empty()) message[1].second = "";
    if (!reasoning.empty()) message.emplace_back("reasoning_content", JsonValue(std::move(reasoning)));
    if (!calls.empty()) message.emplace_back("tool_calls", std::move(calls));
    messages_.emplace_back(std::move(message));
  }

  void read_tools() {
    JsonValue tools = take_member(body_, "tools");
    const JsonValue choice = take_member(body_, "tool_choice");
    if (!tools.is_null() && !array_in(tools)) return refuse("tools", "must be an array.");
    JsonArray functions;
    for (size_t i = 0; array_in(tools) && i < array_in(tools)->size() && !error_; i++) {
      add_tool((*array_in(tools))[i], fmt::format("tools.{}", i), functions);
    }
    if (error_) return;
    if (functions.empty()) return;
    chat_.emplace_back("tools", std::move(functions));
    read_choice(choice);
  }

  void add_tool(const JsonValue& tool, const std::string& at, JsonArray& functions) {
    if (!tool.as<JsonObject>()) return refuse(at, "must be an object.");
    const std::string type = text_or(tool, "type", "custom");
    if (type != "custom") return ignore("tools.type");  // what a server of theirs would do
    const std::string* name = text_in(tool, "name");
    if (!name || name->empty()) return refuse(at + ".name", "must be a string that is not empty.");
    JsonObject function{{"name", JsonValue(*name)}};
    if (const std::string* about = text_in(tool, "description")) function.emplace_back("description", *about);
    if (const JsonValue* schema = tool.find("input_schema")) {
      if (!schema->as<JsonObject>()) return refuse(at + ".input_schema", "must be an object: a JSON schema.");
      function.emplace_back("parameters", *schema);
    }
    if (const JsonValue* strict = tool.find("strict")) function.emplace_back("strict", *strict);
    functions.push_back(JsonObject{{"type", JsonValue("function")}, {"function", std::move(function)}});
  }

  void read_choice(const JsonValue& choice) {
    if (choice.is_null()) return;
    const std::string type = text_or(choice, "type", "");
    const JsonValue* alone = choice.find("disable_parallel_tool_use");
    if (alone && alone->as<bool>() && *alone->as<bool>()) {
      chat_.emplace_back("parallel_tool_calls", JsonValue(false));
    }
    if (type == "auto" || type == "none") {
      chat_.emplace_back("tool_choice", JsonValue(type));
    } else if (type == "any") {
      chat_.emplace_back("tool_choice", JsonValue("required"));
    } else if (type == "tool") {
      JsonObject function{{"name", JsonValue(text_or(choice, "name", ""))}};
      chat_.emplace_back("tool_choice", JsonObject{{"type", JsonValue("function")}, {"function", std::move(function)}});
    } else {
      refuse("tool_choice.type", "must be auto, any, tool or none.");
    }
  }

  void read_thinking() {
    const JsonValue thinking = take_member(body_, "thinking");
    if (thinking.is_null()) return;
    const std::string type = text_or(thinking, "type", "");
    if (type != "enabled" && type != "disabled" && type != "adaptive") {
      return refuse("thinking.type", "must be enabled, adaptive or disabled.");
    }
    if (type != "adaptive") chat_.emplace_back("enable_thinking", JsonValue(type == "enabled"));
    if (const JsonValue* budget = thinking.find("budget_tokens"); budget && type == "enabled") {
      chat_.emplace_back("thinking_budget_tokens", *budget);
    }
  }

  void read_output_config() {
    JsonValue config = take_member(body_, "output_config");
    JsonValue old = take_member(body_, "output_format");
    if (config.is_null() && old.is_null()) return;
    if (!config.is_null() && !config.as<JsonObject>()) return refuse("output_config", "must be an object.");
    if (const std::string* effort = text_in(config, "effort")) {
      chat_.emplace_back("reasoning_effort", JsonValue(*effort));
    }
    const JsonValue* asked = config.find("format");
    const JsonValue& format = asked && !asked->is_null() ? *asked : old;
    if (format.is_null()) return;
    const JsonValue* schema = format.find("schema");
    if (text_or(format, "type", "") != "json_schema" || !schema) {
      return refuse("output_config.format", "must have the type \"json_schema\" and a schema.");
    }
    JsonObject inner{{"name", JsonValue("answer")}, {"schema", *schema}};
    chat_.emplace_back("response_format",
                       JsonObject{{"type", JsonValue("json_schema")}, {"json_schema", std::move(inner)}});
  }

  void read_rest() {
    JsonValue stop = take_member(body_, "stop_sequences");
    const auto* list = stop.as<JsonArray>();
    if (!stop.is_null() && !list) return refuse("stop_sequences", "must be an array of strings.");
    for (const JsonValue& one : list ? *list : JsonArray{}) {
      const auto* text = one.as<std::string>();
      if (text && !text->empty()) out_.stop.push_back(*text);  // as the chat's are counted
    }
    if (list && !list->empty()) chat_.emplace_back("stop", std::move(stop));
    for (auto& [name, value] : body_) {
      if (name == "stream") {
        if (!value.as<bool>()) return refuse("stream", "must be true or false.");
        out_.is_stream = *value.as<bool>();
      }
      if (std::ranges::find(kWithoutEffect, name) != std::end(kWithoutEffect)) continue;
      if (std::ranges::find(kOfChats, name) != std::end(kOfChats)) {
        ignore(name);
      } else {
        chat_.emplace_back(std::move(name), std::move(value));
      }
    }
  }

  JsonObject body_;
  MessagesRequest& out_;
  std::optional<ApiError> error_;
  JsonObject chat_;
  JsonArray messages_;
};

}  // namespace

std::optional<ApiError> read_messages(JsonObject body, bool needs_length, MessagesRequest& out) {
  return Reader(std::move(body), out).read(needs_length);
}

ApiError messages_error(ApiError error) {
  return rename_param(std::move(error), kRenamed);
}

void normalise_stamp(std::string& system) {
  constexpr std::string_view kLine = "x-anthropic-billing-header:", kStamp = "cch=";
  const size_t end = std::min(system.find('\n'), system.size());
  if (!system.starts_with(kLine)) return;
  size_t at = system.find(kStamp);
  if (at == std::string::npos || at >= end) return;
  for (at += kStamp.size(); at < end && system[at] != ';' && system[at] != ' '; at++) system[at] = '0';
}

}  // namespace rocmforge::server
