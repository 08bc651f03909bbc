#pragma once
// A conversation with tools, brought into the form that one model's template can render.
//
//   ids        that the template would refuse are replaced, the same one always by the same
//   no tools   where the template knows none, the model is told of them in the system message, and calls and results
//              in the conversation become text
//   repairs    what a template may refuse, several calls in one message or a type that is a list, is rewritten when it
//              does

#include <string>

#include "base/result.h"
#include "chat/model_format.h"
#include "tokenizer/chat_template.h"

namespace rocmforge::chat {

// Errors: those of ChatTemplate::render.
Result<std::string> render_chat(const tokenizer::ChatTemplate& chat_template, const ModelFormat& format,
                                tokenizer::ChatRequest request);

// An id of nine letters and digits: itself, if it is one.
std::string nine_letters_of(const std::string& id);

}  // namespace rocmforge::chat
