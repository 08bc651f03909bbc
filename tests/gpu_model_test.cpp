// Whole models on a device that the program chooses: the GPU (an emulated one) where it can be used, else the CPU; and
// many of them, one after the other.

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <mutex>

#include "base/log.h"
#include "engine/model.h"
#include "engine/registry.h"
#include "engine/session.h"
#include "gguf/synth.h"
#include "gpu/backend.h"
#include "gpu/emu/device.h"
#include "kv/page.h"
#include "support/golden.h"
#include "support/large_model.h"
#include "support/loaded_model.h"
#include "support/support.h"
#include "support/tiny_model.h"

namespace rocmforge {
namespace {

using testing::some_tokens;
using testing::TempDir;
using testing::TinyModel;

Result<std::unique_ptr<Backend>> open_emulated() {
  return TRY(GpuBackend::open(gpu::emu::api(), 0));
}

class GpuModel : public ::testing::Test {
 protected:
  void SetUp() override { TinyModel{.n_layers = 6}.write(path_); }
  void TearDown() override { gpu::emu::controls().memory_bytes = memory_bytes_; }

  static bool is_on_cpu(const Model& model) { return model.backend().name().starts_with("cpu"); }
  std::unique_ptr<Model> open(const ModelOptions& options) const {
    auto model = Model::open(path_, options);
    EXPECT_TRUE(model.ok()) << model.error().message;
    return std::move(model).value();
  }

  const TempDir dir_;
  const std::string path_ = dir_.file("m.gguf");
  const uint64_t memory_bytes_ = gpu::emu::controls().memory_bytes;
  std::vector<std::string> said_;
  const LogCapture capture_{[this](LogLevel, std::string_view text) { said_.emplace_back(text); }};
};

TEST_F(GpuModel, AutoIsTheGpuWhereThereIsOne) {
  EXPECT_FALSE(is_on_cpu(*open({.open_gpu = open_emulated})));
  EXPECT_TRUE(said_.empty());
}

TEST_F(GpuModel, AutoIsTheCpuWhereThereIsNone) {
  EXPECT_TRUE(is_on_cpu(*open({.open_gpu = [] { return std::unique_ptr<Backend>(); }})));
  EXPECT_TRUE(said_.empty());
}

TEST_F(GpuModel, AGpuThatDoesNotOpenLeavesTheModelToTheCpu) {
  const auto broken = [] { return Error{ErrorCode::device_unavailable, "gpu: device 0: it is broken"}; };
  const auto on_cpu = open({.open_gpu = broken});
  EXPECT_TRUE(is_on_cpu(*on_cpu));
  EXPECT_NE(on_cpu->gpu_refusal().find("it is broken"), std::string::npos) << on_cpu->gpu_refusal();
  const auto model = Model::open(path_, {.device = "gpu", .open_gpu = broken});
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, ErrorCode::device_unavailable);
}

TEST_F(GpuModel, AskedForByNameADeviceThatIsNotThereIsAnError) {
  for (const char* device : {"gpu:99", "tpu"}) {
    const auto model = Model::open(path_, {.device = device});
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().code, ErrorCode::device_unavailable);
    EXPECT_NE(model.error().message.find(device), std::string::npos) << model.error().message;
  }
}

TEST_F(GpuModel, WhatAGpuCannotHoldTheCpuRunsUnlessABudgetIsGiven) {
  uint64_t all = 0, weights = 0;
  {
    const auto model = open({.open_gpu = open_emulated});
    const ExecutionPlan& plan = model->plan();
    const MemoryBill bill =
        plan.memory_bill(plan.pass_memory(plan.n_context(), 1, pages_for_tokens(plan.n_context()), KvType::f16));
    all = bill.total(), weights = bill.weight_bytes;
  }
  constexpr uint64_t kMargin = 256 << 20;
  for (const uint64_t n_bytes : {all - weights / 2, uint64_t{1}}) {  // some of it, nothing of it
    gpu::emu::controls().memory_bytes = kMargin + n_bytes;
    const auto on_cpu = open({.open_gpu = open_emulated});
    EXPECT_TRUE(is_on_cpu(*on_cpu));
    EXPECT_FALSE(on_cpu->gpu_refusal().empty());
  }
  const auto streamed = open({.vram_bytes = all - weights / 2, .open_gpu = open_emulated});
  EXPECT_FALSE(is_on_cpu(*streamed));
  EXPECT_FALSE(streamed->plan().streamed_stages().empty());
  EXPECT_TRUE(streamed->gpu_refusal().empty());
  EXPECT_TRUE(said_.empty());
}

