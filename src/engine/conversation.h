#pragma once
// A conversation on one generator. Each turn renders the whole conversation with the model's template; pages that the
// generator has already computed are reused.
//
// Threads: one at a time.

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "chat/chat_template.h"
#include "chat/model_format.h"
#include "engine/generator.h"
#include "grammar/vocabulary_constraints.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

struct ChatMessage {
  std::string role;  // system, user, assistant
  std::string content;
  std::string reasoning = {};  // the model's reasoning before the content
};

struct Answer {
  std::string text, reasoning;
  Generated generated;
  bool is_context_full = false;
  bool is_cut = false;  // ended to leave room for a next question
};

class Conversation {
 public:
  // All must outlive the conversation.
  Conversation(Generator& generator, const tokenizer::Tokenizer& tokenizer, const chat::ChatTemplate& chat_template,
               const chat::ModelFormat& format)
      : generator_(generator), tokenizer_(tokenizer), template_(chat_template), format_(format) {}

  // Used from the next turn on; empty: no system message. The messages stay.
  void set_system(std::string text) { system_ = std::move(text); }
  // From the next turn on, what is said after reasoning is a text of `answer`. `constraints` must outlive this.
  void constrain(grammar::VocabularyConstraints& constraints, grammar::Source answer) {
    constraints_ = &constraints;
    answer_ = std::move(answer);
  }
  // Forgets the messages; the system message stays.
  void reset() { turns_.clear(); }

  std::vector<ChatMessage> messages() const;

  // Value of max_tokens: an answer may use half of the context's free positions, so that a next question fits.
  static constexpr uint32_t kHalfOfTheRest = 0;

  enum class Part : uint8_t { content, reasoning };
  // Receives the answer's text as it is generated; false ends the answer.
  using PartReceiver = std::function<bool(std::string_view text, Part part)>;

  // One turn. options.max_tokens may be kHalfOfTheRest; options.constraint is not used. An answer that
  // `receive` or `should_stop` ended is kept up to there; after an error the conversation is unchanged.
  // limit_exceeded: the conversation has no room in the context.
  Result<Answer> ask(std::string_view text, const GenerateOptions& options, const PartReceiver& receive);

 private:
  chat::ChatRequest request() const;
  Result<Answer> answer(const GenerateOptions& options, const PartReceiver& receive);

  Generator& generator_;
  const tokenizer::Tokenizer& tokenizer_;
  const chat::ChatTemplate& template_;
  const chat::ModelFormat& format_;
  std::string system_;
  std::vector<ChatMessage> turns_;
  grammar::VocabularyConstraints* constraints_ = nullptr;  // null: answers are free
  grammar::Source answer_;
};

}  // namespace rocmforge
