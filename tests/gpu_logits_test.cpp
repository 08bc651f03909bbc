// The reference's logits on the emulated GPUs: every wave size and kind of fragment, both orders of lanes.

#include <gtest/gtest.h>

#include "gpu/backend.h"
#include "gpu/emu/device.h"
#include "support/golden_check.h"

namespace rocmforge {
namespace {

using testing::evaluate_all;
using testing::Golden;
using testing::LoadedModel;
using testing::QuantCase;

LoadedModel open_on_device(const std::string& path, uint32_t device) {
  auto backend = GpuBackend::open(gpu::emu::api(), device);
  EXPECT_TRUE(backend.ok()) << backend.error().message;
  return LoadedModel::open_on(std::move(*backend), path);
}

// ---- small models on every device ----

class GpuGoldens : public ::testing::TestWithParam<std::tuple<const char*, uint32_t>> {
 protected:
  void TearDown() override { gpu::emu::controls().order = gpu::emu::Order::forward; }

  std::string name() const { return std::get<0>(GetParam()); }
  std::string file(const char* suffix) const { return testing::data_path("logits/" + name() + suffix); }
  uint32_t device() const { return std::get<1>(GetParam()); }
};

TEST_P(GpuGoldens, EqualTheReference) {
  const Golden golden = Golden::read(file(".txt"));
  const LoadedModel model = open_on_device(file(".gguf"), device());
  for (const KvType kv_type : {KvType::f32, KvType::f16}) {
    testing::expect_golden(model, golden, kv_type, testing::tolerance_of(name(), kv_type));
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

// A pass that comes again is recorded and replayed; a device that refuses to record launches as before.
TEST_P(GpuGoldens, RecordedPassesHaveTheBitsOfTheirLaunches) {
  const Golden golden = Golden::read(file(".txt"));
  auto& controls = gpu::emu::controls();
  std::vector<float> logits[2];
  for (const bool recorded : {false, true}) {
    controls.refuse_capture = !recorded;
    const LoadedModel model = open_on_device(file(".gguf"), device());
    Session session = model.session(KvType::f16, 3);
    ASSERT_TRUE(model.plan->weights().preload_all().ok());  // experts, too: nothing is recorded while some are absent
    const uint64_t before = controls.n_graph_launches;
    // Rows three at a time, then one at a time: two forms, each recorded the second time.
    logits[recorded] = evaluate_all(session, std::span(golden.tokens).first(12));
    for (const TokenId& token : golden.greedy) {
      const auto next = session.evaluate(std::span(&token, 1));
      ASSERT_TRUE(next.ok()) << next.error().message;
      logits[recorded].insert(logits[recorded].end(), next->begin(), next->end());
    }
    // Of 4 and of 16 passes the first is launched, each of the others as two graphs.
    EXPECT_EQ(controls.n_graph_launches - before, recorded ? 2 * (3 + 15u) : 0u);
    EXPECT_EQ(model.backend->n_refused_recordings(), recorded ? 0u : 2u);  // each form once: not every pass asks again
  }
  controls.refuse_capture = false;
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
    const uint64_t n_graphs = gpu::emu::controls().n_graph_launches;
    EXPECT_FALSE(evaluate_all(session, std::span(golden.tokens).subspan(1)).empty());
    for (const TokenId& token : golden.greedy) ASSERT_TRUE(session.evaluate(std::span(&token, 1)).ok());
    EXPECT_EQ(gpu::emu::controls().n_allocations, n_after_first_pass);
    EXPECT_GT(gpu::emu::controls().n_graph_launches, n_graphs);
  }
  EXPECT_EQ(gpu::emu::controls().held_bytes, held);
}

INSTANTIATE_TEST_SUITE_P(Emulated, GpuGoldens,
                         ::testing::Combine(::testing::Values("llama@384-64-128-2-1-32-2",
                                                              "mixtral@384-64-128-2-1-32-2"),
                                            ::testing::Range(0u, gpu::emu::kNumDevices)));

// ---- every family and geometry, at both wave sizes ----

class GpuFamilies : public ::testing::TestWithParam<std::tuple<std::string, uint32_t>> {};

TEST_P(GpuFamilies, EqualTheReference) {
  const auto& [name, device] = GetParam();
  const std::string model = testing::model_file(name), golden = testing::golden_file(name);
  if (model.empty() || golden.empty()) GTEST_SKIP() << "the reference for '" << name << "' is not beside the checkout";
  // f16 with waves of 32, f32 with 64: each pair of kernels is run, and the small models above run all four.
  const KvType kv_type = device == 0 ? KvType::f16 : KvType::f32;
  testing::expect_golden(open_on_device(model, device), Golden::read(golden), kv_type,
                         testing::tolerance_of(name, kv_type));
}

// Of each family one geometry on one device, turn about; the others are left to `make ci`.
std::vector<std::tuple<std::string, uint32_t>> families(bool first) {
  std::vector<std::tuple<std::string, uint32_t>> out;
  uint32_t n_families = 0;
  for (const std::string& name : testing::kTinyModels) {
    const bool is_family = name.find('@') == std::string::npos;
    if (is_family) n_families++;
    for (const uint32_t device : {0u, 1u}) {
      const bool is_first = is_family && device == n_families % 2;
      if (is_first == first) out.emplace_back(name, device);
    }
  }
  return out;
}

std::string family_name(const ::testing::TestParamInfo<std::tuple<std::string, uint32_t>>& test) {
  const auto& [name, device] = test.param;
  return testing::test_name(name) + (device == 0 ? "_wave32_f16" : "_wave64_f32");
}

INSTANTIATE_TEST_SUITE_P(OneOfEach, GpuFamilies, ::testing::ValuesIn(families(true)), family_name);
INSTANTIATE_TEST_SUITE_P(Others, GpuFamilies, ::testing::ValuesIn(families(false)), family_name);

// ---- one model in every common weight type ----

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
    const double nmse = testing::nmse_of(evaluate_all(session, golden.tokens), golden);
    RecordProperty("nmse_" + std::to_string(max_rows), std::to_string(nmse));
    EXPECT_LE(nmse, testing::quant_tolerance(quant)) << max_rows << " rows at once";
  }
}

std::string quant_name(const ::testing::TestParamInfo<std::tuple<QuantCase, uint32_t>>& test) {
  return std::get<0>(test.param).type;
}

// The formats' kernels are tested at both wave sizes on their own. Of whole models a few say enough; the others are
// left to `make ci`.
constexpr const char* kFewTypes[] = {"F16", "Q8_0", "Q4_K_M", "IQ4_XS"};

std::vector<QuantCase> quants(bool few) {
  std::vector<QuantCase> out;
  for (const QuantCase& quant : testing::kQuantCases) {
    const bool is_one = std::ranges::find(kFewTypes, std::string_view(quant.type)) != std::end(kFewTypes);
    if (is_one == few) out.push_back(quant);
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Wave32, GpuQuantGoldens,
                         ::testing::Combine(::testing::ValuesIn(quants(true)), ::testing::Values(0u)), quant_name);
INSTANTIATE_TEST_SUITE_P(Others, GpuQuantGoldens,
                         ::testing::Combine(::testing::ValuesIn(quants(false)), ::testing::Values(0u)), quant_name);
INSTANTIATE_TEST_SUITE_P(OthersWave64, GpuQuantGoldens,
                         ::testing::Combine(::testing::ValuesIn(quants(true)), ::testing::Values(1u)), quant_name);

}  // namespace
}  // namespace rocmforge
