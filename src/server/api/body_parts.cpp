#include "server/api/body_parts.h"

namespace rocmforge::server {

std::string content_text(const JsonValue& content) {
  if (const auto* text = content.as<std::string>()) return *text;
  std::string out;
  const auto* parts = content.as<JsonArray>();
  for (const JsonValue& part : parts ? *parts : JsonArray{}) {
    const std::string* text = text_in(part, "text");
    if (!text) continue;
    if (!out.empty()) out += "\n\n";
    out += *text;
  }
  return out;
}

void join_leading_system(JsonArray& messages) {
  const auto is_system = [](const JsonValue& message) {
    const std::string* role = text_in(message, "role");
    return role && (*role == "system" || *role == "developer");
  };
  size_t n = 0;
  while (n < messages.size() && is_system(messages[n])) n++;
  if (n < 2) return;
  std::string text;
  for (size_t i = 0; i < n; i++) {
    const JsonValue* content = messages[i].find("content");
    if (!content) continue;
    if (!text.empty()) text += "\n\n";
    text += content_text(*content);
  }
  messages.erase(messages.begin() + 1, messages.begin() + static_cast<std::ptrdiff_t>(n));
  messages[0] = JsonObject{{"role", JsonValue("system")}, {"content", JsonValue(std::move(text))}};
}

}  // namespace rocmforge::server
