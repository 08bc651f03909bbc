// Models larger than the device's memory, on the emulated GPUs: weights that take turns are landed only where nothing
// is being read any more, and the answers are those of a device that holds everything.

#include <gtest/gtest.h>

#include "gpu/backend.h"
#include "gpu/emu/device.h"
#include "support/loaded_model.h"
#include "support/support.h"
#include "support/tiny_model.h"

namespace rocmforge {
namespace {

using testing::evaluate_all;
using testing::some_tokens;
using testing::TempDir;
using testing::TinyModel;

struct OnDevice {
  std::unique_ptr<GpuBackend> backend;
  std::unique_ptr<ExecutionPlan> plan;

  static OnDevice open(const std::string& path, std::optional<uint64_t> weight_bytes) {
    OnDevice model;
    model.backend = GpuBackend::open(gpu::emu::api(), 0).value();
    auto file = std::make_shared<const gguf::GgufFile>(gguf::GgufFile::open(path).value());
    model.plan = ExecutionPlan::from_gguf(*model.backend, std::move(file),
                                          {.weights = {.n_loaders = 2, .budget_bytes = weight_bytes}, .n_context = 128})
                     .value();
    return model;
  }

  // A prompt in one pass, a few tokens one by one; twice, so that the second time begins with other weights resident.
  std::vector<float> answer() const {
    Session session = Session::create(*plan, {.max_rows = 96, .max_outputs = 96}).value();
    std::vector<float> all;
    for (int i = 0; i < 2; i++) {
      session.rewind(0);
      for (const uint32_t n : {70, 1, 1, 5, 1}) {
        const auto logits = evaluate_all(session, some_tokens(n, 96));
        all.insert(all.end(), logits.begin(), logits.end());
      }
    }
    return all;
  }
};

TEST(GpuBudget, AModelThreeTimesTheBudgetAnswersTheSameBits) {
  const TempDir dir;
  TinyModel{.ff_width = 128, .n_layers = 12}.write(dir.file("m.gguf"));
  const OnDevice whole = OnDevice::open(dir.file("m.gguf"), std::nullopt);
  const auto expected = whole.answer();
  EXPECT_TRUE(whole.plan->weights().is_settled());
  const OnDevice streamed = OnDevice::open(dir.file("m.gguf"), whole.plan->weights().arena_bytes() / 3);
  EXPECT_GE(streamed.plan->streamed_stages().size(), 9u);
  EXPECT_TRUE(streamed.answer() == expected);
  const uint64_t n_before = gpu::emu::controls().n_graph_launches;
  EXPECT_TRUE(streamed.answer() == expected);
  EXPECT_EQ(gpu::emu::controls().n_graph_launches, n_before) << "weights move: nothing may be recorded";
}

TEST(GpuBudget, ExpertsTakeTurnsAndTheBitsAreTheSame) {
  const TempDir dir;
  TinyModel{.n_layers = 4, .n_experts = 8, .n_experts_used = 2}.write(dir.file("m.gguf"));
  const OnDevice whole = OnDevice::open(dir.file("m.gguf"), std::nullopt);
  const auto expected = whole.answer();
  const uint64_t all = whole.plan->weights().arena_bytes();
  for (const uint64_t share : {2, 3}) {
    const OnDevice model = OnDevice::open(dir.file("m.gguf"), all / share);
    EXPECT_TRUE(model.plan->weights().experts_move());
    EXPECT_TRUE(model.answer() == expected) << "1 / " << share;
  }
}

TEST(GpuBudget, NothingIsAllocatedWhileWeightsMove) {
  const TempDir dir;
  TinyModel{.n_layers = 6, .n_experts = 8, .n_experts_used = 2}.write(dir.file("m.gguf"));
  const uint64_t all = OnDevice::open(dir.file("m.gguf"), std::nullopt).plan->weights().arena_bytes();
  const OnDevice model = OnDevice::open(dir.file("m.gguf"), all / 3);
  Session session = Session::create(*model.plan, {.max_rows = 4, .max_outputs = 4}).value();
  EXPECT_FALSE(evaluate_all(session, some_tokens(4, 96)).empty());
  const uint64_t n_before = gpu::emu::controls().n_allocations;
  for (int i = 0; i < 5; i++) EXPECT_FALSE(evaluate_all(session, some_tokens(4, 96)).empty());
  EXPECT_EQ(gpu::emu::controls().n_allocations, n_before);
}

}  // namespace
}  // namespace rocmforge
