// Embeddings and rerankers on the emulated GPUs: each equals the reference, or is refused by what the kernels lack.

#include <gtest/gtest.h>

#include <fmt/core.h>

#include <sstream>

#include "engine/embedder.h"
#include "gpu/backend.h"
#include "gpu/emu/device.h"
#include "support/embedding_golden.h"
#include "support/variants.h"

namespace rocmforge {
namespace {

using testing::EmbeddingCase;
using testing::EmbeddingGolden;

class GpuEmbeddings : public ::testing::TestWithParam<std::tuple<EmbeddingCase, uint32_t>> {};

TEST_P(GpuEmbeddings, EqualTheReference) {
  const auto& [param, device] = GetParam();
  const std::string path = testing::variant_file(param.model);
  if (path.empty()) GTEST_SKIP() << "the reference model '" << param.model << "' was not made";
  RF_NEED_SHARED(golden, fmt::format("goldens/embeddings2/{}.txt", param.golden));
  auto backend = GpuBackend::open(gpu::emu::api(), device);
  ASSERT_TRUE(backend.ok()) << backend.error().message;
  const auto model = testing::LoadedModel::open_on(std::move(*backend), path);
  ASSERT_FALSE(HasFailure());
  const EmbeddingGolden reference = EmbeddingGolden::read(golden);
  auto embedder = Embedder::create(*model.plan, {.n_context = 64, .kv_type = KvType::f32});
  ASSERT_TRUE(embedder.ok()) << embedder.error().message;
  // A second text in the same batch.
  const auto out = (*embedder)->embed({{.tokens = {TokenId(5)}, .pooling = param.pooling},
                                       {.tokens = reference.tokens, .pooling = param.pooling, .normalise = false}});
  ASSERT_TRUE(out.ok()) << out.error().message;
  ASSERT_EQ((*out)[1].size(), reference.embedding.size());
  testing::Nmse nmse;
  nmse.add((*out)[1], reference.embedding);
  EXPECT_LE(nmse.value(), std::max(param.tolerance, 1e-7));
}

std::vector<std::tuple<EmbeddingCase, uint32_t>> turn_about(const std::vector<EmbeddingCase>& cases) {
  std::vector<std::tuple<EmbeddingCase, uint32_t>> out;
  for (const EmbeddingCase& one : cases) {
    out.emplace_back(one, static_cast<uint32_t>(out.size() % 2));
  }
  return out;
}

const auto kNameOf = [](const auto& test) {
  return testing::test_name(std::get<0>(test.param).golden) + (std::get<1>(test.param) == 0 ? "_wave32" : "_wave64");
};
INSTANTIATE_TEST_SUITE_P(Made, GpuEmbeddings, ::testing::ValuesIn(turn_about(testing::kMadeEmbeddings)), kNameOf);
INSTANTIATE_TEST_SUITE_P(Others, GpuEmbeddings, ::testing::ValuesIn(turn_about(testing::kOtherEmbeddings)), kNameOf);

}  // namespace
}  // namespace rocmforge
