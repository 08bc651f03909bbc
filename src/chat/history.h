#pragma once
// Renders a conversation with tools by a model's template, after rewriting the parts that the template cannot render:
//
//   ids        call ids that the template refuses are replaced, equal ids by equal ones
//   no tools   if the template does not support tools, the system message describes them, and calls and results in the
//              conversation become text
//   repairs    several calls in one message, or a type that is a list, are rewritten if the template refuses them

#include <string>

#include "base/result.h"
#include "chat/chat_template.h"
#include "chat/model_format.h"

namespace rocmforge::chat {

// Errors: those of ChatTemplate::render.
Result<std::string> render_chat(const ChatTemplate& chat_template, const ModelFormat& format, ChatRequest request);

// An id of nine letters and digits for `id`; `id` itself if it has that form.
std::string nine_letters_of(const std::string& id);

}  // namespace rocmforge::chat
