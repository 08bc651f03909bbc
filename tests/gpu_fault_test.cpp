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

// Opens the device and the model and computes a few logits; every step may fail.
Result<std::vector<float>> answer() {
  auto backend = TRY(GpuBackend::open(gpu::emu::api(), 0));
  const LoadedModel model = LoadedModel::open_on(std::move(backend), model_path(), nullptr, 1);
  Session session = model.session(KvType::f16);
  const auto tokens = testing::some_tokens(3, 384);
  const auto logits = session.evaluate(tokens);
  if (logits.ok()) return std::vector<float>(logits->begin(), logits->end());
  // The same model again, on a device that works now.
  EXPECT_TRUE(logits.error().code == ErrorCode::device_failed || logits.error().code == ErrorCode::out_of_memory)
      << logits.error().message;
  EXPECT_NE(logits.error().message.find("gpu: "), std::string::npos) << logits.error().message;
  const auto second = session.evaluate(tokens);
  EXPECT_TRUE(second.ok()) << second.error().message;
  if (!second.ok()) return Error(second.error());
  return std::vector<float>(second->begin(), second->end());
}

TEST(GpuFaults, AnyCallMayFailOnce) {
  auto& controls = gpu::emu::controls();
  const uint64_t before = controls.n_calls;
  const std::vector<float> expected = answer().value();
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
