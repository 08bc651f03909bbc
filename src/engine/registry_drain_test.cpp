// A drain while a model is being loaded: the load is told to stop.

#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <thread>

#include "base/bytes.h"
#include "engine/registry.h"
#include "support/engine_fixture.h"

namespace rocmforge {
namespace {

using namespace std::chrono_literals;
using testing::story_path;

// The story model with another chat template, as its first key, padded so that the tensors' data stays aligned. The
// model's own template gets another name.
void write_story_with_template(const std::string& path, std::string text) {
  constexpr std::string_view key = "tokenizer.chat_template";
  constexpr size_t kFixedHead = 24, kAlignment = 32, kStringType = 8;
  std::string file = testing::read_text(story_path());
  file[file.find(key) + key.size() - 1] = 'X';
  const size_t n_others = 8 + key.size() + 4 + 8;
  text.append((kAlignment - (n_others + text.size()) % kAlignment) % kAlignment, ' ');
  std::string entry(n_others, '\0');
  auto* bytes = reinterpret_cast<std::byte*>(entry.data());
  store_le(bytes, uint64_t{key.size()});
  key.copy(entry.data() + 8, key.size());
  store_le(bytes + 8 + key.size(), uint32_t{kStringType});
  store_le(bytes + 12 + key.size(), uint64_t{text.size()});
  auto* n_keys = reinterpret_cast<std::byte*>(file.data()) + 16;
  store_le(n_keys, load_le<uint64_t>(n_keys) + 1);
  file.insert(kFixedHead, entry + text);
  std::ofstream(path, std::ios::binary) << file;
}

// Every rendering takes as long as renderings may; a load needs many.
constexpr const char* kSlowTemplate =
    "{% for i in range(1000) %}{% for j in range(1000) %}{% set x = 'abc' * 100 %}{% endfor %}{% endfor %}";

struct SlowLoad {
  explicit SlowLoad(const std::string& path) {
    ModelRegistry::Options options;
    options.models = {{.name = "slow", .path = path}};
    options.model.n_threads = 1;
    options.engine = {.n_kv_tokens = 1024, .max_running = 4, .max_step_tokens = 64};
    registry = *ModelRegistry::create(std::move(options));
    registry->acquire("slow", [this](Result<ModelHandle> model) {
      answer.set_value(model.ok() ? Result<void>() : Result<void>(std::move(model).error()));
    });
  }

  std::unique_ptr<ModelRegistry> registry;
  std::promise<Result<void>> answer;
};

TEST(RegistryDrain, ARunningLoadIsStopped) {
  const testing::TempDir folder;
  const std::string path = folder.file("slow.gguf");
  write_story_with_template(path, kSlowTemplate);
  double whole = 0;
  {
    SlowLoad load(path);
    const auto loaded = load.answer.get_future().get();
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    whole = load.registry->list()[0].load_seconds;
  }
  SlowLoad load(path);
  std::this_thread::sleep_for(std::chrono::duration<double>(0.1 * whole));
  ASSERT_EQ(load.registry->list()[0].state, ModelState::loading);
  const TimePoint began = std::chrono::steady_clock::now();
  load.registry->begin_drain();
  EXPECT_EQ(load.answer.get_future().get().error().code, ErrorCode::draining);
  load.registry->stop({ErrorCode::draining, "the server is stopping"});
  EXPECT_LT(seconds(std::chrono::steady_clock::now() - began), 0.5 * whole);
  EXPECT_EQ(load.registry->list()[0].error->code, ErrorCode::cancelled);
}

}  // namespace
}  // namespace rocmforge
