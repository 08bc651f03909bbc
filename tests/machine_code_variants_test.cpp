// The families of the second generator of reference material, and models of embeddings, by machine code.

#include <gtest/gtest.h>

#include "engine/embedder.h"
#include "support/embedding_golden.h"
#include "support/machine_target.h"
#include "support/variants.h"

using ::testing::Combine;
using ::testing::ValuesIn;

namespace rocmforge {
namespace {

using testing::EmbeddingCase;
using testing::EmbeddingGolden;

class MachineCodeVariants : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

// Of the 48 tokens most in one pass, the others as a few rows.
TEST_P(MachineCodeVariants, EqualTheReference) {
  const auto& [target, name] = GetParam();
  const std::string model = testing::variant_file(name);
  if (model.empty()) GTEST_SKIP() << "the reference model '" << name << "' was not made";
  RF_NEED_SHARED(golden, "goldens/logits2/" + name + ".txt");
  testing::expect_golden_by_machine_code(target, model, golden, testing::tolerance_of(name, KvType::f16), KvType::f16,
                                         44);
}

const auto variant_name = [](const auto& test) {
  return std::get<0>(test.param) + "_" + testing::test_name(std::get<1>(test.param));
};
#define RF_VARIANTS(name, names)                                                                                 \
  INSTANTIATE_TEST_SUITE_P(name, MachineCodeVariants, Combine(ValuesIn(testing::kMainTargets), ValuesIn(names)), \
                           variant_name)
RF_VARIANTS(, testing::kNewFamilies);
RF_VARIANTS(More, testing::kMoreOfNewFamilies);
RF_VARIANTS(Recurrent, testing::kRecurrentFamilies);
RF_VARIANTS(MoreRecurrent, testing::kMoreOfRecurrentFamilies);
INSTANTIATE_TEST_SUITE_P(OtherTargets, MachineCodeVariants,
                         Combine(ValuesIn(testing::kOtherTargets),
                                 ::testing::Values("bloom", "lfm2", "qwen35", "mamba2", "mamba")),
                         variant_name);

class MachineCodeEmbeddings : public ::testing::TestWithParam<std::tuple<std::string, EmbeddingCase>> {};

TEST_P(MachineCodeEmbeddings, EqualTheReference) {
  const auto& [target, param] = GetParam();
  const std::string path = testing::variant_file(param.model);
  if (path.empty()) GTEST_SKIP() << "the reference model '" << param.model << "' was not made";
  RF_NEED_SHARED(golden, std::string("goldens/embeddings2/") + param.golden + ".txt");
  RF_NEED_MACHINE_TARGET(backend, target);
  const auto model = testing::LoadedModel::open_on(std::move(*backend), path);
  ASSERT_FALSE(HasFailure());
  const EmbeddingGolden reference = EmbeddingGolden::read(golden);
  auto embedder = Embedder::create(*model.plan, {.n_context = 64, .kv_type = KvType::f32});
  ASSERT_TRUE(embedder.ok()) << embedder.error().message;
  const auto out = (*embedder)->embed({{.tokens = reference.tokens, .pooling = param.pooling, .normalise = false}});
  ASSERT_TRUE(out.ok()) << out.error().message;
  ASSERT_EQ((*out)[0].size(), reference.embedding.size());
  testing::Nmse nmse;
  nmse.add((*out)[0], reference.embedding);
  EXPECT_LE(nmse.value(), std::max(param.tolerance, 1e-7));
}

const auto embedding_name = [](const auto& test) {
  return std::get<0>(test.param) + "_" + testing::test_name(std::get<1>(test.param).golden);
};
INSTANTIATE_TEST_SUITE_P(, MachineCodeEmbeddings,
                         Combine(ValuesIn(testing::kMainTargets), ValuesIn(testing::kMadeEmbeddings)), embedding_name);
INSTANTIATE_TEST_SUITE_P(More, MachineCodeEmbeddings,
                         Combine(ValuesIn(testing::kMainTargets), ValuesIn(testing::kOtherEmbeddings)), embedding_name);

}  // namespace
}  // namespace rocmforge
