#pragma once
// Properties of tokens that follow from their names. Files state some special tokens by id; others are recognised only
// by their spelling, and some files give them the wrong type.

#include <string_view>

#include "tokenizer/vocabulary.h"

namespace rocmforge::tokenizer {

// Fills in fields that the file left open: special, end_of_text, always_shown, and types of known control tokens.
// REQUIRES: tokens, types and the ids from the file are set
void apply_token_names(Vocabulary& vocabulary);

// Sets strips_left and strips_right, which files lack: they follow from the model's name and kind.
void apply_strip_rules(Vocabulary& vocabulary, std::string_view model_name, std::string_view architecture,
                       std::string_view pre);

}  // namespace rocmforge::tokenizer
