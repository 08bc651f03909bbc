#pragma once
// GBNF, the grammar notation of llama.cpp, extended by left recursion and counts of any size.

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "grammar/rules.h"

namespace rocmforge::grammar {

inline constexpr size_t kMaxGrammarBytes = 1u << 20;

// Finds a token by its name ("<think>"). Without this function, such terminals match their names as text.
using FindToken = std::function<std::optional<int32_t>(std::string_view name)>;

// invalid_argument and unsupported name the line.
Result<RuleId> add_gbnf(Grammar& grammar, std::string_view source, const FindToken& find_token = {});

}  // namespace rocmforge::grammar
