#pragma once
// What tests of the engine share: the bundled model, answers of single requests, and a collector of events. Header
// only: for tests of rooms above plan.

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/model.h"
#include "engine/session.h"
#include "support/sanitized.h"
#include "support/support.h"
#include "tokenizer/stream_decoder.h"

namespace rocmforge::testing {

inline std::string story_path() {
  return source_path("models/story-q4_k_m.gguf");
}

inline std::unique_ptr<Model> open_story(const ModelOptions& options = {}) {
  auto model = Model::open(story_path(), options);
  EXPECT_TRUE(model.ok()) << model.error().message;
  return std::move(*model);
}

inline std::unique_ptr<Engine> story_engine(const EngineOptions& options = {}, const ModelOptions& model = {}) {
  auto engine = Engine::create(open_story(model), options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(*engine);
}

inline SamplingOptions greedy() {
  SamplingOptions options;
  options.temperature = 0;
  return options;
}

// The events of one request, in order; the order itself is checked.
class Collector {
 public:
  EventReceiver receiver() {
    return [state = state_](RequestEvent&& event) {
      const std::lock_guard lock(state->mutex);
      EXPECT_FALSE(state->finish.has_value()) << "an event after the last";
      if (std::holds_alternative<StartEvent>(event)) {
        EXPECT_FALSE(state->started);
        state->started = true;
      } else if (auto* token = std::get_if<TokenEvent>(&event)) {
        EXPECT_TRUE(state->started);
        state->tokens.push_back(token->token);
        state->text += token->text;
        state->logprobs.push_back(std::move(token->logprobs));
      } else {
        state->finish = std::move(std::get<FinishEvent>(event));
        state->text += state->finish->text;
      }
      state->changed.notify_all();
    };
  }

  // Fails the test when the end does not come.
  const FinishEvent& wait() const {
    std::unique_lock lock(state_->mutex);
    EXPECT_TRUE(state_->changed.wait_for(lock, std::chrono::seconds(60), [&] { return state_->finish.has_value(); }));
    if (!state_->finish) state_->finish = FinishEvent{};
    return *state_->finish;
  }
  bool wait_for_tokens(size_t n) const {
    std::unique_lock lock(state_->mutex);
    return state_->changed.wait_for(lock, std::chrono::seconds(60),
                                    [&] { return state_->tokens.size() >= n || state_->finish.has_value(); });
  }
  bool is_finished() const {
    const std::lock_guard lock(state_->mutex);
    return state_->finish.has_value();
  }
  // After wait().
  const std::vector<TokenId>& tokens() const { return state_->tokens; }
  const std::string& text() const { return state_->text; }
  const std::vector<std::optional<TokenLogprobs>>& logprobs() const { return state_->logprobs; }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool started = false;
    std::vector<TokenId> tokens;
    std::string text;
    std::vector<std::optional<TokenLogprobs>> logprobs;
    std::optional<FinishEvent> finish;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// The answer to one request alone, by the simple way.
struct Answer {
  std::vector<TokenId> tokens = {};
  std::string text = {};
  FinishReason reason = FinishReason::stop;
};

class Reference {
 public:
  explicit Reference(std::unique_ptr<Model> model = open_story()) : model_(std::move(model)) {}
  const tokenizer::Tokenizer& tokenizer() { return **model_->tokenizer(); }

  std::vector<TokenId> encode(std::string_view text) {
    return tokenizer().encode(text, {.parse_special = false, .add_bos = true}).value();
  }

  // By the definition: a pass for each token, and the sampler over its whole row. Nothing of the engine takes part.
  Answer answer(const GenerationRequest& request) {
    auto session = Session::create(model_->plan(), {}).value();
    Answer answer{.reason = FinishReason::length};
    tokenizer::StreamDecoder decoder(tokenizer(), {.stop = request.stop, .show_special = request.ignore_end_of_text});
    std::vector<TokenId> all = request.prompt;
    for (std::span<const TokenId> next = request.prompt;; next = std::span(all).last(1)) {
      const auto logits = session.evaluate(next);
      EXPECT_TRUE(logits.ok()) << logits.error().message;
      const double unit = random_unit(request.sampling.seed, answer.tokens.size());
      const TokenId token = sample_whole_row(*logits, request.sampling, all, unit)->token;
      if (!request.ignore_end_of_text && tokenizer().is_end_of_text(token)) {
        answer.reason = FinishReason::stop;
        break;
      }
      all.push_back(token);
      answer.tokens.push_back(token);
      const auto output = decoder.push(token);
      answer.text += output.text;
      if (output.stopped) answer.reason = FinishReason::stop;
      if (output.stopped || answer.tokens.size() == request.max_tokens.value_or(1000) ||
          all.size() == session.n_context()) {
        break;
      }
    }
    answer.text += decoder.finish().text;
    return answer;
  }

 private:
  std::unique_ptr<Model> model_;
};

}  // namespace rocmforge::testing
