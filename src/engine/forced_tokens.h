#pragma once
// The tokens of a text that a constraint leaves no choice in, so that they can be appended without asking the model:
// split as the model's own tokenizer splits that text behind what was written before.

#include <span>
#include <string_view>
#include <vector>

#include "grammar/token_trie.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

// Nothing where the tokenizer would split the border between the two texts otherwise. Tokens at the end are left out
// that a longer token, across the end, could replace. The texts of `vocabulary` may show control tokens
// (TokenTrie::with_controls).
std::vector<TokenId> tokens_behind(const tokenizer::Tokenizer& tokenizer, const grammar::TokenTrie& vocabulary,
                                   std::span<const TokenId> before, std::string_view text);

}  // namespace rocmforge
