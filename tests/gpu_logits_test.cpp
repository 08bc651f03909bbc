// The reference's logits on the emulated GPUs: every wave size and kind of fragment, both orders of lanes.

#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/backend.h"
#include "gpu/emu/device.h"
#include "support/golden.h"
#include "support/loaded_model.h"
#include "support/support.h"

namespace rocmforge {
namespace {

using testing::evaluate_all;
using testing::Golden;
using testing::LoadedModel;
using testing::Nmse;

LoadedModel open_on_device(const std::string& path, uint32_t device) {
  auto backend = GpuBackend::open(gpu::emu::api(), device);
  EXPECT_TRUE(backend.ok()) << backend.error().message;
  return LoadedModel::open_on(std::move(*backend), path);
}

double nmse_of(Session& session, const Golden& golden) {
  const std::vector<float> logits = evaluate_all(session, golden.tokens);
  const size_t n_vocab = golden.logits.begin()->second.size();
  EXPECT_EQ(logits.size(), golden.tokens.size() * n_vocab);
  if (logits.size() != golden.tokens.size() * n_vocab) return INFINITY;
  Nmse nmse;
  for (const auto& [position, reference] : golden.logits) {
    nmse.add(std::span(logits).subspan(position * n_vocab, n_vocab), reference);
  }
  return nmse.value();
}

class GpuGoldens : public ::testing::TestWithParam<std::tuple<const char*, uint32_t>> {
 protected:
  void TearDown() override { gpu::emu::controls().order = gpu::emu::Order::forward; }

