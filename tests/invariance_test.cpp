// The summation contract: how a sequence is cut into passes, what shares its batch and how many threads work on it do
// not change one bit of its logits.

#include <gtest/gtest.h>

#include <algorithm>

#include "support/loaded_model.h"
#include "support/support.h"
#include "support/tiny_model.h"

namespace rocmforge {
namespace {

using testing::LoadedModel;
using testing::some_tokens;
using testing::TempDir;
using testing::TinyModel;

// The logits after every token when the prompt is given in chunks of n.
std::vector<float> in_chunks(const LoadedModel& model, std::span<const TokenId> tokens, uint32_t n, KvType kv_type) {
  Session session = model.session(kv_type, 256);
  std::vector<float> all;
  for (size_t at = 0; at < tokens.size(); at += n) {
    const auto chunk = testing::evaluate_all(session, tokens.subspan(at, std::min<size_t>(n, tokens.size() - at)));
    all.insert(all.end(), chunk.begin(), chunk.end());
  }
  return all;
}

class Invariance : public ::testing::TestWithParam<std::string> {
 protected:
  // A quantized model of the reference material, or the tiny one of this repository in F32.
  std::string path(const TempDir& dir) const {
    if (GetParam() != "tiny" && GetParam() != "experts") {
      return testing::shared_path("goldens/quants/llama-" + GetParam() + ".gguf");
    }
    TinyModel model;
    if (GetParam() == "experts") model.n_experts = 4, model.n_experts_used = 2;
    model.write(dir.file("m.gguf"));
    return dir.file("m.gguf");
  }
};

TEST_P(Invariance, ChunksThreadsAndCompanyDoNotChangeABit) {
  const TempDir dir;
  const std::string file = path(dir);
  if (file.empty()) GTEST_SKIP() << "the reference model in " << GetParam() << " is not beside the checkout";
  for (const KvType kv_type : {KvType::f16, KvType::f32}) {
    const LoadedModel one = LoadedModel::open(file, 1);
    const LoadedModel two = LoadedModel::open(file, 2);
    const uint32_t n_vocab = one.plan->spec().n_vocab;
    const auto tokens = some_tokens(150, n_vocab);
    const auto expected = in_chunks(one, tokens, 150, kv_type);
    for (const uint32_t n : {1u, 7u, 48u}) {
      EXPECT_EQ(in_chunks(one, tokens, n, kv_type), expected) << "chunks of " << n << ", one thread";
      EXPECT_EQ(in_chunks(two, tokens, n, kv_type), expected) << "chunks of " << n << ", two threads";
    }
    EXPECT_EQ(in_chunks(two, tokens, 150, kv_type), expected) << "two threads";
  }
}

TEST_P(Invariance, TwoSequencesInOneBatchAreEachAsIfAlone) {
  const TempDir dir;
  const std::string file = path(dir);
  if (file.empty()) GTEST_SKIP() << "the reference model in " << GetParam() << " is not beside the checkout";
  const LoadedModel model = LoadedModel::open(file, 2);
  const uint32_t n_vocab = model.plan->spec().n_vocab;
  const auto tokens = some_tokens(170, n_vocab);
  const auto a = std::span(tokens).first(100), b = std::span(tokens).subspan(100, 70);
  const auto alone_a = in_chunks(model, a, 100, KvType::f16);
  const auto alone_b = in_chunks(model, b, 70, KvType::f16);

  ASSERT_TRUE(model.backend->reserve(model.plan->pass_memory(256, 256, 6, KvType::f16)).ok());
  PagePool pool(6);
  BlockTable pages_a(pool), pages_b(pool);
  // Interleaved growth, so that neither sequence has its pages in a row.
  ASSERT_TRUE(pages_b.grow_to(64).ok() && pages_a.grow_to(100).ok() && pages_b.grow_to(70).ok());
  std::vector<float> mixed_a, mixed_b;
  const auto pass = [&](uint32_t from_a, uint32_t n_a, uint32_t from_b, uint32_t n_b) {
    Batch batch;
    if (n_b) batch.add(b.subspan(from_b, n_b), from_b, pages_b.pages(), false);
    if (n_a) batch.add(a.subspan(from_a, n_a), from_a, pages_a.pages(), false);
    ASSERT_TRUE(check_batch(batch, n_vocab, 256, 256).ok());
    ASSERT_TRUE(forward(*model.plan, batch).ok());
    std::vector<float> logits(size_t{n_a + n_b} * n_vocab);
    ASSERT_TRUE(model.backend->read(logits, model.plan->logits()).ok());
    const auto split = logits.begin() + static_cast<ptrdiff_t>(size_t{n_b} * n_vocab);
    mixed_b.insert(mixed_b.end(), logits.begin(), split);
    mixed_a.insert(mixed_a.end(), split, logits.end());
  };
  pass(0, 30, 0, 50);
  pass(30, 1, 50, 1);
  pass(31, 69, 51, 1);
  pass(0, 0, 52, 18);
  EXPECT_EQ(mixed_a, alone_a);
  EXPECT_EQ(mixed_b, alone_b);
}

INSTANTIATE_TEST_SUITE_P(Models, Invariance,
                         ::testing::Values("tiny", "experts", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0",
                                           "Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "IQ4_NL", "IQ4_XS", "IQ3_S",
                                           "TQ1_0", "TQ2_0"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace rocmforge