TEST_F(GpuModel, StepsThatAreNotJoinedTakeMoreLaunchesToTheSameLogits) {
  std::vector<float> logits[2];
  uint64_t n_launches[2] = {};
  for (const bool fuse : {false, true}) {
    const auto model = open({.device = "gpu", .fuse = fuse, .open_gpu = open_emulated});
    auto session = Session::create(model->plan(), {.max_outputs = 16});
    ASSERT_TRUE(session.ok());
    const uint64_t before = gpu::emu::controls().n_launches;
    const auto tokens = some_tokens(20, model->plan().spec().n_vocab);
    logits[fuse] = testing::evaluate_all(*session, std::span(tokens).first(16));
    for (size_t i = 16; i < tokens.size(); i++) {
      const auto more = testing::evaluate_all(*session, std::span(tokens).subspan(i, 1));
      logits[fuse].insert(logits[fuse].end(), more.begin(), more.end());
    }
    n_launches[fuse] = gpu::emu::controls().n_launches - before;
  }
  testing::Nmse nmse;
  nmse.add(logits[true], logits[false]);
  EXPECT_LE(nmse.value(), 1e-12);
  EXPECT_LT(n_launches[true], n_launches[false]);
}

// Launches are a good part of a token's time on HIP: docs/amd.md counts on this number.
TEST(GpuLaunches, OfATokenOfLlama) {
  auto& controls = gpu::emu::controls();
  const auto model =
      testing::LoadedModel::open_on(open_emulated().value(), testing::source_path("models/story-q4_k_m.gguf"));
  ASSERT_FALSE(HasFailure());
  ASSERT_TRUE(model.plan->weights().preload_all().ok());
  controls.refuse_capture = true;
  Session session = model.session(KvType::f16);
  const uint64_t before = controls.n_launches;
  ASSERT_TRUE(session.evaluate(some_tokens(1, model.plan->spec().n_vocab)).ok());
  controls.refuse_capture = false;
  EXPECT_GT(controls.n_launches, before);
  EXPECT_LE(controls.n_launches - before, 68u) << "of six layers";
}

TEST_F(GpuModel, WhatAGpuDoesNotComputeTheCpuRuns) {
  TinyModel{.head_size = 4}.write(path_);
  const auto on_cpu = open({.open_gpu = open_emulated});
  EXPECT_TRUE(is_on_cpu(*on_cpu));
  EXPECT_NE(on_cpu->gpu_refusal().find("keys of 4 and values of 4 elements"), std::string::npos)
      << on_cpu->gpu_refusal();
  const auto model = Model::open(path_, {.device = "gpu", .open_gpu = open_emulated});
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, ErrorCode::unsupported);
}

TEST_F(GpuModel, AFileThatIsWrongIsWrongOnBothAndNotTheGpusFault) {
  const auto model = Model::open(dir_.write("bad.gguf", "not a model"), {.open_gpu = open_emulated});
  EXPECT_FALSE(model.ok());
  EXPECT_TRUE(said_.empty());
}

// The driver starts beside the reading of the header: here it does not come up before the first byte was read.
TEST_F(GpuModel, TheHeaderIsReadWhileTheDeviceOpens) {
  std::mutex mutex;
  std::condition_variable changed;
  bool was_read = false;
  const FileCalls calls{.pread =
                            [&](int fd, void* to, size_t n_bytes, off_t offset) {
                              const std::lock_guard lock(mutex);
                              was_read = true;
                              changed.notify_all();
                              return ::pread(fd, to, n_bytes, offset);
                            },
                        .is_cached = {}};
  const auto wait_and_open = [&]() -> Result<std::unique_ptr<Backend>> {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return was_read; }));
    return open_emulated();
  };
  EXPECT_FALSE(is_on_cpu(*open({.device = "gpu", .calls = &calls, .open_gpu = wait_and_open})));
}

