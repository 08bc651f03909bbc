// A GPU that fails: whichever call it is, the answer is a typed error, and the next try gives the right logits. And a
// model that is loaded and cleared many times leaves nothing behind.

#include <gtest/gtest.h>

#include "gpu/backend.h"
#include "gpu/emu/device.h"
#include "support/loaded_model.h"
#include "support/support.h"

namespace rocmforge {
namespace {

using testing::LoadedModel;

std::string model_path() {
  return testing::data_path("logits/llama@384-64-128-2-1-32-2.gguf");
}

// Loads the model, then a prompt and five tokens, of which the last ones replay a recorded pass. A call that failed is
// made again, and its second answer counts.
Result<std::vector<float>> answer() {
  auto backend = TRY(GpuBackend::open(gpu::emu::api(), 0));
  const LoadedModel model = LoadedModel::open_on(std::move(backend), model_path(), nullptr, 1);
  Session session = model.session(KvType::f16);
  std::vector<float> out;
  const auto evaluate = [&](std::span<const TokenId> tokens) -> Result<void> {
    auto logits = session.evaluate(tokens);
    if (!logits.ok()) {
      EXPECT_TRUE(logits.error().code == ErrorCode::device_failed || logits.error().code == ErrorCode::out_of_memory)
          << logits.error().message;
      EXPECT_NE(logits.error().message.find("gpu: "), std::string::npos) << logits.error().message;
      logits = session.evaluate(tokens);
      EXPECT_TRUE(logits.ok()) << logits.error().message;
    }
    if (!logits.ok()) return Error(logits.error());
    out.insert(out.end(), logits->begin(), logits->end());
    return {};
  };
  const auto tokens = testing::some_tokens(8, 384);
  TRY(evaluate(std::span(tokens).first(3)));
  for (size_t i = 3; i < tokens.size(); i++) TRY(evaluate(std::span(tokens).subspan(i, 1)));
  return out;
}

TEST(GpuFaults, AnyCallMayFailOnce) {
  auto& controls = gpu::emu::controls();
  const uint64_t before = controls.n_calls, graphs_before = controls.n_graph_launches;
  const std::vector<float> expected = answer().value();
  ASSERT_GT(controls.n_graph_launches, graphs_before);
  const uint64_t n_calls = controls.n_calls - before;
  ASSERT_GT(n_calls, 100u);
  const int64_t held = controls.held_bytes;
  for (uint64_t n = 1; n <= n_calls; n++) {
    SCOPED_TRACE("call " + std::to_string(n) + " of " + std::to_string(n_calls));
    controls.fail_at = controls.n_calls + n;
    const auto logits = answer();
    controls.fail_at = 0;
    if (logits.ok()) {
      EXPECT_TRUE(*logits == expected);
    } else {
      EXPECT_NE(logits.error().code, ErrorCode::invalid_argument)
          << logits.error().message;  // opening the device failed
    }
    EXPECT_EQ(controls.held_bytes, held);
    if (HasFailure()) break;
  }
}

TEST(GpuFaults, SwapsLeaveNothingBehind) {
  const LoadedModel model = LoadedModel::open_on(GpuBackend::open(gpu::emu::api(), 1).value(), model_path());
  const int64_t held = gpu::emu::controls().held_bytes;
  for (int i = 0; i < 50; i++) {
    ASSERT_TRUE(model.plan->weights().preload_all().ok());
    EXPECT_GT(gpu::emu::controls().held_bytes, held);
    model.plan->weights().clear();
    EXPECT_EQ(gpu::emu::controls().held_bytes, held);
  }
}

// The same with passes between: nothing is left of what was recorded, and the next model's addresses are its own.
TEST(GpuFaults, SwapsBetweenPassesGiveTheSameBits) {
  const LoadedModel model = LoadedModel::open_on(GpuBackend::open(gpu::emu::api(), 0).value(), model_path());
  Session session = model.session(KvType::f16);
  const auto tokens = testing::some_tokens(6, 384);
  std::vector<float> first;
  for (int i = 0; i < 4; i++) {
    session.rewind(0);
    std::vector<float> all;
    for (size_t t = 0; t < tokens.size(); t++) {
      const auto logits = session.evaluate(std::span(tokens).subspan(t, 1));
      ASSERT_TRUE(logits.ok()) << logits.error().message;
      all.insert(all.end(), logits->begin(), logits->end());
    }
    if (i == 0) first = all;
    EXPECT_TRUE(first == all) << "swap " << i;
    model.plan->weights().clear();
  }
}

// A weight that is evicted and read again while the pass before may still be using it.
TEST(GpuFaults, EvictedWeightsComeBackWhole) {
  const LoadedModel model = LoadedModel::open_on(GpuBackend::open(gpu::emu::api(), 0).value(), model_path());
  Session session = model.session(KvType::f32);
  const auto tokens = testing::some_tokens(4, 384);
  std::vector<float> first;
  for (int i = 0; i < 3; i++) {
    session.rewind(0);
    const auto logits = session.evaluate(tokens);
    ASSERT_TRUE(logits.ok()) << logits.error().message;
    if (i == 0) first.assign(logits->begin(), logits->end());
    EXPECT_TRUE(std::equal(first.begin(), first.end(), logits->begin()));
    for (const LazyTensor& tensor : model.plan->weights().tensors()) model.plan->weights().evict(tensor.id);
  }
}

}  // namespace
}  // namespace rocmforge
