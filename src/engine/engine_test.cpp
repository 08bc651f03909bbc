#include "engine/engine.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <future>
#include <random>
#include <thread>
#include <utility>

#include "support/engine_fixture.h"

namespace rocmforge {
namespace {

using testing::Answer;
using testing::Collector;
using testing::greedy;
using testing::Reference;
using testing::story_engine;

TEST(Engine, AnswersLikeASingleGeneration) {
  Reference reference;
  GenerationRequest request{.prompt = reference.encode("Once upon a time"), .sampling = greedy(), .max_tokens = 40};
  const Answer expected = reference.answer(request);
  const auto engine = story_engine();
  Collector collector;
  ASSERT_TRUE(engine->submit(request, collector.receiver()).ok());
  const FinishEvent& finish = collector.wait();
  EXPECT_EQ(collector.tokens(), expected.tokens);
  EXPECT_EQ(collector.text(), expected.text);
  EXPECT_EQ(finish.reason, expected.reason);
  EXPECT_EQ(finish.usage.n_prompt, request.prompt.size());
  EXPECT_EQ(finish.usage.n_generated, 40u);
  EXPECT_GT(finish.usage.prefill_seconds, 0);
}

// Few pages, small steps, prompts that begin alike, arrivals and cancels at any time: nobody notices anybody else.
TEST(Engine, ManyAtOnceAnswerAsIfAlone) {
  auto rng = testing::seeded_rng();
  Reference reference;
  const std::string common =
      "Once upon a time there was a little girl who lived in a house by the sea. Every morning she walked along the "
      "beach and looked for shells. One day she found a small box in the sand. It was made of dark wood and it was "
      "very old. She wanted to know what was inside, but the box was locked and there was no key. ";
  const std::vector<std::string> beginnings = {common, common + "She asked her mother", "The dog", "Tom and Anna", ""};
  std::vector<GenerationRequest> requests;
  std::vector<Answer> expected;
  for (int i = 0; i < (testing::kSanitized ? 12 : 32); i++) {
    GenerationRequest request;
    request.prompt = reference.encode(beginnings[rng() % beginnings.size()] + fmt::format(" {}", rng() % 4));
    request.max_tokens = 1 + static_cast<uint32_t>(rng() % 150);
    request.ignore_end_of_text = rng() % 2 == 0;
    if (i < 6) {  // that all at once grow beyond the pages there are
      request.prompt = reference.encode(fmt::format("The dog {}", i));
      request.max_tokens = 150;
      request.ignore_end_of_text = true;
    }
    if (rng() % 3 != 0) {
      request.sampling = greedy();
    } else {
      request.sampling.seed = rng();
      request.sampling.repetition_penalty = 1.1f;
    }
    if (i >= 6 && rng() % 4 == 0) request.stop = {" the "};
    request.cache_salt = rng() % 4 == 0 ? "other" : "";
    expected.push_back(reference.answer(request));
    requests.push_back(std::move(request));
  }
  const auto engine =
      story_engine({.n_kv_tokens = 7 * kPageTokens, .max_running = 6, .max_step_tokens = 40, .max_queued = 64});
  std::vector<Collector> collectors(requests.size());
  std::vector<RequestId> ids;
  std::vector<bool> cancelled(requests.size(), false);
  for (size_t i = 0; i < requests.size(); i++) {
    ids.push_back(engine->submit(requests[i], collectors[i].receiver()).value());
    if (i >= 6 && rng() % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(rng() % 20));
    if (i >= 6 && rng() % 5 == 0) {
      const size_t which = 3 + rng() % (i - 2);
      cancelled[which] = true;
      engine->cancel(ids[which]);
    }
  }
  for (size_t i = 0; i < requests.size(); i++) {
    SCOPED_TRACE(i);
    const FinishEvent& finish = collectors[i].wait();
    const auto& tokens = collectors[i].tokens();
    if (cancelled[i] && finish.reason == FinishReason::cancelled) {
      ASSERT_LE(tokens.size(), expected[i].tokens.size());
      EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), expected[i].tokens.begin()));
      continue;
    }
    EXPECT_EQ(tokens, expected[i].tokens);
    EXPECT_EQ(collectors[i].text(), expected[i].text);
    EXPECT_EQ(finish.reason, expected[i].reason);
  }
  while (!engine->is_idle()) std::this_thread::yield();
  const EngineStats stats = engine->stats();
  EXPECT_GT(stats.n_preemptions, 0u) << "too easy";
  EXPECT_GT(stats.n_prefix_hits, 0u) << "too easy";
  EXPECT_EQ(stats.n_pages_used, 0u);
  EXPECT_EQ(stats.n_finished + stats.n_cancelled, requests.size());
}

