#include "engine/registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <thread>

#include "support/engine_fixture.h"

namespace rocmforge {
namespace {

using namespace std::chrono_literals;
using testing::Collector;
using testing::greedy;
using testing::story_path;

EngineOptions small_engine() {
  return {.n_kv_tokens = 1024, .max_running = 4, .max_step_tokens = 64};
}

ModelRegistry::Options options_for(std::vector<std::string> names) {
  ModelRegistry::Options options;
  for (std::string& name : names) options.models.push_back({.name = std::move(name), .path = story_path()});
  options.model.n_threads = 1;
  options.engine = small_engine();
  return options;
}

std::unique_ptr<ModelRegistry> make(ModelRegistry::Options options) {
  auto registry = ModelRegistry::create(std::move(options));
  EXPECT_TRUE(registry.ok()) << registry.error().message;
  return std::move(*registry);
}

// Waits for the answer; the test fails when none comes.
Result<ModelHandle> acquire(ModelRegistry& registry, std::string_view name) {
  auto promise = std::make_shared<std::promise<Result<ModelHandle>>>();
  registry.acquire(name, [promise](Result<ModelHandle> result) { promise->set_value(std::move(result)); });
  auto future = promise->get_future();
  if (future.wait_for(60s) != std::future_status::ready) {
    ADD_FAILURE() << "no answer";
    return Error{ErrorCode::cancelled, "no answer"};
  }
  return future.get();
}

ModelState state_of(const ModelRegistry& registry, std::string_view name) {
  for (const ModelEntry& entry : registry.list()) {
    if (entry.name == name) return entry.state;
  }
  ADD_FAILURE() << "no entry " << name;
  return ModelState::failed;
}

bool wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 6000; i++) {
    if (condition()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

std::string answer(const ReadyModel& model) {
  Collector collector;
  const auto prompt = model.tokenizer().encode("Once upon a time", {.add_bos = true}).value();
  EXPECT_TRUE(model.engine().submit(GenerationRequest{prompt, greedy(), 8}, collector.receiver()).ok());
  EXPECT_EQ(collector.wait().reason, FinishReason::length);
  return collector.text();
}

uint64_t bill_of_one() {
  return testing::story_engine(small_engine())->memory_bill().total();
}

// Histograms went on over a reload while counters began anew: sums over them disagreed.
TEST(Registry, CountsGoOnOverAReload) {
  const auto registry = make(options_for({"one"}));
  for (uint64_t n = 1; n <= 3; n++) {
    {
      answer(*acquire(*registry, "one").value());
    }
    EXPECT_EQ(registry->list()[0].counts.n_requests, n);
    ASSERT_TRUE(registry->unload("one").ok());
    EXPECT_EQ(registry->list()[0].counts.n_requests, n) << "while it is unloaded, too";
    if (n == 2) continue;  // loaded again while the engine before may still end
    ASSERT_TRUE(wait_until([&] { return state_of(*registry, "one") == ModelState::unloaded; }));
  }
  // A step's tokens are counted when it ends, a moment after their events.
  EXPECT_TRUE(wait_until([&] { return registry->list()[0].counts.n_generated_tokens == 3 * 8; }));
}

TEST(Registry, AModelToldToStopReadsNoTokenizer) {
  std::atomic<bool> stop = false;
  const auto model = Model::open(story_path(), {.n_threads = 1, .control = LoadControl(&stop)}).value();
  stop = true;
  EXPECT_EQ(model->tokenizer().error().code, ErrorCode::cancelled);
  stop = false;
  EXPECT_TRUE(model->tokenizer().ok());
}

TEST(Registry, LoadsOnceForAllWhoAsk) {
  const auto registry = make(options_for({"story"}));
  EXPECT_EQ(state_of(*registry, "story"), ModelState::unloaded);
  std::vector<std::thread> threads;
  std::vector<const ReadyModel*> models(16);
  for (auto& model : models) {
    threads.emplace_back([&] { model = acquire(*registry, "story").value().get(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto* model : models) EXPECT_EQ(model, models[0]);
  const ModelEntry entry = registry->list()[0];
  EXPECT_EQ(entry.n_loads, 1u);
  EXPECT_EQ(entry.state, ModelState::ready);
  EXPECT_EQ(entry.facts->architecture, "llama");
  EXPECT_EQ(entry.file_bytes, std::filesystem::file_size(story_path()));
  EXPECT_FALSE(answer(*acquire(*registry, "story").value()).empty());
}

TEST(Registry, KnowsItsNames) {
  const auto registry = make(options_for({"one", "two"}));
  EXPECT_EQ(registry->default_name(), "one");
  EXPECT_TRUE(registry->unload("two").ok());
  EXPECT_EQ(acquire(*registry, "three").error().code, ErrorCode::model_not_found);
  EXPECT_EQ(registry->load("three").error().code, ErrorCode::model_not_found);
  EXPECT_EQ(registry->unload("three").error().code, ErrorCode::model_not_found);
  EXPECT_EQ(ModelRegistry::create(options_for({"one", "one"})).error().code, ErrorCode::invalid_argument);
}

TEST(Registry, AFailedLoadIsToldAtOnceForAWhileAndThenTriedAgain) {
  const testing::TempDir folder;
  auto options = options_for({"late"});
  options.models[0].path = folder.file("late.gguf");
  options.retry_pause = 200ms;
  const auto registry = make(std::move(options));
  EXPECT_EQ(acquire(*registry, "late").error().code, ErrorCode::file_not_found);
  EXPECT_EQ(state_of(*registry, "late"), ModelState::failed);
  EXPECT_EQ(acquire(*registry, "late").error().code, ErrorCode::file_not_found);
  EXPECT_EQ(registry->list()[0].n_loads, 1u) << "not tried again at once";
  std::filesystem::copy_file(story_path(), folder.file("late.gguf"));
  std::this_thread::sleep_for(250ms);
  EXPECT_TRUE(acquire(*registry, "late").ok());
  EXPECT_EQ(registry->list()[0].n_loads, 2u);
  EXPECT_FALSE(registry->list()[0].error);
}

TEST(Registry, UnloadsWhatNobodyUses) {
  auto options = options_for({"pinned", "idle"});
  options.models[0].is_pinned = true;
  options.ttl = 100ms;
  const auto registry = make(std::move(options));
  ASSERT_TRUE(acquire(*registry, "pinned").ok());
  ModelHandle held = acquire(*registry, "idle").value();
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(state_of(*registry, "idle"), ModelState::ready) << "somebody has it";
  held.reset();
  EXPECT_TRUE(wait_until([&] { return state_of(*registry, "idle") == ModelState::unloaded; }));
  EXPECT_EQ(state_of(*registry, "pinned"), ModelState::ready);
  EXPECT_TRUE(acquire(*registry, "idle").ok());
}

TEST(Registry, WhoWasIdleTheLongestLeavesForWhoIsWanted) {
  auto options = options_for({"a", "b", "c"});
  options.memory_budget = bill_of_one() * 5 / 2;
  const auto registry = make(std::move(options));
  for (const char* name : {"a", "b", "a", "c"}) ASSERT_TRUE(acquire(*registry, name).ok());
  EXPECT_EQ(state_of(*registry, "a"), ModelState::ready);
  EXPECT_EQ(state_of(*registry, "b"), ModelState::unloaded);
  EXPECT_EQ(state_of(*registry, "c"), ModelState::ready);
}

TEST(Registry, AModelIsIdleBeforeItsLoaderHasEnded) {
  auto options = options_for({"a", "b", "c"});
  options.memory_budget = bill_of_one() * 5 / 2;
  const auto registry = make(std::move(options));
  ASSERT_TRUE(acquire(*registry, "a").ok());
  std::promise<void> had, may_end;
  registry->acquire("b", [&](Result<ModelHandle> model) {
    EXPECT_TRUE(model.ok());
    model = Error{ErrorCode::cancelled, "not wanted any more"};
    had.set_value();
    may_end.get_future().wait();
  });
  had.get_future().wait();
  ASSERT_TRUE(acquire(*registry, "a").ok());
  ASSERT_TRUE(registry->load("c").ok());
  EXPECT_TRUE(wait_until([&] {
    return state_of(*registry, "a") == ModelState::unloaded || state_of(*registry, "b") == ModelState::unloaded;
  }));
  EXPECT_EQ(state_of(*registry, "a"), ModelState::ready);
  may_end.set_value();
  EXPECT_TRUE(acquire(*registry, "c").ok());
}

TEST(Registry, BusyModelsAreWaitedForButNotForEver) {
  auto options = options_for({"a", "b"});
  options.memory_budget = bill_of_one() * 3 / 2;
  options.load_wait = 150ms;
  options.retry_pause = 1ms;
  const auto registry = make(std::move(options));
  ModelHandle held = acquire(*registry, "a").value();
  EXPECT_EQ(acquire(*registry, "b").error().code, ErrorCode::out_of_memory);
  std::thread releasing([&] {
    std::this_thread::sleep_for(50ms);
    held.reset();
  });
  std::this_thread::sleep_for(5ms);
  EXPECT_TRUE(acquire(*registry, "b").ok());
  releasing.join();
}

TEST(Registry, DrainingEndsWhoWaits) {
  auto options = options_for({"a", "b"});
  options.memory_budget = bill_of_one() * 3 / 2;
  const auto registry = make(std::move(options));
  const ModelHandle held = acquire(*registry, "a").value();
  std::promise<ErrorCode> code;
  registry->acquire("b", [&](Result<ModelHandle> result) { code.set_value(result.error().code); });
  EXPECT_FALSE(registry->is_idle());
  registry->begin_drain();
  EXPECT_EQ(code.get_future().get(), ErrorCode::draining);
  EXPECT_EQ(acquire(*registry, "a").error().code, ErrorCode::draining);
  EXPECT_EQ(registry->load("b").error().code, ErrorCode::draining);
  EXPECT_EQ(held->engine().submit(GenerationRequest{{TokenId(1)}, greedy(), 1}, {}).error().code, ErrorCode::draining);
  registry->stop({ErrorCode::draining, "bye"});
}

TEST(Registry, AnUnloadedModelFinishesItsRequests) {
  const auto registry = make(options_for({"story"}));
  Collector collector;
  {
    const ModelHandle model = acquire(*registry, "story").value();
    GenerationRequest request{{TokenId(1)}, greedy(), 100, {}, true};
    ASSERT_TRUE(model->engine().submit(request, collector.receiver()).ok());
  }
  EXPECT_EQ(registry->load("story").value(), ModelState::ready) << "nothing to do";
  EXPECT_EQ(registry->unload("story").value(), ModelState::ready);
  EXPECT_EQ(registry->unload("story").value(), ModelState::unloaded);
  EXPECT_EQ(state_of(*registry, "story"), ModelState::unloaded);
  EXPECT_EQ(collector.wait().reason, FinishReason::length);
  EXPECT_EQ(collector.tokens().size(), 100u);
}

struct Footprint {
  size_t n_files = 0, n_threads = 0;
  uint64_t anonymous_bytes = 0;

  static Footprint now() {
    Footprint footprint;
    const auto count = [](const char* path) {
      return static_cast<size_t>(
          std::distance(std::filesystem::directory_iterator(path), std::filesystem::directory_iterator()));
    };
    footprint.n_files = count("/proc/self/fd");
    footprint.n_threads = count("/proc/self/task");
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("RssAnon:")) footprint.anonymous_bytes = std::stoull(line.substr(8)) << 10;
    }
    return footprint;
  }
};

TEST(Registry, FiftySwapsLeaveNothingBehind) {
  auto options = options_for({"a", "b"});
  options.memory_budget = bill_of_one() * 3 / 2;
  const auto registry = make(std::move(options));
  const auto swap = [&] {
    for (const char* name : {"a", "b"}) EXPECT_FALSE(answer(*acquire(*registry, name).value()).empty());
  };
  for (int i = 0; i < 5; i++) swap();
  const Footprint before = Footprint::now();
  for (int i = 0; i < 25; i++) swap();
  const Footprint after = Footprint::now();
  EXPECT_EQ(after.n_files, before.n_files);
  EXPECT_EQ(after.n_threads, before.n_threads);
  // One model is 12 MB of weights alone. Sanitizers keep what was freed for a while.
  EXPECT_LT(after.anonymous_bytes, before.anonymous_bytes + (testing::kSanitized ? 512 << 20 : 6 << 20));
  EXPECT_EQ(registry->list()[0].n_loads, 30u);
}

// As many at once as the engine takes, and some that wait: age does not take a model from any of them.
TEST(Registry, AModelWithQueuedRequestsIsNotTooOld) {
  auto options = options_for({"story"});
  options.ttl = 30ms;
  options.engine.max_running = 1;
  const auto registry = make(std::move(options));
  std::vector<Collector> collectors(3);
  {
    const ModelHandle model = acquire(*registry, "story").value();
    for (Collector& collector : collectors) {
      const GenerationRequest request{{TokenId(1)}, greedy(), 300, {}, true};
      ASSERT_TRUE(model->engine().submit(request, collector.receiver()).ok());
    }
  }
  for (const Collector& collector : collectors) {
    EXPECT_EQ(collector.wait().reason, FinishReason::length);
    EXPECT_EQ(collector.tokens().size(), 300u);
    EXPECT_EQ(registry->list()[0].n_loads, 1u);
  }
  EXPECT_TRUE(wait_until([&] { return state_of(*registry, "story") == ModelState::unloaded; }));
  EXPECT_FALSE(answer(*acquire(*registry, "story").value()).empty());
}

TEST(Registry, AModelMayHaveItsOwnTimeToStay) {
  const auto registry = make(options_for({"kept", "brief"}));  // neither is unloaded for age
  for (const char* name : {"kept", "brief"}) answer(*acquire(*registry, name).value());
  registry->keep("brief", 30ms);
  registry->keep("no such model", 30ms);
  EXPECT_TRUE(wait_until([&] { return state_of(*registry, "brief") == ModelState::unloaded; }));
  EXPECT_EQ(state_of(*registry, "kept"), ModelState::ready);

  auto options = options_for({"old", "kept"});
  options.ttl = 30ms;
  const auto aging = make(std::move(options));
  for (const char* name : {"old", "kept"}) {
    aging->keep("kept", Duration::max());
    answer(*acquire(*aging, name).value());
  }
  EXPECT_TRUE(wait_until([&] { return state_of(*aging, "old") == ModelState::unloaded; }));
  EXPECT_EQ(state_of(*aging, "kept"), ModelState::ready);
}

// One fits: those who want the other wait for its last request, and nobody gets half an answer.
TEST(Registry, WaitingRequestsGetTheirModelsWhenMemoryIsShort) {
  auto options = options_for({"a", "b"});
  options.memory_budget = bill_of_one() * 3 / 2;
  options.ttl = 50ms;
  const auto registry = make(std::move(options));
  const std::string expected = answer(*acquire(*registry, "a").value());
  Collector running;
  {
    const ModelHandle model = acquire(*registry, "a").value();
    ASSERT_TRUE(
        model->engine().submit(GenerationRequest{{TokenId(1)}, greedy(), 200, {}, true}, running.receiver()).ok());
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; t++) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 4; i++) {
        const auto model = acquire(*registry, (t + i) % 2 == 0 ? "a" : "b");
        ASSERT_TRUE(model.ok()) << model.error().message;
        EXPECT_EQ(answer(**model), expected);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(running.wait().reason, FinishReason::length);
  EXPECT_EQ(running.tokens().size(), 200u);
}

TEST(Registry, AFileLargerThanTheBudgetMayBeStreamed) {
  auto options = options_for({"story"});
  options.models[0].file_bytes = uint64_t{1} << 40;
  EXPECT_TRUE(acquire(*make(options), "story").ok());
  options.memory_budget = bill_of_one() / 2;
  EXPECT_EQ(acquire(*make(options), "story").error().code, ErrorCode::out_of_memory);
}

TEST(Registry, ItsListCanBeReloaded) {
  const testing::TempDir folder;
  const std::string path = folder.file("one.gguf");
  std::filesystem::copy_file(story_path(), path);
  auto options = options_for({"one", "two"});
  options.models[0].path = path;
  const auto registry = make(std::move(options));
  const ModelHandle two = acquire(*registry, "two").value();
  ASSERT_TRUE(acquire(*registry, "one").ok());
  EXPECT_EQ(registry->reload_list({}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(registry->reload_list(options_for({"x", "x"}).models).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(registry->list().size(), 2u) << "a bad list changes nothing";

  // one: the same; two: gone, while somebody uses it; three: new
  const auto change = registry->reload_list({{.name = "one", .path = path}, {.name = "three", .path = story_path()}});
  ASSERT_TRUE(change.ok());
  EXPECT_EQ(change->added, std::vector<std::string>{"three"});
  EXPECT_EQ(change->dropped, std::vector<std::string>{"two"});
  EXPECT_TRUE(change->changed.empty());
  EXPECT_EQ(state_of(*registry, "one"), ModelState::ready) << "an unchanged model stays loaded";
  EXPECT_EQ(acquire(*registry, "two").error().code, ErrorCode::model_not_found);
  EXPECT_FALSE(answer(*two).empty()) << "who has it keeps it";
  EXPECT_FALSE(answer(*acquire(*registry, "three").value()).empty());

  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + 10s);
  EXPECT_EQ(registry->reload_list({{.name = "one", .path = path}})->changed, std::vector<std::string>{"one"});
  EXPECT_FALSE(answer(*acquire(*registry, "one").value()).empty());
  EXPECT_EQ(registry->list()[0].n_loads, 2u);
  EXPECT_EQ(registry->default_name(), "one");
}

TEST(Registry, AnyOrderOfCallsFromAnyThreads) {
  auto options = options_for({"a", "b", "c"});
  options.memory_budget = bill_of_one() * 5 / 2;
  options.ttl = 20ms;
  const auto registry = make(std::move(options));
  std::atomic<int> n_answers = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; t++) {
    threads.emplace_back([&, t] {
      std::mt19937 rng(t);
      for (int i = 0; i < 12; i++) {
        const std::string name(1, static_cast<char>('a' + rng() % 3));
        switch (rng() % 4) {
          case 0:
            EXPECT_TRUE(registry->unload(name).ok());
            break;
          case 1:
            static_cast<void>(registry->list());
            EXPECT_TRUE(registry->load(name).ok());
            break;
          default: {
            const auto model = acquire(*registry, name);
            ASSERT_TRUE(model.ok()) << model.error().message;
            EXPECT_FALSE(answer(**model).empty());
            n_answers++;
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(n_answers, 10);
}

}  // namespace
}  // namespace rocmforge
