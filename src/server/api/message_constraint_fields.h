#pragma once
// What an answer in a conversation is held to: calls of its tools, the text that is asked for, and the length of its
// reasoning.

#include <optional>

#include "chat/message_parser.h"
#include "server/api/constraint_fields.h"
#include "server/api/tools.h"

namespace rocmforge::server {

// thinking_budget_tokens; or reasoning_effort, where the model's template does not know it.
std::optional<uint32_t> read_thinking_budget(Fields& fields, const ServedModel& model);

struct AskedMessage {
  std::optional<AskedConstraint> answer;
  std::optional<uint32_t> max_thinking_tokens;
  bool may_think = true;
};

// Refuses in `fields` what cannot be enforced. Of a tool that is not strict its arguments may be left out: `tools`
// names it among what is ignored. Nothing: the answer is free.
std::optional<ConstraintChoice> constrain_answer(Fields& fields, const ServedModel& model, const AskedMessage& asked,
                                                 const chat::ParserOptions& parser, ToolRequest& tools);

}  // namespace rocmforge::server