TEST(Engine, FindsTheBeginningOfAConversationComputed) {
  Reference reference;
  const auto engine = story_engine();
  std::string text = "The king";
  for (int i = 0; i < 40; i++) text += " saw the old tree";
  GenerationRequest request{.prompt = reference.encode(text), .sampling = greedy(), .max_tokens = 4};
  const auto n_prompt = static_cast<uint32_t>(request.prompt.size());
  ASSERT_GT(n_prompt, 65u);
  const auto cached = [&](std::string salt) {
    Collector collector;
    request.cache_salt = std::move(salt);
    EXPECT_TRUE(engine->submit(request, collector.receiver()).ok());
    return collector.wait().usage.n_cached;
  };
  EXPECT_EQ(cached(""), 0u);
  EXPECT_EQ(cached(""), (n_prompt - 1) / kPageTokens * kPageTokens);
  EXPECT_EQ(cached("another user"), 0u);
}

TEST(Engine, CutsTheTextBeforeAStopString) {
  Reference reference;
  GenerationRequest request{.prompt = reference.encode("Once upon a time"), .sampling = greedy(), .max_tokens = 60};
  const std::string whole = reference.answer(request).text;
  ASSERT_GT(whole.size(), 40u);
  request.stop = {"never said", whole.substr(21, 9)};  // begins and ends inside tokens
  const auto engine = story_engine();
  Collector collector;
  ASSERT_TRUE(engine->submit(request, collector.receiver()).ok());
  EXPECT_EQ(collector.wait().reason, FinishReason::stop);
  EXPECT_EQ(collector.text(), whole.substr(0, whole.find(request.stop[1])));
}

TEST(Engine, TellsHowLikelyItsTokensWere) {
  Reference reference;
  GenerationRequest request{.prompt = reference.encode("Once upon a time"), .sampling = greedy(), .max_tokens = 5};
  request.sampling.want_logprobs = true;
  request.sampling.n_logprobs = 3;
  const auto engine = story_engine();
  Collector collector;
  ASSERT_TRUE(engine->submit(request, collector.receiver()).ok());
  collector.wait();
  ASSERT_EQ(collector.logprobs().size(), 5u);
  for (size_t i = 0; i < 5; i++) {
    const auto& logprobs = collector.logprobs()[i];
    ASSERT_TRUE(logprobs);
    ASSERT_EQ(logprobs->top.size(), 3u);
    EXPECT_EQ(logprobs->top[0].token, collector.tokens()[i]) << "greedy takes the most likely";
    EXPECT_EQ(logprobs->top[0].logprob, logprobs->logprob);
    EXPECT_LE(logprobs->logprob, 0);
  }
}

TEST(Engine, EmbeddingsAreTheSameInAnyChunksAndOfLengthOne) {
  Reference reference;
  const auto tokens = reference.encode("The sun was warm and the children played in the garden until it was dark.");
  for (const Pooling pooling : {Pooling::mean, Pooling::last}) {
    std::vector<std::vector<float>> embeddings;
    for (const uint32_t max_step_tokens : {512u, 5u}) {
      const auto engine = story_engine({.max_running = 2, .max_step_tokens = max_step_tokens});
      Collector collector, other;
      ASSERT_TRUE(engine->submit(GenerationRequest{tokens, greedy(), 20u}, other.receiver()).ok());
      ASSERT_TRUE(engine->submit(EmbeddingRequest{tokens, pooling}, collector.receiver()).ok());
      const FinishEvent& finish = collector.wait();
      EXPECT_EQ(finish.reason, FinishReason::stop);
      embeddings.push_back(finish.embedding);
      double squares = 0;
      for (const float value : finish.embedding) squares += double{value} * value;
      EXPECT_NEAR(squares, 1, 1e-5);
      EXPECT_EQ(finish.embedding.size(), engine->model().plan().spec().width);
      EXPECT_EQ(other.wait().reason, FinishReason::length);
    }
    EXPECT_EQ(embeddings[0], embeddings[1]);
  }
}

