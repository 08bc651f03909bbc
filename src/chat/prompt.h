#pragma once
// Converts a conversation to the tokens of a prompt.
//
// Text of the template may become control tokens; text of users and tools may not. Wherever a message spells a control
// token, it is marked before the template is rendered, so that "<|im_end|>" in a message stays text.

#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "chat/chat_template.h"
#include "chat/model_format.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::chat {

// `tail`, if not null, gets the end of the prompt, which tells whether the model starts in its reasoning.
// Errors: those of render_chat() and of Tokenizer::encode().
Result<std::vector<TokenId>> encode_chat(const ChatTemplate& chat_template, const ModelFormat& format,
                                         const tokenizer::Tokenizer& tokenizer, ChatRequest conversation,
                                         std::string* tail = nullptr);

// The text of the prompt, with marks (marked_text.h), and the end of it that encode_chat() gives.
Result<std::string> render_marked(const ChatTemplate& chat_template, const ModelFormat& format,
                                  const tokenizer::Tokenizer& tokenizer, ChatRequest conversation);
std::string tail_of(const std::string& text);

}  // namespace rocmforge::chat
