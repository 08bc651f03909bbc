// What runs against what is written: for every family and geometry the fused steps have the bits of the plan's own
// steps, one after the other, on the CPU.

#include <gtest/gtest.h>

#include "support/golden_check.h"

namespace rocmforge {
namespace {

using testing::LoadedModel;

LoadedModel open(const std::string& path, bool fuse) {
  return LoadedModel::open_on(std::make_unique<CpuBackend>(CpuBackend::Options{.n_threads = 2}), path, nullptr, 2,
                              fuse);
}

size_t n_fused(const ExecutionPlan& plan) {
  size_t n = 0;
  for (const Stage& stage : plan.stages()) n += std::ranges::count_if(stage.fused, is_fused);
  return n;
}

class FusedPlan : public ::testing::TestWithParam<std::string> {};

TEST_P(FusedPlan, HasTheBitsOfTheReference) {
  const std::string path = testing::model_file(GetParam());
  if (path.empty()) GTEST_SKIP() << "the model '" << GetParam() << "' is not beside the checkout";
  const LoadedModel fused = open(path, true), reference = open(path, false);
  ASSERT_FALSE(HasFailure());
  EXPECT_GE(n_fused(*fused.plan), 3u * fused.plan->spec().n_layers);
  EXPECT_EQ(n_fused(*reference.plan), 0u);
  const auto tokens = testing::some_tokens(40, fused.plan->spec().n_vocab);
  for (const KvType kv_type : {KvType::f32, KvType::f16}) {
    Session a = fused.session(kv_type), b = reference.session(kv_type);
    EXPECT_TRUE(testing::evaluate_all(a, std::span(tokens).first(32)) ==
                testing::evaluate_all(b, std::span(tokens).first(32)));
    for (size_t i = 32; i < tokens.size(); i++) {
      const auto one = std::span(tokens).subspan(i, 1);
      EXPECT_TRUE(testing::evaluate_all(a, one) == testing::evaluate_all(b, one)) << "token " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FusedPlan, ::testing::ValuesIn(testing::kTinyModels),
                         [](const auto& test) { return testing::test_name(test.param); });

}  // namespace
}  // namespace rocmforge
