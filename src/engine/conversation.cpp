#include "engine/conversation.h"

#include <fmt/core.h>

#include <algorithm>

namespace rocmforge {

std::vector<ChatMessage> Conversation::messages() const {
  std::vector<ChatMessage> all;
  if (!system_.empty()) all.push_back({"system", system_});
  all.insert(all.end(), turns_.begin(), turns_.end());
  return all;
}

Result<std::vector<TokenId>> Conversation::prompt() const {
  tokenizer::ChatRequest request;
  for (const ChatMessage& m : messages()) {
    request.messages.push_back(JsonObject{{"role", m.role}, {"content", m.content}});
  }
  return tokenizer_.encode(TRY(template_.render(request)), {.parse_special = true, .add_bos = true});
}

Result<Answer> Conversation::answer(const GenerateOptions& options, const TextReceiver& receive) {
  const std::vector<TokenId> tokens = TRY(prompt());
  if (tokens.empty()) return Error{ErrorCode::invalid_argument, "chat: the template made nothing of the conversation"};
  // The last token's row of logits begins the answer, so at least that one is evaluated.
  if (tokens.size() >= session_.n_context()) {
    return Error{ErrorCode::limit_exceeded,
                 fmt::format("chat: the conversation of {} tokens leaves no room for an answer "
                             "in the context of {}",
                             tokens.size(), session_.n_context())};
  }
  GenerateOptions limited = options;
  if (options.max_tokens == kHalfOfTheRest) {
    limited.max_tokens = std::max<uint32_t>(1, (session_.n_context() - static_cast<uint32_t>(tokens.size())) / 2);
  }
  const auto held = session_.tokens();
  const auto differ = std::mismatch(held.begin(), held.end(), tokens.begin(), tokens.end() - 1).first;
  Answer answer;
  answer.n_held = static_cast<uint32_t>(differ - held.begin());
  session_.rewind(answer.n_held);
  const auto keep = [&](std::string_view piece) {
    answer.text += piece;
    return receive(piece);
  };
  answer.generated = TRY(generate(session_, tokenizer_, std::span(tokens).subspan(answer.n_held), limited, keep));
  answer.is_context_full =
      answer.generated.reason == FinishReason::length && answer.generated.tokens.size() < limited.max_tokens;
  answer.is_cut = options.max_tokens == kHalfOfTheRest && answer.generated.tokens.size() == limited.max_tokens;
  return answer;
}

Result<Answer> Conversation::ask(std::string_view text, const GenerateOptions& options, const TextReceiver& receive) {
  turns_.push_back({"user", std::string(text)});
  Result<Answer> answered = answer(options, receive);
  const bool is_unanswered =
      !answered.ok() || (answered->text.empty() && answered->generated.reason == FinishReason::cancelled);
  if (!is_unanswered) {
    turns_.push_back({"assistant", answered->text});
  } else {
    turns_.pop_back();
  }
  return answered;
}

}  // namespace rocmforge