TEST(Engine, RefusesWhatItCannotDoAndSaysWhy) {
  const auto engine = story_engine({.max_queued = 1});
  const auto n_vocab = static_cast<int32_t>(engine->model().plan().spec().n_vocab);
  const auto code = [&](GenerationRequest request) {
    const auto id = engine->submit(std::move(request), [](RequestEvent&&) { ADD_FAILURE() << "an event"; });
    return id.ok() ? std::optional<ErrorCode>() : id.error().code;
  };
  const std::vector<TokenId> prompt(10, TokenId(5));
  EXPECT_EQ(code({.prompt = {}, .sampling = greedy()}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.prompt = {TokenId(-1)}, .sampling = greedy()}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.prompt = {TokenId(n_vocab)}, .sampling = greedy()}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.prompt = std::vector<TokenId>(engine->n_context(), TokenId(5)), .sampling = greedy()}),
            ErrorCode::limit_exceeded);
  EXPECT_EQ(code({.prompt = prompt, .sampling = greedy(), .max_tokens = engine->n_context() - 9}),
            ErrorCode::limit_exceeded);
  EXPECT_EQ(code({.prompt = prompt, .sampling = greedy(), .max_tokens = 0xFFFFFFFFu}), ErrorCode::limit_exceeded);
  GenerationRequest hot{.prompt = prompt, .sampling = {}};
  hot.sampling.temperature = NAN;
  EXPECT_EQ(code(hot), ErrorCode::invalid_argument);
  engine->begin_drain();
  EXPECT_EQ(code({.prompt = prompt, .sampling = greedy()}), ErrorCode::draining);
  EXPECT_TRUE(engine->is_idle());
  engine->cancel(RequestId(77));
}

TEST(Engine, AFullQueueRefusesAndEmptiesAgain) {
  const auto engine = story_engine({.max_running = 1, .max_queued = 2});
  std::vector<Collector> collectors(50);
  std::vector<std::optional<RequestId>> ids;
  size_t n_full = 0;
  for (Collector& collector : collectors) {
    const auto id = engine->submit(GenerationRequest{{TokenId(1)}, greedy(), 200, {}, true}, collector.receiver());
    if (!id.ok()) {
      EXPECT_EQ(id.error().code, ErrorCode::queue_full);
      n_full++;
    }
    ids.push_back(id.ok() ? std::optional(*id) : std::nullopt);
  }
  EXPECT_GE(n_full, 40u);
  EXPECT_EQ(engine->stats().n_refused, n_full);
  for (size_t i = 0; i < ids.size(); i++) {
    if (!ids[i]) continue;
    engine->cancel(*ids[i]);
    EXPECT_EQ(collectors[i].wait().reason, FinishReason::cancelled);
  }
  Collector last;
  while (!engine->is_idle()) std::this_thread::yield();
  ASSERT_TRUE(engine->submit(GenerationRequest{{TokenId(1)}, greedy(), 0u}, last.receiver()).ok());
  EXPECT_EQ(last.wait().reason, FinishReason::length) << "nothing was asked for";
}

TEST(Engine, AClientWithAKeyLeavesRoomInTheQueueForOthers) {
  const auto engine = story_engine({.max_running = 1, .max_queued = 12});
  // A first request holds the engine's thread, so that all others wait.
  std::promise<void> has_begun, may_end;
  bool is_first = true;
  const auto hold = [&](RequestEvent&&) {
    if (!std::exchange(is_first, false)) return;
    has_begun.set_value();
    may_end.get_future().wait();
  };
  ASSERT_TRUE(engine->submit(GenerationRequest{{TokenId(1)}, greedy(), 1}, hold).ok());
  has_begun.get_future().wait();
  std::vector<Collector> collectors;
  const auto fill = [&](uint64_t client) {
    for (size_t n = 0;; n++) {
      Collector collector;
      GenerationRequest request{{TokenId(1)}, greedy(), 1};
      request.client = ClientId(client);
      const auto id = engine->submit(request, collector.receiver());
      if (!id.ok()) {
        EXPECT_EQ(id.error().code, ErrorCode::queue_full);
        return n;
      }
      collectors.push_back(collector);
    }
  };
  EXPECT_EQ(fill(1), 6u) << "half of the queue";
  EXPECT_EQ(fill(1), 0u);
  EXPECT_EQ(fill(2), 3u) << "no more than there are free places then";
  EXPECT_EQ(fill(3), 2u);
  EXPECT_EQ(fill(0), 1u) << "requests without a key may take the rest";
  may_end.set_value();
  for (const Collector& collector : collectors) EXPECT_EQ(collector.wait().reason, FinishReason::length);
}

