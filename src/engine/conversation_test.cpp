#include "engine/conversation.h"

#include <gtest/gtest.h>

#include "engine/chat_vocabulary.h"
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
    auto loaded = tokenizer::ChatTemplate::load(model_->file().metadata(), chat_vocabulary(*tokenizer_),
                                                {.text = kTemplate, .name = ""});
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    template_.emplace(std::move(*loaded));
    options_.sampling.temperature = 0;
    options_.max_tokens = 12;
    options_.ignore_end_of_text = true;
  }

  Session session(uint32_t n_context = 512) const { return *Session::create(model_->plan(), {.n_context = n_context}); }
  Conversation on(Session& session) const { return {session, *tokenizer_, *template_}; }
  Answer ask(Conversation& conversation, std::string_view text) const {
    auto answer = conversation.ask(text, options_, [](std::string_view) { return true; });
    EXPECT_TRUE(answer.ok()) << answer.error().message;
    return std::move(*answer);
  }

  std::unique_ptr<Model> model_;
  const tokenizer::Tokenizer* tokenizer_ = nullptr;
  std::optional<tokenizer::ChatTemplate> template_;
  GenerateOptions options_;
};

TEST_F(ConversationTest, EvaluatesOnlyWhatIsNewAndAnswersAsIfItHadEvaluatedAll) {
  Session kept = session();
  Conversation conversation = on(kept);
  conversation.set_system("Tell stories.");
  const Answer first = ask(conversation, "A dog ran.");
  EXPECT_EQ(first.n_held, 0u);
  const Answer second = ask(conversation, "And then?");
  // Everything but the end of the first answer, which was chosen and not evaluated, and where its text may be cut into
  // other tokens.
  EXPECT_GE(second.n_held, first.generated.n_prompt_tokens);
  EXPECT_LT(second.generated.n_prompt_tokens, first.generated.n_prompt_tokens + 24);

  Session fresh = session();
  Conversation again = on(fresh);
  again.set_system("Tell stories.");
  ask(again, "A dog ran.");
  fresh.rewind(0);
  const Answer whole = ask(again, "And then?");
  EXPECT_EQ(whole.n_held, 0u);
  EXPECT_EQ(whole.generated.n_prompt_tokens, second.n_held + second.generated.n_prompt_tokens);
  EXPECT_EQ(whole.text, second.text);

  const auto messages = conversation.messages();
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[3].content, "And then?");
  EXPECT_EQ(messages[4].content, second.text);
}

TEST_F(ConversationTest, ResetForgetsWhatWasSaidAndKeepsTheSystemMessage) {
  Session kept = session();
  Conversation conversation = on(kept);
  conversation.set_system("Tell stories.");
  const std::string first = ask(conversation, "A dog ran.").text;
  ask(conversation, "And then?");
  conversation.reset();
  ASSERT_EQ(conversation.messages().size(), 1u);
  const Answer again = ask(conversation, "A dog ran.");
  EXPECT_EQ(again.text, first);
  EXPECT_EQ(again.generated.n_prompt_tokens, 1u) << "the whole prompt is still held; its last token gives the logits";
}

TEST_F(ConversationTest, AnAnswerThatIsStoppedIsKeptAsFarAsItCame) {
  Session kept = session();
  Conversation conversation = on(kept);
  int n_pieces = 0;
  auto answer = conversation.ask("A dog ran.", options_, [&](std::string_view) { return ++n_pieces < 3; });
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->generated.reason, FinishReason::cancelled);
  EXPECT_EQ(conversation.messages().back().content, answer->text);
  EXPECT_FALSE(answer->text.empty());

  options_.should_stop = [] { return true; };
  answer = conversation.ask(std::string(400, 'x'), options_, [&](std::string_view) { return true; });
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->generated.reason, FinishReason::cancelled);
  EXPECT_EQ(conversation.messages().size(), 2u) << "what was not answered was not asked";
  options_.should_stop = {};
  EXPECT_FALSE(ask(conversation, "And then?").text.empty());
}

TEST_F(ConversationTest, AFullContextIsAnErrorThatChangesNothing) {
  Session kept = session(64);
  Conversation conversation = on(kept);
  ask(conversation, "A dog ran.");
  std::string longer;
  for (int i = 0; i < 100; i++) longer += "and ran ";
  const auto answer = conversation.ask(longer, options_, [](std::string_view) { return true; });
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
  Session kept = session(256);
  Conversation conversation = on(kept);
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
  Session kept = *Session::create(model_->plan(), {.n_context = 512, .should_stop = stop});
  Conversation conversation = on(kept);
  options_.should_stop = stop;
  std::string longer;
  for (int i = 0; i < 60; i++) longer += "and ran ";
  const auto answer = conversation.ask(longer, options_, [](std::string_view) { return true; });
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->generated.reason, FinishReason::cancelled);
  EXPECT_TRUE(answer->text.empty());
  EXPECT_TRUE(kept.tokens().empty()) << "the first piece was not finished";
  EXPECT_LT(n_asked, 8u) << "a pass over all layers would have asked more often";
  EXPECT_TRUE(conversation.messages().empty());
}

}  // namespace
}  // namespace rocmforge