  std::string file(const char* suffix) const {
    return testing::data_path(std::string("logits/") + std::get<0>(GetParam()) + suffix);
  }
  uint32_t device() const { return std::get<1>(GetParam()); }
};

TEST_P(GpuGoldens, EqualTheReference) {
  const Golden golden = Golden::read(file(".txt"));
  const LoadedModel model = open_on_device(file(".gguf"), device());
  ASSERT_FALSE(HasFailure());
  for (const KvType kv_type : {KvType::f32, KvType::f16}) {
    Session session = model.session(kv_type);
    EXPECT_LE(nmse_of(session, golden), kv_type == KvType::f32 ? 1e-8 : 1e-5);
    if (kv_type == KvType::f16) continue;
    // The continuation, one token at a time: the kernels for few rows.
    TokenId token = golden.greedy[0];
    for (size_t i = 1; i < golden.greedy.size(); i++) {
      const auto logits = session.evaluate(std::span(&token, 1));
      ASSERT_TRUE(logits.ok()) << logits.error().message;
      token = TokenId(static_cast<int32_t>(std::max_element(logits->begin(), logits->end()) - logits->begin()));
      EXPECT_EQ(token, golden.greedy[i]) << "greedy token " << i;
    }
  }
}

// Lanes, waves and blocks turned around: a missing barrier would show.
TEST_P(GpuGoldens, TheOrderOfLanesChangesNoBit) {
  const Golden golden = Golden::read(file(".txt"));
  std::vector<float> logits[2];
  for (const gpu::emu::Order order : {gpu::emu::Order::forward, gpu::emu::Order::reverse}) {
    gpu::emu::controls().order = order;
    const LoadedModel model = open_on_device(file(".gguf"), device());
    Session session = model.session(KvType::f16);
    logits[static_cast<size_t>(order)] = evaluate_all(session, golden.tokens);
  }
  EXPECT_TRUE(logits[0] == logits[1]);
}

// From the first load to clear() the device's allocator is not called: not by loading, not by passes.
TEST_P(GpuGoldens, NothingIsAllocatedBetweenReserveAndRelease) {
  const Golden golden = Golden::read(file(".txt"));
  const int64_t held = gpu::emu::controls().held_bytes;
  {
    const LoadedModel model = open_on_device(file(".gguf"), device());
    Session session = model.session(KvType::f16);
    ASSERT_TRUE(model.plan->weights().preload_layers(0, 1).ok());  // reserves the weights' arena
    const uint64_t n_after_first_load = gpu::emu::controls().n_allocations;
    ASSERT_TRUE(model.plan->weights().preload_all().ok());
    EXPECT_EQ(gpu::emu::controls().n_allocations, n_after_first_load);
    EXPECT_FALSE(evaluate_all(session, std::span(golden.tokens).first(1)).empty());  // reserves the pass's memory
    const uint64_t n_after_first_pass = gpu::emu::controls().n_allocations;
    EXPECT_FALSE(evaluate_all(session, std::span(golden.tokens).subspan(1)).empty());
    EXPECT_EQ(gpu::emu::controls().n_allocations, n_after_first_pass);
  }
  EXPECT_EQ(gpu::emu::controls().held_bytes, held);
}

INSTANTIATE_TEST_SUITE_P(Emulated, GpuGoldens,
                         ::testing::Combine(::testing::Values("llama@384-64-128-2-1-32-2",
                                                              "mixtral@384-64-128-2-1-32-2"),
                                            ::testing::Range(0u, gpu::emu::kNumDevices)));

// One model in every common weight type against its own exact logits; the bounds are 1.5 times llama.cpp's figures.
struct QuantCase {
  const char* type;
  double peer_nmse;
};

class GpuQuantGoldens : public ::testing::TestWithParam<std::tuple<QuantCase, uint32_t>> {};

TEST_P(GpuQuantGoldens, AreAsCloseAsThePeers) {
  const auto& [quant, device] = GetParam();
  const std::string base = std::string("goldens/quants/llama-") + quant.type;
  RF_NEED_SHARED(model_path, base + ".gguf");
  RF_NEED_SHARED(golden_path, base + ".txt");
  const Golden golden = Golden::read(golden_path);
  const LoadedModel model = open_on_device(model_path, device);
  for (const uint32_t max_rows : {64u, 8u}) {  // tiles, and the kernels for few rows
    Session session = model.session(KvType::f32, max_rows);
    const double nmse = nmse_of(session, golden);
    RecordProperty("nmse_" + std::to_string(max_rows), std::to_string(nmse));
    EXPECT_LE(nmse, 1.5 * quant.peer_nmse) << max_rows << " rows at once";
  }
}

std::string quant_name(const ::testing::TestParamInfo<std::tuple<QuantCase, uint32_t>>& test) {
  return std::get<0>(test.param).type;
}

INSTANTIATE_TEST_SUITE_P(Wave32, GpuQuantGoldens,
                         ::testing::Combine(::testing::Values(QuantCase{"F16", 8.5e-07}, QuantCase{"BF16", 4.6e-05},
                                                              QuantCase{"Q4_0", 8.5e-04}, QuantCase{"Q4_1", 8.6e-04},
                                                              QuantCase{"Q5_0", 9.4e-04}, QuantCase{"Q5_1", 1.1e-03},
                                                              QuantCase{"Q8_0", 7.9e-04}, QuantCase{"Q2_K", 1.9e-03},
                                                              QuantCase{"Q3_K_M", 1.3e-03},
                                                              QuantCase{"Q4_K_M", 1.9e-03},
                                                              QuantCase{"Q5_K_M", 1.8e-03}, QuantCase{"Q6_K", 1.9e-03},
                                                              QuantCase{"IQ4_NL", 9.5e-04},
                                                              QuantCase{"IQ4_XS", 1.7e-03}, QuantCase{"IQ3_S", 2.1e-03},
                                                              QuantCase{"TQ1_0", 2.1e-03}, QuantCase{"TQ2_0", 2.1e-03}),
                                            ::testing::Values(0u)),
                         quant_name);
// The formats' kernels are tested at both wave sizes on their own; of whole models these four say enough.
INSTANTIATE_TEST_SUITE_P(Wave64, GpuQuantGoldens,
                         ::testing::Combine(::testing::Values(QuantCase{"F16", 8.5e-07}, QuantCase{"BF16", 4.6e-05},
                                                              QuantCase{"Q8_0", 7.9e-04}, QuantCase{"Q4_K_M", 1.9e-03}),
                                            ::testing::Values(1u)),
                         quant_name);

}  // namespace
}  // namespace rocmforge
