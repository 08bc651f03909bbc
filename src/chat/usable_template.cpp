#include "chat/usable_template.h"

#include <fmt/core.h>

#include "chat/chat_vocabulary.h"

namespace rocmforge::chat {
namespace {

std::string template_that_says(const Error& error) {
  std::string reason = error.message;
  for (char& c : reason) {
    if (c == '\'' || c == '\\' || static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return fmt::format("{{{{ raise_exception('the chat template of this model cannot be used: {}') }}}}", reason);
}

}  // namespace

Result<ChatTemplate> usable_template(const gguf::Metadata& metadata, const tokenizer::Tokenizer& tokenizer,
                                     const LoadControl& control) {
  auto own = ChatTemplate::load(metadata, chat_vocabulary(tokenizer), {}, {}, control);
  if (own.ok() || own.error().code == ErrorCode::cancelled) return own;
  return ChatTemplate::load(metadata, chat_vocabulary(tokenizer),
                            {.text = template_that_says(own.error()), .name = {}});
}

}  // namespace rocmforge::chat
