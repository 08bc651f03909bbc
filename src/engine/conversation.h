#pragma once
// Turns of a conversation on one session. Each turn renders the whole conversation with the model's template; tokens
// that the session holds already, from the beginning on, are not evaluated again.
//
// Threads: one at a time.

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/generate.h"
#include "engine/session.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

struct ChatMessage {
  std::string role;  // system, user, assistant
  std::string content;
};

struct Answer {
  std::string text;
  Generated generated;
  uint32_t n_held = 0;  // tokens of the prompt that were not evaluated again
  bool is_context_full = false;
  bool is_cut = false;  // ended to keep room for a next question
};

class Conversation {
 public:
  // All three must outlive the conversation.
  Conversation(Session& session, const tokenizer::Tokenizer& tokenizer, const tokenizer::ChatTemplate& chat_template)
      : session_(session), tokenizer_(tokenizer), template_(chat_template) {}

  // From the next turn on; empty: none. What was said stays.
  void set_system(std::string text) { system_ = std::move(text); }
  // Forgets what was said; the system message stays.
  void reset() { turns_.clear(); }

  std::vector<ChatMessage> messages() const;

  // At most this many tokens of an answer: half of what the context has left, so that there is room for a next
  // question.
  static constexpr uint32_t kHalfOfTheRest = 0;

  // One turn. options.max_tokens may be kHalfOfTheRest. An answer that `receive` or `should_stop` ended is kept as far
  // as it came; after an error the conversation is as it was. limit_exceeded: the conversation has no room in the
  // context.
  Result<Answer> ask(std::string_view text, const GenerateOptions& options, const TextReceiver& receive);

 private:
  Result<std::vector<TokenId>> prompt() const;
  Result<Answer> answer(const GenerateOptions& options, const TextReceiver& receive);

  Session& session_;
  const tokenizer::Tokenizer& tokenizer_;
  const tokenizer::ChatTemplate& template_;
  std::string system_;
  std::vector<ChatMessage> turns_;
};

}  // namespace rocmforge
