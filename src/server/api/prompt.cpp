#include "server/api/prompt.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "chat/history.h"
#include "chat/prompt.h"
#include "server/api/generation_fields.h"
#include "server/api/tools.h"

namespace rocmforge::server {
namespace {

using chat::ChatRequest;

void check_content(Fields& fields, const JsonValue& message, const std::string& at, bool may_lack) {
  const JsonValue* content = message.find("content");
  if (!content || content->is_null()) {
    if (!may_lack) fields.refuse(at + ".content", "must be a string or an array of parts.");
    return;
  }
  if (content->as<std::string>()) return;
  const auto* parts = content->as<JsonArray>();
  if (!parts) return fields.refuse(at + ".content", "must be a string or an array of parts.");
  for (size_t i = 0; i < parts->size(); i++) {
    const std::string part = fmt::format("{}.content[{}]", at, i);
    const JsonValue* type = (*parts)[i].find("type");
    const std::string* name = type ? type->as<std::string>() : nullptr;
    if (!name) return fields.refuse(part + ".type", "must be a string.");
    if (*name != "text") {
      return fields.refuse(part + ".type", "can only be \"text\": this server reads no images, audio or files.",
                           "unsupported_feature");
    }
    const JsonValue* text = (*parts)[i].find("text");
    if (!text || !text->as<std::string>()) return fields.refuse(part + ".text", "must be a string.");
  }
}

void check_message(Fields& fields, const JsonValue& message, const std::string& at) {
  if (!message.as<JsonObject>()) return fields.refuse(at, "must be an object.");
  const JsonValue* role = message.find("role");
  const std::string* name = role ? role->as<std::string>() : nullptr;
  static const std::unordered_set<std::string_view> kRoles = {"system",    "developer", "user",
                                                              "assistant", "tool",      "function"};
  if (!name || !kRoles.contains(*name)) {
    return fields.refuse(at + ".role", "must be system, developer, user, assistant, tool or function.");
  }
  check_content(fields, message, at, *name == "assistant");
  const JsonValue* calls = message.find("tool_calls");
  if (calls && !calls->is_null() && !calls->as<JsonArray>()) fields.refuse(at + ".tool_calls", "must be an array.");
}

// Templates read reasoning_content; some servers' clients send back what they were given as reasoning or
// thinking.
void name_reasoning(JsonValue& message) {
  const JsonValue* known = message.find("reasoning_content");
  const JsonValue* other = message.find("reasoning");
  if (!other) other = message.find("thinking");
  if ((known && !known->is_null()) || !other || !other->as<std::string>()) return;
  JsonValue text = *other;
  auto& members = std::get<JsonObject>(message.state());
  std::erase_if(members, [](const auto& member) { return member.first == "reasoning_content"; });
  members.emplace_back("reasoning_content", std::move(text));
}

size_t text_bytes_of(const JsonValue& value) {
  size_t n = 0;
  if (const auto* text = value.as<std::string>()) {
    n = text->size();
  } else if (const auto* array = value.as<JsonArray>()) {
    for (const JsonValue& item : *array) n += text_bytes_of(item);
  } else if (const auto* object = value.as<JsonObject>()) {
    for (const auto& [key, member] : *object) n += text_bytes_of(member);
  }
  return n;
}

}  // namespace

ChatRequest read_conversation(Fields& fields) {
  ChatRequest out;
  const JsonArray* messages = fields.array("messages", kMaxMessages);
  if (!messages || messages->empty()) {
    fields.refuse("messages", "must be an array with at least one message.");
    return out;
  }
  for (size_t i = 0; i < messages->size() && !fields.error(); i++) {
    check_message(fields, (*messages)[i], fmt::format("messages[{}]", i));
  }
  if (fields.error()) return out;
  out.messages = *messages;
  for (JsonValue& message : out.messages) name_reasoning(message);
  rename_old_calls(out.messages);
  out.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  out.enable_thinking = fields.boolean("enable_thinking");
  if (const JsonObject* variables = fields.object("chat_template_kwargs", 256)) out.variables = *variables;
  if (const auto effort = fields.text("reasoning_effort", 64))
    out.variables.emplace_back("reasoning_effort", JsonValue(*effort));
  return out;
}

size_t text_bytes(const JsonArray& messages) {
  size_t n = 0;
  for (const JsonValue& message : messages) n += text_bytes_of(message);
  return n;
}

Result<std::string> render_conversation(const ServedModel& model, const ChatRequest& conversation) {
  return chat::render_chat(*model.chat_template, *model.tool_format, conversation);
}

Result<std::vector<TokenId>> encode_conversation(const ServedModel& model, ChatRequest conversation,
                                                 std::span<const chat::WrittenAnswer> answers, std::string* tail) {
  return chat::encode_spliced(*model.chat_template, *model.tool_format, *model.tokenizer, std::move(conversation),
                              answers, tail);
}

}  // namespace rocmforge::server
