#include "engine/conversation.h"

#include <gtest/gtest.h>

#include "chat/chat_vocabulary.h"
#include "chat/prompt.h"
#include "engine/model.h"
#include "support/support.h"

namespace rocmforge {
namespace {

constexpr const char* kTemplate =
    "{% for m in messages %}<{{ m['role'] }}> {{ m['content'] }}\n{% endfor %}{% if add_generation_prompt %}<assistant>"
    "{% endif %}";

class ConversationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = Model::open(testing::source_path("models/story-q4_k_m.gguf"), {.device = "cpu", .n_threads = 2});
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    model_ = std::move(*opened);
    tokenizer_ = *model_->tokenizer();
    auto loaded = chat::ChatTemplate::load(model_->file().metadata(), chat::chat_vocabulary(*tokenizer_),
                                           {.text = kTemplate, .name = ""});
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    template_.emplace(std::move(*loaded));
    format_ = chat::find_model_format(*template_, *tokenizer_).value();
    options_.sampling.temperature = 0;
    options_.max_tokens = 12;
    options_.ignore_end_of_text = true;
  }

  std::unique_ptr<Generator> generator(uint32_t n_context = 512) const {
    return *Generator::create(model_->plan(), {.n_context = n_context});
  }
  Conversation on(Generator& generator) const { return {generator, *tokenizer_, *template_, *format_}; }
  Answer ask(Conversation& conversation, std::string_view text) const {
    auto answer = conversation.ask(text, options_, [](std::string_view, Conversation::Part) { return true; });
    EXPECT_TRUE(answer.ok()) << answer.error().message;
    return std::move(*answer);
  }

  std::unique_ptr<Model> model_;
  const tokenizer::Tokenizer* tokenizer_ = nullptr;
  std::optional<chat::ChatTemplate> template_;
  std::optional<chat::ModelFormat> format_;
  GenerateOptions options_;
};

TEST_F(ConversationTest, EvaluatesOnlyWhatIsNewAndAnswersAsIfItHadEvaluatedAll) {
  const auto kept = generator();
  Conversation conversation = on(*kept);
  conversation.set_system("Tell stories of dogs and cats and other small animals that live in a house by the sea. " +
                          std::string(200, 'x'));
  const Answer first = ask(conversation, "A dog ran.");
  EXPECT_EQ(first.generated.n_cached, 0u);
  const uint32_t n_known = first.generated.n_prompt_tokens + options_.max_tokens - 1;
  const Answer second = ask(conversation, "And then?");
  // Whole pages stay. The end of the first answer was chosen and not evaluated, and its text may be cut into other
  // tokens.
  EXPECT_GT(second.generated.n_cached + kPageTokens, first.generated.n_prompt_tokens);
  EXPECT_LE(second.generated.n_cached, n_known);
  EXPECT_LT(second.generated.n_prompt_tokens - second.generated.n_cached, 24 + kPageTokens);

  const auto fresh = generator();
  chat::ChatRequest request;
  for (const ChatMessage& m : conversation.messages()) {
    request.messages.push_back(JsonObject{{"role", m.role}, {"content", m.content}});
  }
  request.messages.pop_back();
  const auto prompt = chat::encode_chat(*template_, *format_, *tokenizer_, request).value();
  std::string text;
  const auto from_nothing = fresh->generate(*tokenizer_, prompt, options_, [&](std::string_view piece) {
    text += piece;
    return true;
  });
  ASSERT_TRUE(from_nothing.ok());
  EXPECT_EQ(from_nothing->n_cached, 0u);
  EXPECT_EQ(from_nothing->tokens, second.generated.tokens);

  const auto messages = conversation.messages();
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[3].content, "And then?");
  EXPECT_EQ(messages[4].content, second.text);
}

TEST_F(ConversationTest, ResetForgetsWhatWasSaidAndKeepsTheSystemMessage) {
  const auto kept = generator();
  Conversation conversation = on(*kept);
  conversation.set_system("Tell stories.");
  const std::string first = ask(conversation, "A dog ran.").text;
  ask(conversation, "And then?");
  conversation.reset();
  ASSERT_EQ(conversation.messages().size(), 1u);
  const Answer again = ask(conversation, "A dog ran.");
  EXPECT_EQ(again.text, first);
  EXPECT_EQ(again.generated.n_cached, (again.generated.n_prompt_tokens - 1) / kPageTokens * kPageTokens);
}

TEST_F(ConversationTest, AnAnswerThatIsStoppedIsKeptAsFarAsItCame) {
  const auto kept = generator();
  Conversation conversation = on(*kept);
  int n_pieces = 0;
  auto answer =
      conversation.ask("A dog ran.", options_, [&](std::string_view, Conversation::Part) { return ++n_pieces < 3; });
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->generated.reason, FinishReason::cancelled);
  EXPECT_EQ(conversation.messages().back().content, answer->text);
  EXPECT_FALSE(answer->text.empty());

  options_.should_stop = [] { return true; };
  answer =
      conversation.ask(std::string(400, 'x'), options_, [&](std::string_view, Conversation::Part) { return true; });
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->generated.reason, FinishReason::cancelled);
  EXPECT_EQ(conversation.messages().size(), 2u) << "what was not answered was not asked";
  options_.should_stop = {};
  EXPECT_FALSE(ask(conversation, "And then?").text.empty());
}

TEST_F(ConversationTest, AFullContextIsAnErrorThatChangesNothing) {
  const auto kept = generator(64);
  Conversation conversation = on(*kept);
  ask(conversation, "A dog ran.");
  std::string longer;
  for (int i = 0; i < 100; i++) longer += "and ran ";
  const auto answer = conversation.ask(longer, options_, [](std::string_view, Conversation::Part) { return true; });
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, ErrorCode::limit_exceeded);
  EXPECT_NE(answer.error().message.find("context of 64"), std::string::npos) << answer.error().message;
  EXPECT_EQ(conversation.messages().size(), 2u);

  options_.max_tokens = 1000;
  const Answer last = ask(conversation, "And then?");
  EXPECT_TRUE(last.is_context_full);
  EXPECT_FALSE(last.text.empty());
}

TEST_F(ConversationTest, AnswersLeaveRoomForAnotherQuestion) {
  const auto kept = generator(256);
  Conversation conversation = on(*kept);
  options_.max_tokens = Conversation::kHalfOfTheRest;
  for (int i = 0; i < 3; i++) {
    const Answer answer = ask(conversation, "And then?");
    EXPECT_TRUE(answer.is_cut);
    EXPECT_FALSE(answer.is_context_full);
    EXPECT_FALSE(answer.text.empty());
  }
}

// Ctrl-C was heard after 256 tokens of a prompt: 18 s on two slow cores.
TEST_F(ConversationTest, APassIsStoppedBetweenItsLayers) {
  ASSERT_TRUE(model_->load(LoadMode::eager).ok());
  uint32_t n_asked = 0;
  const auto stop = [&] { return ++n_asked > 4; };
  const auto kept = generator();
  Conversation conversation = on(*kept);
  options_.should_stop = stop;
  std::string longer;
  for (int i = 0; i < 60; i++) longer += "and ran ";
  const auto answer = conversation.ask(longer, options_, [](std::string_view, Conversation::Part) { return true; });
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->generated.reason, FinishReason::cancelled);
  EXPECT_TRUE(answer->text.empty());
  EXPECT_EQ(kept->stats().n_generated_tokens, 0u) << "the first piece was not finished";
  EXPECT_LT(n_asked, 8u) << "a pass over all layers would have asked more often";
  EXPECT_TRUE(conversation.messages().empty());
}

}  // namespace
}  // namespace rocmforge
