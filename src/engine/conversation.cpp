#include "engine/conversation.h"

#include <fmt/core.h>

#include <algorithm>

#include "chat/message_parser.h"
#include "chat/prompt.h"
#include "engine/message_constraint.h"

namespace rocmforge {

std::vector<ChatMessage> Conversation::messages() const {
  std::vector<ChatMessage> all;
  if (!system_.empty()) all.push_back({"system", system_});
  all.insert(all.end(), turns_.begin(), turns_.end());
  return all;
}

chat::ChatRequest Conversation::request() const {
  chat::ChatRequest request;
  for (const ChatMessage& m : messages()) {
    JsonObject message{{"role", m.role}, {"content", m.content}};
    if (!m.reasoning.empty()) message.emplace_back("reasoning_content", m.reasoning);
    request.messages.push_back(std::move(message));
  }
  return request;
}

Result<Answer> Conversation::answer(const GenerateOptions& options, const PartReceiver& receive) {
  chat::ParserOptions parts{.format = format_.format, .control = format_.control, .reads_calls = false};
  const std::vector<TokenId> prompt =
      TRY(chat::encode_chat(template_, format_, tokenizer_, request(), &parts.prompt_tail));
  if (prompt.empty()) return Error{ErrorCode::invalid_argument, "chat: the template made nothing of the conversation"};
  // The last token's row of logits begins the answer, so at least that one is evaluated.
  if (prompt.size() >= generator_.n_context()) {
    return Error{ErrorCode::limit_exceeded,
                 fmt::format("chat: the conversation of {} tokens leaves no room for an answer "
                             "in the context of {}",
                             prompt.size(), generator_.n_context())};
  }
  GenerateOptions limited = options;
  if (options.max_tokens == kHalfOfTheRest) {
    limited.max_tokens = std::max<uint32_t>(1, (generator_.n_context() - static_cast<uint32_t>(prompt.size())) / 2);
  }
  limited.marked_tokens = format_.markers;
  limited.constraint = {};
  if (constraints_) {
    const chat::MessageRules rules{.reasoning = chat::reasoning_start(parts), .answer = answer_};
    limited.constraint = TRY(constrain_message(*constraints_, tokenizer_, format_, rules)).choice;
  }

  Answer answer;
  chat::MessageParser parser(parts);
  bool is_wanted = true;
  const auto keep = [&](const std::vector<chat::MessageEvent>& events) {
    for (const chat::MessageEvent& event : events) {
      if (!is_wanted) break;
      const bool is_reasoning = event.kind == chat::MessageEvent::Kind::reasoning;
      (is_reasoning ? answer.reasoning : answer.text) += event.text;
      is_wanted = receive(event.text, is_reasoning ? Part::reasoning : Part::content);
    }
    return is_wanted;
  };
  answer.generated = TRY(
      generator_.generate(tokenizer_, prompt, limited, [&](std::string_view text) { return keep(parser.push(text)); }));
  keep(parser.finish());
  answer.is_context_full =
      answer.generated.reason == FinishReason::length && answer.generated.tokens.size() < limited.max_tokens;
  answer.is_cut = options.max_tokens == kHalfOfTheRest && answer.generated.tokens.size() == limited.max_tokens;
  return answer;
}

Result<Answer> Conversation::ask(std::string_view text, const GenerateOptions& options, const PartReceiver& receive) {
  turns_.push_back({"user", std::string(text)});
  Result<Answer> answered = answer(options, receive);
  const bool is_unanswered = !answered.ok() || (answered->text.empty() && answered->reasoning.empty() &&
                                                answered->generated.reason == FinishReason::cancelled);
  if (!is_unanswered) {
    turns_.push_back({"assistant", answered->text, answered->reasoning});
  } else {
    turns_.pop_back();
  }
  return answered;
}

}  // namespace rocmforge
