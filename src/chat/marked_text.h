#pragma once
// Text of users inside a prompt whose own text may become control tokens: where the user's text spells a control
// token, a mark splits the spelling, and encoding cuts there.

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::chat {

// Splits the name of every control token in the text.
void mark_control_names(std::string& text, const tokenizer::PhraseFinder& names);

// The tokens of a text with marks, control tokens parsed. Errors: those of Tokenizer::encode().
Result<std::vector<TokenId>> encode_marked(const tokenizer::Tokenizer& tokenizer, std::string_view text);

}  // namespace rocmforge::chat
