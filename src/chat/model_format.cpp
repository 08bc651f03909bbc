#include "chat/model_format.h"

#include <algorithm>

namespace rocmforge::chat {

std::vector<TokenId> marker_tokens(const ToolFormat& format, const tokenizer::Tokenizer& tokenizer) {
  using tokenizer::TokenType;
  std::vector<TokenId> out;
  for (const std::string& marker : markers_of(format)) {
    const std::string_view text = marker;
    for (size_t from = 0; from < text.size(); from++) {
      for (size_t n = 2; n <= text.size() - from; n++) {
        const auto id = tokenizer.find(text.substr(from, n));
        if (!id) continue;
        const TokenType type = tokenizer.vocabulary().type(*id);
        if (type == TokenType::control || type == TokenType::user_defined) out.push_back(*id);
      }
    }
  }
  const auto by_value = [](TokenId a, TokenId b) { return a.value < b.value; };
  std::ranges::sort(out, by_value);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Result<ModelFormat> find_model_format(const ChatTemplate& chat_template, const tokenizer::Tokenizer& tokenizer,
                                      const std::string& name, const LoadControl& control) {
  ModelFormat out;
  if (const ToolFormat* named = find_tool_format(name)) {
    out.format = named;
    out.found_by = FoundBy::option;
  } else {
    const FormatChoice found = TRY(
        find_format(chat_template, [&](std::string_view token) { return tokenizer.find(token).has_value(); }, control));
    out.format = found.format;
    out.found_by = found.found_by;
  }
  const bool is_told = !chat_template.capabilities().tools && out.format->name == "hermes";
  out.is_told = out.found_by == FoundBy::option ? is_told : out.found_by == FoundBy::instruction;
  out.markers = std::make_shared<const std::vector<TokenId>>(marker_tokens(*out.format, tokenizer));
  for (const TokenId token : *out.markers) out.control.emplace_back(tokenizer.token_text(token));
  return out;
}

}  // namespace rocmforge::chat
