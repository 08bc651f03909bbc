// Threads that cannot start: every start in turn fails while models are loaded and asked. Each request is answered or
// refused with an error, and the registry serves once threads start again.

#include <gtest/gtest.h>

#include <future>

#include "base/log.h"
#include "engine/registry.h"
#include "support/engine_fixture.h"
#include "support/thread_faults.h"

namespace rocmforge {
namespace {

using namespace std::chrono_literals;
using testing::Collector;
using testing::greedy;
using testing::story_path;
using testing::ThreadFaults;

constexpr int64_t kForEver = 1 << 30;

ModelRegistry::Options two_models() {
  ModelRegistry::Options options;
  for (const char* name : {"a", "b"}) options.models.push_back({.name = name, .path = story_path()});
  options.model.n_threads = 3;
  options.model.device = "cpu";
  options.engine = {.n_kv_tokens = 1024, .max_running = 4, .max_step_tokens = 64};
  options.retry_pause = 1ms;
  return options;
}

Result<ModelHandle> acquire(ModelRegistry& registry, std::string_view name) {
  auto promise = std::make_shared<std::promise<Result<ModelHandle>>>();
  registry.acquire(name, [promise](Result<ModelHandle> result) { promise->set_value(std::move(result)); });
  auto future = promise->get_future();
  if (future.wait_for(60s) != std::future_status::ready) return Error{ErrorCode::cancelled, "no answer"};
  return future.get();
}

// How one request ended: nothing is an answer.
std::optional<Error> ask(ModelRegistry& registry, std::string_view name) {
  const auto model = acquire(registry, name);
  if (!model.ok()) return model.error();
  Collector collector;
  const auto prompt = (*model)->tokenizer().encode("Once upon a time", {.add_bos = true}).value();
  auto sent = (*model)->engine().submit(GenerationRequest{prompt, greedy(), 4}, collector.receiver());
  if (!sent.ok()) return sent.error();
  const FinishEvent end = collector.wait();
  return end.error;
}

TEST(ThreadLimit, EveryStartThatFailsIsAnErrorOrFewerThreads) {
  const LogCapture quiet([](LogLevel, std::string_view) {});
  int n_refused = 0;
  for (const int64_t n_failing : {int64_t{1}, kForEver}) {
    for (int64_t k = 0;; k++) {
      std::unique_ptr<ModelRegistry> registry;
      bool was_reached = false;
      {
        const ThreadFaults faults(k, n_failing);
        auto made = ModelRegistry::create(two_models());
        if (made.ok()) {
          registry = std::move(*made);
          for (const char* name : {"a", "b"}) {
            const auto error = ask(*registry, name);
            if (!error) continue;
            n_refused++;
            EXPECT_EQ(error->code, ErrorCode::no_thread) << "start " << k << ": " << error->message;
            EXPECT_NE(error->message.find("pids.max"), std::string::npos) << error->message;
          }
        } else {
          EXPECT_EQ(made.error().code, ErrorCode::no_thread);
        }
        was_reached = faults.n_failed() > 0;
      }
      if (registry) {
        std::this_thread::sleep_for(5ms);  // the pause after a failed load
        for (const char* name : {"a", "b"}) {
          const auto error = ask(*registry, name);
          EXPECT_FALSE(error) << "start " << k << ", afterwards: " << (error ? error->message : "");
        }
      }
      if (!was_reached) break;
      ASSERT_LT(k, 100) << "two models start fewer threads";
    }
  }
  EXPECT_GT(n_refused, 4);
}

TEST(ThreadLimit, AnEngineWithoutAThreadIsAnError) {
  auto model = Model::open(story_path(), {.device = "cpu", .n_threads = 1});
  ASSERT_TRUE(model.ok());
  const ThreadFaults faults(0, kForEver);
  const auto engine = Engine::create(std::move(*model), {.n_kv_tokens = 512});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, ErrorCode::no_thread);
}

// The driver is opened by the caller then.
TEST(ThreadLimit, AModelOpensItsDeviceWithoutAThread) {
  const LogCapture quiet([](LogLevel, std::string_view) {});
  const ThreadFaults faults(0, kForEver);
  int n_opened = 0;
  const auto open_gpu = [&]() -> Result<std::unique_ptr<Backend>> {
    n_opened++;
    return std::unique_ptr<Backend>();
  };
  const auto model = Model::open(story_path(), {.device = "auto", .n_threads = 2, .open_gpu = open_gpu});
  EXPECT_TRUE(model.ok());
  EXPECT_EQ(n_opened, 1);
}

}  // namespace
}  // namespace rocmforge
