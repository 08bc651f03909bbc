#include "chat/chat_messages.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

namespace rocmforge::chat {
namespace {

// Arguments come as a text inside a request: its number of values was not counted with the request's own.
constexpr JsonLimits kArgumentLimits = {.max_bytes = 1u << 20, .max_members = 4096};

JsonValue* find_member(JsonObject& object, std::string_view key) {
  const auto found = std::ranges::find_if(object, [&](const auto& member) { return member.first == key; });
  return found == object.end() ? nullptr : &found->second;
}

JsonValue text_part(const std::string& text) {
  return JsonObject{{"type", JsonValue("text")}, {"text", JsonValue(text)}};
}

// The texts of the parts, one per line; other kinds of parts need a template that reads parts.
Result<std::string> join_parts(const JsonArray& parts) {
  std::string text;
  for (size_t i = 0; i < parts.size(); i++) {
    const JsonValue* type = parts[i].find("type");
    const JsonValue* part = parts[i].find("text");
    const std::string* part_text = part != nullptr ? part->as<std::string>() : nullptr;
    if (part_text == nullptr) {
      const std::string* name = type != nullptr ? type->as<std::string>() : nullptr;
      return Error{ErrorCode::invalid_argument,
                   fmt::format("content[{}]: a part of type '{}' is not text, and the model's template reads only text",
                               i, name != nullptr ? *name : "")};
    }
    if (i > 0) text += '\n';
    text += *part_text;
  }
  return text;
}

Result<void> normalize_content(JsonObject& message, const MessageForm& form) {
  JsonValue* content = find_member(message, "content");
  if (content == nullptr) {
    message.emplace_back("content", JsonValue(""));
    return {};
  }
  if (content->is_null()) {
    *content = JsonValue("");
    return {};
  }
  if (const auto* parts = content->as<JsonArray>()) {
    if (!form.part_content) *content = JsonValue(TRY(join_parts(*parts)));
    return {};
  }
  const auto* text = content->as<std::string>();
  if (text == nullptr) return Error{ErrorCode::invalid_argument, "content: neither a string nor a list of parts"};
  if (!form.text_content && form.part_content) *content = JsonArray{text_part(*text)};
  return {};
}

void normalize_arguments(JsonValue& call, const MessageForm& form) {
  auto* call_object = std::get_if<JsonObject>(&call.state());
  if (call_object == nullptr) return;
  JsonValue* function = find_member(*call_object, "function");
  auto* function_object = function != nullptr ? std::get_if<JsonObject>(&function->state()) : call_object;
  JsonValue* arguments = function_object != nullptr ? find_member(*function_object, "arguments") : nullptr;
  if (arguments == nullptr) return;
  if (const auto* text = arguments->as<std::string>()) {
    if (!form.object_arguments) return;
    const bool is_blank = text->find_first_not_of(" \t\r\n") == std::string::npos;
    auto parsed = is_blank ? Result<JsonValue>(JsonObject{}) : parse_json(*text, kArgumentLimits);
    if (parsed.ok()) *arguments = std::move(*parsed);
  } else if (!form.object_arguments) {
    JsonWriter writer;
    writer.value(*arguments);
    *arguments = JsonValue(writer.take());
  }
}

Result<void> normalize_message(JsonValue& value, const MessageForm& form) {
  auto* message = std::get_if<JsonObject>(&value.state());
  if (message == nullptr) return Error{ErrorCode::invalid_argument, "not an object"};
  JsonValue* role = find_member(*message, "role");
  if (role == nullptr || role->as<std::string>() == nullptr)
    return Error{ErrorCode::invalid_argument, "role: not a string"};
  if (*role->as<std::string>() == "developer" && !form.developer_role) *role = JsonValue("system");
  TRY(normalize_content(*message, form));
  JsonValue* calls = find_member(*message, "tool_calls");
  if (calls == nullptr) return {};
  auto* list = std::get_if<JsonArray>(&calls->state());
  if (calls->is_null() || (list != nullptr && list->empty())) {
    std::erase_if(*message, [](const auto& member) { return member.first == "tool_calls"; });
    return {};
  }
  if (list == nullptr) return Error{ErrorCode::invalid_argument, "tool_calls: not a list"};
  for (JsonValue& call : *list) normalize_arguments(call, form);
  return {};
}

}  // namespace

Result<JsonArray> normalize_messages(const JsonArray& messages, const MessageForm& form) {
  JsonArray normalized = messages;
  for (size_t i = 0; i < normalized.size(); i++) {
    auto done = normalize_message(normalized[i], form);
    if (!done.ok()) return std::move(done).error().in(fmt::format("messages[{}]", i));
  }
  return normalized;
}

}  // namespace rocmforge::chat
