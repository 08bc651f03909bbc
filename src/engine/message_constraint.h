#pragma once
// The constraint of an answer in a conversation (chat/message_grammar.h), for one model.

#include <optional>
#include <utility>
#include <vector>

#include "chat/message_grammar.h"
#include "chat/model_format.h"
#include "chat/pattern.h"
#include "engine/token_constraint.h"
#include "grammar/vocabulary_constraints.h"

namespace rocmforge {

struct MessageConstraint {
  ConstraintChoice choice;
  std::vector<grammar::Unenforced> unenforced = {};
};

// Null if the format has no reasoning, or the answer none.
inline Result<std::shared_ptr<const ThinkingBudget>> thinking_budget(const tokenizer::Tokenizer& tokenizer,
                                                                     const chat::MessageRules& rules,
                                                                     uint32_t max_tokens) {
  ThinkingBudget out{.max_tokens = max_tokens};
  std::string_view closing;
  const chat::ToolFormat& format = *rules.format;
  const auto marked = [&](std::string_view text) { return chat::mark_controls(text, rules.tokens.control); };
  if (format.is_harmony) {
    closing = "<|end|>";
    out.open = {marked("<|channel|>analysis<|message|>")};
    out.close = {marked(closing)};
  } else {
    for (const std::string_view one : format.reasoning_open) out.open.push_back(marked(one));
    for (const std::string_view one : format.reasoning_close) out.close.push_back(marked(one));
    if (!format.reasoning_close.empty()) closing = format.reasoning_close[0];
  }
  if (rules.reasoning == chat::ReasoningStart::none || closing.empty()) {
    return std::shared_ptr<const ThinkingBudget>();
  }
  out.is_inside = rules.reasoning == chat::ReasoningStart::inside;
  out.closing = TRY(tokenizer.encode(closing, {.parse_special = true}));
  if (out.closing.empty()) return std::shared_ptr<const ThinkingBudget>();
  return std::make_shared<const ThinkingBudget>(std::move(out));
}

// `rules` without their format and tokens, which are the model's. Errors: those of chat::compile_message().
inline Result<MessageConstraint> constrain_message(grammar::VocabularyConstraints& constraints,
                                                   const tokenizer::Tokenizer& tokenizer,
                                                   const chat::ModelFormat& format, chat::MessageRules rules,
                                                   std::optional<uint32_t> max_thinking_tokens = {}) {
  rules.format = format.format;
  rules.tokens.control = format.control;
  for (const TokenId id : tokenizer.vocabulary().end_of_text) {
    rules.tokens.end_of_text.emplace_back(tokenizer.token_text(id));
  }
  const auto find_token = [&](std::string_view name) { return constraints.find_token(name); };
  const auto make = [&] { return chat::compile_message(rules, find_token); };
  const grammar::Compiled compiled = TRY(constraints.compile(chat::cache_key(rules), make));
  MessageConstraint out{{compiled.constraint, constraints.vocabulary_with_controls(*format.markers)},
                        compiled.unenforced};
  if (max_thinking_tokens) out.choice.thinking = TRY(thinking_budget(tokenizer, rules, *max_thinking_tokens));
  return out;
}

}  // namespace rocmforge
