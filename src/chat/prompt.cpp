#include "chat/prompt.h"

#include <algorithm>
#include <utility>

#include "chat/history.h"
#include "chat/marked_text.h"

namespace rocmforge::chat {
namespace {

constexpr size_t kTailBytes = 256;

void mark_texts(JsonValue& value, const tokenizer::PhraseFinder& names) {
  if (auto* text = std::get_if<std::string>(&value.state())) {
    mark_control_names(*text, names);
  } else if (auto* array = std::get_if<JsonArray>(&value.state())) {
    for (JsonValue& item : *array) mark_texts(item, names);
  } else if (auto* object = std::get_if<JsonObject>(&value.state())) {
    for (auto& [key, member] : *object) mark_texts(member, names);
  }
}

}  // namespace

Result<std::string> render_marked(const ChatTemplate& chat_template, const ModelFormat& format,
                                  const tokenizer::Tokenizer& tokenizer, ChatRequest conversation) {
  const tokenizer::PhraseFinder& names = tokenizer.control_names();
  for (JsonValue& message : conversation.messages) {
    const JsonValue* role = message.find("role");
    const bool is_ours = role && role->as<std::string>() && *role->as<std::string>() == "assistant";
    // What the model itself wrote may be read by its template: "<think>" and the like stay whole there.
    if (!is_ours) mark_texts(message, names);
  }
  for (JsonValue& tool : conversation.tools) mark_texts(tool, names);
  return render_chat(chat_template, format, std::move(conversation));
}

std::string tail_of(const std::string& text) {
  return text.substr(text.size() - std::min(text.size(), kTailBytes));
}

Result<std::vector<TokenId>> encode_chat(const ChatTemplate& chat_template, const ModelFormat& format,
                                         const tokenizer::Tokenizer& tokenizer, ChatRequest conversation,
                                         std::string* tail) {
  const std::string text = TRY(render_marked(chat_template, format, tokenizer, std::move(conversation)));
  if (tail != nullptr) *tail = tail_of(text);
  return encode_marked(tokenizer, text);
}

}  // namespace rocmforge::chat
