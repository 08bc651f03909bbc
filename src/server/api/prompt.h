#pragma once
// The conversation of a chat request, and its prompt (chat/prompt.h).

#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "chat/spliced_prompt.h"
#include "server/api/fields.h"
#include "server/api/served_model.h"

namespace rocmforge::server {

// The `messages` and template options of a chat request; refuses in `fields` what is wrong.
chat::ChatRequest read_conversation(Fields& fields);

// The size of all texts in the messages, in every member: a template may print any of them.
size_t text_bytes(const JsonArray& messages);

// The prompt as text, without marks.
Result<std::string> render_conversation(const ServedModel& model, const chat::ChatRequest& conversation);
// `tail`: receives the end of the prompt, which shows whether the prompt opens the model's reasoning.
// `answers`: those in it whose tokens are known.
Result<std::vector<TokenId>> encode_conversation(const ServedModel& model, chat::ChatRequest conversation,
                                                 std::span<const chat::WrittenAnswer> answers, std::string* tail);

}  // namespace rocmforge::server