TEST_F(GpuModel, CandidatesAreThoseOfTheRows) {
  constexpr uint32_t kRows = 130;  // more than one launch takes
  const auto model = open({.open_gpu = open_emulated});
  const ExecutionPlan& plan = model->plan();
  const uint32_t n_vocab = plan.spec().n_vocab;
  ASSERT_TRUE(plan.weights().preload_all().ok());
  ASSERT_TRUE(model->backend().reserve(plan.pass_memory(kRows, kRows, 3, KvType::f16)).ok());
  PagePool pool(3);
  BlockTable pages(pool);
  ASSERT_TRUE(pages.grow_to(kRows).ok());
  const auto tokens = some_tokens(kRows + 4, n_vocab);
  const auto run = [&](size_t first, size_t n) {
    Batch batch;
    batch.add(std::span(tokens).subspan(first, n), 0, pages.pages(), false);
    ASSERT_TRUE(forward(plan, batch).ok());
  };
  const auto check = [&](uint32_t n_rows, uint32_t n_read) {
    const auto got = model->backend().read_candidates(n_read, plan.logits()).value();
    std::vector<float> logits(n_rows * n_vocab);
    ASSERT_TRUE(model->backend().read(logits, plan.logits()).ok());
    ASSERT_EQ(got.size(), n_read);
    for (size_t row = 0; row < n_read; row++) {
      RowCandidates expected;
      select_candidates(expected, std::span(logits).subspan(row * n_vocab, n_vocab));
      EXPECT_NEAR(got[row].log_sum_exp, expected.log_sum_exp, 1e-4);
      for (uint32_t i = 0; i < kCandidates; i++) ASSERT_EQ(got[row].top[i].id, expected.top[i].id) << row << " " << i;
    }
  };
  run(0, kRows);
  for (const uint32_t n_read : {1, 2, 5, 128, 130}) check(kRows, n_read);
  // The same form again is recorded, with the candidates of whoever has read all of them.
  for (const uint32_t n_rows : {3u, 4u}) {
    for (size_t first = 0; first < 4; first++) {
      run(first, n_rows);
      if (n_rows == 4) check(n_rows, n_rows);
      check(n_rows, 2);
    }
  }
}

// A prompt of several passes is put on the stream at once: none may find the next one's tokens.
TEST_F(GpuModel, PassesThatNobodyWaitsForKeepTheirBatches) {
  const auto model = open({.n_context = 64, .open_gpu = open_emulated});
  ASSERT_TRUE(model->plan().weights().preload_all().ok());
  const auto tokens = some_tokens(20, model->plan().spec().n_vocab);
  constexpr uint32_t kRows = 4;
  const auto logits = [&](size_t at_once) {
    Session session = Session::create(model->plan(), {.n_context = 64, .max_rows = kRows}).value();
    std::vector<float> last;
    for (size_t at = 0; at < tokens.size(); at += at_once) {
      const auto after = session.evaluate(std::span(tokens).subspan(at, at_once)).value();
      last.assign(after.begin(), after.end());
    }
    return last;
  };
  EXPECT_EQ(logits(tokens.size()), logits(kRows));
}

// Many rows are multiplied as halves, few as bytes: on every kind of device. Each row uses every expert, so rounding
// cannot choose others.
TEST_F(GpuModel, ActivationsBeyondHalfPrecisionGiveTheCpusLogits) {
  const auto tokens = some_tokens(12, 96);
  const TinyModel dense{.n_layers = 1}, experts{.n_layers = 1, .n_experts = 4, .n_experts_used = 4};
  for (const auto& [shape, mix] : {std::pair(dense, "F16"), {dense, "Q8_0"}, {experts, "F16"}, {experts, "Q8_0"}}) {
    testing::write_large_model(path_, shape, mix);
    const auto logits = [&](const testing::LoadedModel& model, uint32_t max_rows) {
      Session session = model.session(KvType::f32, max_rows);
      return testing::evaluate_all(session, tokens);
    };
    const auto expected = logits(testing::LoadedModel::open(path_), 64);
    for (uint32_t device = 0; device < gpu::emu::kNumDevices; device++) {
      for (const uint32_t max_rows : {12u, 3u, 1u}) {
        SCOPED_TRACE(fmt::format("{}, {} experts, device {}, {} rows", mix, shape.n_experts, device, max_rows));
        auto backend = GpuBackend::open(gpu::emu::api(), device);
        ASSERT_TRUE(backend.ok()) << backend.error().message;
        testing::Nmse error;
        error.add(logits(testing::LoadedModel::open_on(std::move(*backend), path_), max_rows), expected);
        EXPECT_LE(error.value(), 2e-3);  // activations are bytes on the CPU
      }
    }
  }
}

size_t n_open_files() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

