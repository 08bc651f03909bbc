#pragma once
// Normalises a conversation from a client into the form that a template can read.

#include "base/json.h"
#include "base/result.h"

namespace rocmforge::chat {

// The form of messages that a template reads, found by rendering.
struct MessageForm {
  bool text_content = true;      // content as a string
  bool part_content = false;     // content as a list of {"type": "text", "text": ...}
  bool object_arguments = true;  // a tool call's arguments as an object; else as JSON text
  bool developer_role = false;   // false: the developer role becomes the system role
};

// Missing or null content becomes an empty text, and an empty list of tool calls is removed. Content and arguments are
// converted to `form`; arguments that are not JSON text stay unchanged.
// Errors: invalid_argument, naming the message.
Result<JsonArray> normalize_messages(const JsonArray& messages, const MessageForm& form);

}  // namespace rocmforge::chat
