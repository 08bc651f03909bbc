// Several models under one memory limit, and files that change under a model whose weights stream.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "cpu/memory.h"
#include "engine/registry.h"
#include "support/engine_fixture.h"

namespace rocmforge {
namespace {

using namespace std::chrono_literals;
using testing::Collector;
using testing::greedy;
using testing::story_path;

ModelRegistry::Options options_for(const std::vector<std::string>& names, const std::string& path = story_path()) {
  ModelRegistry::Options options;
  for (const std::string& name : names) options.models.push_back({.name = name, .path = path});
  options.model.n_threads = 1;
  options.model.device = "cpu";
  options.engine = {.max_running = 4, .max_step_tokens = 64};
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

FinishEvent ask(const ReadyModel& model) {
  Collector collector;
  const auto prompt = model.tokenizer().encode("Once upon a time", {.add_bos = true}).value();
  const auto sent = model.engine().submit(GenerationRequest{prompt, greedy(), 4}, collector.receiver());
  if (!sent.ok()) return {.reason = FinishReason::error, .error = sent.error()};
  return collector.wait();
}

bool streams(const ReadyModel& model) {
  return !model.engine().model().plan().streamed_stages().empty();
}

ModelEntry entry_of(const ModelRegistry& registry, std::string_view name) {
  for (const ModelEntry& entry : registry.list()) {
    if (entry.name == name) return entry;
  }
  ADD_FAILURE() << "no entry " << name;
  return {};
}

// Between the sizes of one and of two models an idle model used to stay, and the others were refused for ever.
TEST(RegistryMemory, ModelsAskedInTurnAreAnsweredUnderAnyLimitThatHoldsOne) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer keeps freed memory, which --ram counts";
  int n_limits = 0;
  for (uint64_t more = 16; more <= 96; more += 8) {
    auto options = options_for({"a", "b", "c"});
    options.model.ram_bytes = cpu::held_memory() + (more << 20);
    options.load_wait = 2s;
    const auto registry = ModelRegistry::create(std::move(options)).value();
    if (!acquire(*registry, "a").ok()) continue;  // too little for one
    n_limits++;
    for (const char* name : {"a", "b", "c", "a", "c", "b"}) {
      while (!registry->is_idle()) std::this_thread::sleep_for(1ms);  // a busy model may stay, whatever another needs
      const auto model = acquire(*registry, name);
      ASSERT_TRUE(model.ok()) << more << " MiB, " << name << ": " << model.error().message;
      EXPECT_EQ(ask(**model).reason, FinishReason::length);
      if (!streams(**model)) continue;
      for (const ModelEntry& other : registry->list()) {
        EXPECT_TRUE(other.name == name || other.state != ModelState::ready)
            << more << " MiB: " << name << " streams beside " << other.name << ", which is idle";
      }
    }
  }
  EXPECT_GE(n_limits, 6);
}

// The first model's cache used to take nine tenths of what was left.
TEST(RegistryMemory, ASmallModelDoesNotUnloadALargeOneForItsCache) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer keeps freed memory, which --ram counts";
  EngineOptions one = options_for({}).engine;
  const auto alone = testing::story_engine(one);
  one.n_kv_tokens = alone->n_context();
  const uint64_t smallest = testing::story_engine(one)->memory_bill().total();
  auto options = options_for({"large", "small"});
  options.engine.max_running = 256;  // whose contexts would take everything
  options.engine.max_step_tokens = 256;
  options.model.ram_bytes = cpu::held_memory() + 5 * smallest;
  const auto registry = ModelRegistry::create(std::move(options)).value();
  ASSERT_EQ(ask(*acquire(*registry, "large").value()).reason, FinishReason::length);
  for (int i = 0; i < 3; i++) {
    const auto small = acquire(*registry, "small");
    ASSERT_TRUE(small.ok()) << small.error().message;
    EXPECT_EQ(ask(**small).reason, FinishReason::length);
    EXPECT_EQ(ask(*acquire(*registry, "large").value()).reason, FinishReason::length);
  }
  for (const ModelEntry& entry : registry->list()) EXPECT_EQ(entry.n_loads, 1u) << entry.name;
}

class RegistryFile : public ::testing::TestWithParam<const char*> {};

TEST_P(RegistryFile, AModelWhoseFileIsGoneFailsAndIsOpenedAnew) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer keeps freed memory, which --ram counts";
  const testing::TempDir folder;
  const std::string path = folder.file("m.gguf");
  std::filesystem::copy_file(story_path(), path);
  auto options = options_for({"m"}, path);
  options.engine.n_kv_tokens = 256;
  // So little that layers stream.
  const auto probe = testing::story_engine(options.engine);
  const MemoryBill bill = probe->memory_bill();
  options.model.ram_bytes = cpu::held_memory() + bill.total() - bill.weight_bytes / 4;
  const auto registry = ModelRegistry::create(std::move(options)).value();
  {
    const ModelHandle model = acquire(*registry, "m").value();
    ASSERT_TRUE(streams(*model));
    ASSERT_EQ(ask(*model).reason, FinishReason::length);
    const std::string how = GetParam();
    if (how == "replaced") {
      std::filesystem::copy_file(story_path(), folder.file("new.gguf"));
      std::filesystem::rename(folder.file("new.gguf"), path);
    } else if (how == "overwritten") {  // in place: the same file, as long as before
      const auto before = std::filesystem::last_write_time(path);
      std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(1 << 20).put('x');
      // A file system's clock may be coarser than a test is fast.
      if (std::filesystem::last_write_time(path) == before) std::filesystem::last_write_time(path, before + 1s);
    } else if (how == "truncated") {
      std::filesystem::resize_file(path, 1 << 20);
    } else {
      std::filesystem::remove(path);
    }
    EXPECT_EQ(ask(*model).reason, FinishReason::error);
  }
  ModelEntry entry = entry_of(*registry, "m");  // known when the step has ended: a moment after the request
  for (int i = 0; i < 6000 && entry.state != ModelState::failed; i++) {
    std::this_thread::sleep_for(10ms);
    entry = entry_of(*registry, "m");
  }
  EXPECT_EQ(entry.state, ModelState::failed);
  ASSERT_TRUE(entry.error.has_value());
  EXPECT_TRUE(entry.error->code == ErrorCode::file_changed || entry.error->code == ErrorCode::file_truncated ||
              entry.error->code == ErrorCode::file_not_found)
      << entry.error->message;
  std::filesystem::copy_file(story_path(), path, std::filesystem::copy_options::overwrite_existing);
  const auto again = acquire(*registry, "m");
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(ask(**again).reason, FinishReason::length);
  EXPECT_EQ(entry_of(*registry, "m").state, ModelState::ready);
}

INSTANTIATE_TEST_SUITE_P(Ways, RegistryFile, ::testing::Values("replaced", "overwritten", "truncated", "deleted"),
                         [](const auto& way) { return std::string(way.param); });

}  // namespace
}  // namespace rocmforge