TEST(Engine, StoppingEndsEveryRequestOnce) {
  std::vector<Collector> collectors(12);
  {
    const auto engine = story_engine({.max_running = 4});
    for (Collector& collector : collectors) {
      ASSERT_TRUE(engine->submit(GenerationRequest{{TokenId(1)}, greedy(), 400, {}, true}, collector.receiver()).ok());
    }
    collectors[0].wait_for_tokens(3);
    engine->stop({ErrorCode::draining, "engine: going down"});
    for (const Collector& collector : collectors) ASSERT_TRUE(collector.is_finished());
    EXPECT_EQ(engine->submit(GenerationRequest{{TokenId(1)}, greedy(), 4}, collectors[0].receiver()).error().code,
              ErrorCode::draining);
  }
  for (const Collector& collector : collectors) EXPECT_EQ(collector.wait().error->message, "engine: going down");
}

TEST(Engine, TakesRequestsAndCancelsFromManyThreads) {
  Reference reference;
  GenerationRequest request{.prompt = reference.encode("The cat"), .sampling = greedy(), .max_tokens = 12};
  const Answer expected = reference.answer(request);
  const auto engine = story_engine({.max_running = 8});
  std::atomic<int> n_right = 0, n_cancelled = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; t++) {
    threads.emplace_back([&, t] {
      std::mt19937 rng(static_cast<unsigned>(t));
      for (int i = 0; i < 8; i++) {
        Collector collector;
        const RequestId id = engine->submit(request, collector.receiver()).value();
        if (rng() % 4 == 0) {
          std::this_thread::sleep_for(std::chrono::microseconds(rng() % 3000));
          engine->cancel(id);
        }
        static_cast<void>(engine->stats());
        const FinishReason reason = collector.wait().reason;
        n_cancelled += reason == FinishReason::cancelled;
        n_right += reason == expected.reason && collector.tokens() == expected.tokens;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_right + n_cancelled, 48);
  EXPECT_GT(n_right, 20);
}

// The disk fails while the weights come in: who waited for them is told, the next request finds them.
TEST(Engine, AFailedReadEndsTheRequestsOfThatStepOnly) {
  std::atomic<bool> is_failing = false;
  FileCalls calls;
  calls.pread = [&](int fd, void* to, size_t n_bytes, off_t offset) -> ssize_t {
    if (is_failing) {
      errno = EIO;
      return -1;
    }
    return ::pread(fd, to, n_bytes, offset);
  };
  Reference reference;
  GenerationRequest request{.prompt = reference.encode("Once upon a time"), .sampling = greedy(), .max_tokens = 10};
  const Answer expected = reference.answer(request);
  const auto engine = story_engine({}, {.calls = &calls});
  is_failing = true;
  Collector first, second;
  ASSERT_TRUE(engine->submit(request, first.receiver()).ok());
  const FinishEvent& failed = first.wait();
  EXPECT_EQ(failed.reason, FinishReason::error);
  ASSERT_TRUE(failed.error);
  EXPECT_EQ(failed.error->code, ErrorCode::file_read) << failed.error->message;
  is_failing = false;
  ASSERT_TRUE(engine->submit(request, second.receiver()).ok());
  EXPECT_EQ(second.wait().reason, expected.reason);
  EXPECT_EQ(second.tokens(), expected.tokens);
  EXPECT_EQ(engine->stats().n_failed, 1u);
}

}  // namespace
}  // namespace rocmforge
