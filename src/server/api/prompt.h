#pragma once
// From a conversation to the tokens of a prompt.
//
// What the template writes may be control tokens; what users and tools write may not. Their texts are marked before
// they go into the template wherever they spell a control token, so that "<|im_end|>" in a message stays text.

#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "server/api/fields.h"
#include "server/api/served_model.h"

namespace rocmforge::server {

// The `messages` and template options of a chat request; refuses in `fields` what is wrong.
tokenizer::ChatRequest read_conversation(Fields& fields);

// The size of all texts in the messages, whatever their members are called: a template may print any of them.
size_t text_bytes(const JsonArray& messages);

// The prompt as text, without marks.
Result<std::string> render_conversation(const ServedModel& model, const tokenizer::ChatRequest& conversation);
// `tail`: how the prompt ends, which tells whether it leaves the model in the middle of its thinking.
Result<std::vector<TokenId>> encode_conversation(const ServedModel& model, tokenizer::ChatRequest conversation,
                                                 std::string* tail);

}  // namespace rocmforge::server