// Opened, asked (with passes that are recorded) and closed: files, device memory and pinned memory are as before.
TEST_F(GpuModel, FiftySwapsLeaveNothingBehind) {
  TinyModel{.n_layers = 1}.write(path_);
  const auto tokens = some_tokens(4, 96);
  const auto use = [&](const Model& model) {
    Session session = Session::create(model.plan(), {.n_context = 32}).value();
    for (const TokenId& token : tokens) ASSERT_TRUE(session.advance(std::span(&token, 1)).ok());
    EXPECT_GT(model.backend().pinned_bytes(), 0u);
  };
  use(*open({.n_context = 32, .open_gpu = open_emulated}));
  auto& controls = gpu::emu::controls();
  const size_t n_files = n_open_files();
  const int64_t held = controls.held_bytes;
  const uint64_t n_graphs = controls.n_graph_launches;
  for (int i = 0; i < 50; i++) {
    {
      const auto model = open({.n_threads = 2, .n_context = 32, .open_gpu = open_emulated});
      use(*model);
      model->plan().weights().clear();
      use(*model);
    }
    EXPECT_EQ(controls.held_bytes, held);
    EXPECT_EQ(n_open_files(), n_files);
    if (HasFailure()) break;
  }
  EXPECT_GT(controls.n_graph_launches, n_graphs);
}

// Large models of 2026, by their headers: the GPU has a kernel for every step.
TEST(GpuShapes, OfMixedLayersAreNotRefused) {
  const TempDir dir;
  for (const char* name : {"qwen3.6-35b-a3b", "qwen3.6-27b", "nemotron-3-nano", "gemma4-26b-a4b"}) {
    SCOPED_TRACE(name);
    const std::string path = dir.file(name);
    ASSERT_TRUE(gguf::synthesize(path, *gguf::find_shape(name), *gguf::find_mix("Q4_K_M"), {.sparse = true}).ok());
    const auto backend = open_emulated().value();
    const auto plan =
        ExecutionPlan::from_gguf(*backend, std::make_shared<gguf::GgufFile>(gguf::GgufFile::open(path).value()),
                                 PlanOptions{.weights = {}, .n_context = 4096});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    for (const auto steps : (*plan)->steps()) {
      const auto checked = backend->check_steps(steps, (*plan)->weights());
      EXPECT_TRUE(checked.ok()) << checked.error().message;
    }
    EXPECT_EQ((*plan)->has_states(), std::string_view(name) != "gemma4-26b-a4b");
  }
}

// Room for two of three models on the GPU, and for all of them in the machine: who was idle the longest leaves the GPU.
TEST_F(GpuModel, ARegistryCountsTheMemoryItsModelsAreIn) {
  const std::string story = testing::source_path("models/story-q4_k_m.gguf");
  ModelRegistry::Options options;
  for (const char* name : {"a", "b", "c"}) options.models.push_back({.name = name, .path = story});
  options.model.n_threads = 1;
  options.model.open_gpu = open_emulated;
  options.engine = {.n_kv_tokens = 1024, .max_running = 4, .max_step_tokens = 64};
  const auto acquire = [](ModelRegistry& registry, std::string_view name) {
    std::promise<Result<ModelHandle>> answer;
    registry.acquire(name, [&](Result<ModelHandle> handle) { answer.set_value(std::move(handle)); });
    return answer.get_future().get();
  };
  uint64_t bill = 0;
  {
    const auto registry = ModelRegistry::create(options).value();
    const auto model = acquire(*registry, "a");
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_TRUE((*model)->engine().model().is_on_gpu());
    bill = (*model)->engine().memory_bill().total();
  }
  constexpr uint64_t kMargin = 256 << 20;
  gpu::emu::controls().memory_bytes = kMargin + bill * 5 / 2;
  const auto registry = ModelRegistry::create(options).value();
  for (const char* name : {"a", "b", "a", "c"}) {
    const auto model = acquire(*registry, name);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_TRUE((*model)->engine().model().is_on_gpu());
  }
  const auto states = registry->list();
  EXPECT_EQ(states[0].state, ModelState::ready);
  EXPECT_EQ(states[1].state, ModelState::unloaded);
  EXPECT_EQ(states[2].state, ModelState::ready);

  gpu::emu::controls().memory_bytes = kMargin + 1;  // nothing fits: the machine has room for all
  const auto on_machine = ModelRegistry::create(options).value();
  for (const char* name : {"a", "b", "c"}) {
    const auto model = acquire(*on_machine, name);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_FALSE((*model)->engine().model().is_on_gpu());
  }
  for (const ModelEntry& entry : on_machine->list()) EXPECT_EQ(entry.state, ModelState::ready);
}

}  // namespace
}  // namespace rocmforge
