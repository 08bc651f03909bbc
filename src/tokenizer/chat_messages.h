#pragma once
// A conversation as clients send it, brought into the form a template can read.

#include "base/json.h"
#include "base/result.h"

namespace rocmforge::tokenizer {

// What a template was found to read.
struct MessageForm {
  bool text_content = true;      // content as a string
  bool part_content = false;     // content as a list of {"type": "text", "text": ...}
  bool object_arguments = true;  // a tool call's arguments as an object; else as JSON text
  bool developer_role = false;   // else it becomes the system role
};

// Content missing or null becomes empty, an empty list of tool calls goes, and content and arguments take the form
// asked for: arguments that arrive as JSON text are parsed, those that are no JSON stay as they are.
// Errors: invalid_argument, naming the message.
Result<JsonArray> normalize_messages(const JsonArray& messages, const MessageForm& form);

}  // namespace rocmforge::tokenizer
