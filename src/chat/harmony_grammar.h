#pragma once
// Answers in Harmony, gpt-oss's format: messages with a channel each, and a recipient where a tool is called.

#include <optional>

#include "chat/message_grammar.h"

namespace rocmforge::chat {

// Sets the grammar's root. `answer`: the rule of what the final message must be.
void add_harmony_message(grammar::Grammar& grammar, const MessageRules& rules, CallSyntax& calls,
                         std::optional<grammar::RuleId> answer);

}  // namespace rocmforge::chat
