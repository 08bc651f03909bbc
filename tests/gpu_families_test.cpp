// Families of the second generator of reference material on the emulated GPUs: each equals the reference, and none is
// refused.

#include <gtest/gtest.h>

#include <set>

#include "gpu/backend.h"
#include "gpu/emu/device.h"
#include "support/variants.h"

namespace rocmforge {
namespace {

using testing::Golden;
using testing::LoadedModel;

constexpr uint32_t kPosition = 24;  // whose logits are compared

class GpuVariants : public ::testing::TestWithParam<std::tuple<std::string, uint32_t>> {};

TEST_P(GpuVariants, EqualTheReference) {
  const auto& [name, device] = GetParam();
  const std::string path = testing::variant_file(name);
  if (path.empty()) GTEST_SKIP() << "the reference model '" << name << "' was not made";
  RF_NEED_SHARED(golden, "goldens/logits2/" + name + ".txt");
  auto backend = GpuBackend::open(gpu::emu::api(), device);
  ASSERT_TRUE(backend.ok()) << backend.error().message;
  const LoadedModel model = LoadedModel::open_on(std::move(*backend), path);
  ASSERT_FALSE(HasFailure());
  // f16 with waves of 32, f32 with 64. The first tokens in one pass, the others row by row.
  const KvType kv_type = device == 0 ? KvType::f16 : KvType::f32;
  const Golden reference = Golden::read(golden);
  ASSERT_TRUE(reference.logits.contains(kPosition));
  Session session = model.session(kv_type);
  std::vector<float> logits;
  for (uint32_t at = 0, n = 20; at <= kPosition; at += n, n = 1) {
    const auto some = session.evaluate(std::span(reference.tokens).subspan(at, n));
    ASSERT_TRUE(some.ok()) << some.error().message;
    logits.assign(some->begin(), some->end());
  }
  testing::Nmse nmse;
  nmse.add(logits, reference.logits.at(kPosition));
  EXPECT_LE(nmse.value(), testing::tolerance_of(name, kv_type));
}

// Those whose steps are new, on one device, turn about; the others are left to `make ci`, on one device each too.
std::vector<std::tuple<std::string, uint32_t>> turn_about(const std::vector<std::string>& names) {
  std::vector<std::tuple<std::string, uint32_t>> out;
  for (const std::string& name : names) out.emplace_back(name, static_cast<uint32_t>(out.size() % 2));
  return out;
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<std::string, uint32_t>>& test) {
  const auto& [name, device] = test.param;
  return testing::test_name(name) + (device == 0 ? "_wave32_f16" : "_wave64_f32");
}

const std::vector<std::string> kFew = {"gemma4-moe", "llama4", "step35", "bailingmoe2", "mimo2",
                                       "bloom",      "lfm2",   "qwen35", "mamba2",      "mamba"};

std::vector<std::string> others() {
  const std::set<std::string> few(kFew.begin(), kFew.end());
  std::vector<std::string> out;
  for (const auto* names : {&testing::kNewFamilies, &testing::kMoreOfNewFamilies, &testing::kRecurrentFamilies,
                            &testing::kMoreOfRecurrentFamilies}) {
    for (const std::string& name : *names) {
      // Longer texts and dozens of layers take minutes here.
      const bool is_long = name.find('+') != std::string::npos || name == "exaone4-32b" || name == "command-r-plus";
      if (!few.contains(name) && !is_long) out.push_back(name);
    }
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Few, GpuVariants, ::testing::ValuesIn(turn_about(kFew)), name_of);
INSTANTIATE_TEST_SUITE_P(Others, GpuVariants, ::testing::ValuesIn(turn_about(others())), name_of);

}  // namespace
}  // namespace rocmforge
