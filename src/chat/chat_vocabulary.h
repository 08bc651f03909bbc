#pragma once
// A tokenizer's facts for chat templates.

#include <string>

#include "chat/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::chat {

// `tokenizer` must outlive the result.
inline ChatVocabulary chat_vocabulary(const tokenizer::Tokenizer& tokenizer) {
  const auto text_of = [&](std::optional<TokenId> id) { return std::string(id ? tokenizer.token_text(*id) : ""); };
  return {text_of(tokenizer.bos()), text_of(tokenizer.eos()),
          [&tokenizer](std::string_view name) { return tokenizer.find(name).has_value(); }};
}

}  // namespace rocmforge::chat
