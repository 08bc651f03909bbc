#pragma once
// What a token's name says about it. Files state some special tokens by id; others are known only by how they are
// spelled, and some files give them the wrong type.

#include <string_view>

#include "tokenizer/vocabulary.h"

namespace rocmforge::tokenizer {

// Fills in what the file did not say (special, end_of_text, always_shown, types of tokens known to be control tokens).
// REQUIRES: tokens, types and the ids from the file are set
void apply_token_names(Vocabulary& vocabulary);

// Sets strips_left and strips_right, which files do not carry: they follow from the model's name and kind.
void apply_strip_rules(Vocabulary& vocabulary, std::string_view model_name, std::string_view architecture,
                       std::string_view pre);

}  // namespace rocmforge::tokenizer
