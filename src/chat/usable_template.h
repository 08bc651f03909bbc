#pragma once
// The chat template of a model for a server. Many requests need none, so a broken template fails only when it is used.

#include "base/load_control.h"
#include "base/result.h"
#include "chat/chat_template.h"
#include "gguf/reader.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::chat {

// `tokenizer` must outlive the result. Errors: cancelled (by `control`).
Result<ChatTemplate> usable_template(const gguf::Metadata& metadata, const tokenizer::Tokenizer& tokenizer,
                                     const LoadControl& control = {});

}  // namespace rocmforge::chat
