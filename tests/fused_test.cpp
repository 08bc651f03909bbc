// What runs against what is written: for every family and geometry the fused steps have the bits of the plan's own
// steps, one after the other, on the CPU.

#include <gtest/gtest.h>

#include <set>

#include "support/variants.h"

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
  std::string path = testing::model_file(GetParam());
  if (path.empty()) path = testing::variant_file(GetParam());
  if (path.empty()) GTEST_SKIP() << "the model '" << GetParam() << "' is not beside the checkout";
  const LoadedModel fused = open(path, true), reference = open(path, false);
  ASSERT_FALSE(HasFailure());
  EXPECT_GE(n_fused(*fused.plan), 2u * fused.plan->spec().n_layers);
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

// A longer text is for the same model.
std::vector<std::string> models_of(const std::vector<std::string>& names) {
  std::set<std::string> models;
  for (const std::string& name : names) models.insert(name.substr(0, name.find('+')));
  return {models.begin(), models.end()};
}

const auto kNameOf = [](const auto& test) { return testing::test_name(test.param); };
INSTANTIATE_TEST_SUITE_P(Models, FusedPlan, ::testing::ValuesIn(testing::kTinyModels), kNameOf);
INSTANTIATE_TEST_SUITE_P(Families, FusedPlan, ::testing::ValuesIn(models_of(testing::kNewFamilies)), kNameOf);
INSTANTIATE_TEST_SUITE_P(OtherFamilies, FusedPlan, ::testing::ValuesIn(models_of(testing::kMoreOfNewFamilies)),
                         kNameOf);

}  // namespace
}  // namespace rocmforge
