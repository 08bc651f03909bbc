// Variants of the families that run: each equals the reference, or is refused by what it has that is not heeded.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "kv/page.h"
#include "support/embedding_golden.h"
#include "support/engine_fixture.h"
#include "support/golden_check.h"
#include "support/tiny_model.h"
#include "support/variants.h"

namespace rocmforge {
namespace {

using testing::Golden;
using testing::LoadedModel;
using testing::variant_file;

#define NEED_VARIANT(path, name)               \
  const std::string path = variant_file(name); \
  if (path.empty()) GTEST_SKIP() << "the reference model '" << (name) << "' was not made"

// By name: is wrong without what the comment says.
const std::vector<std::string> kFew = {
    "glm4moe-nextn",   // a layer that predicts a further token is left out
    "glm4-nextn",      // as there
    "glm4-sections",   // pairs are halves
    "olmo2-swa",       // windows, with plain rope there
    "olmo2-swa+200",   // as there
    "granite-norope",  // no rope
};
const std::vector<std::string> kOthers = {
    "stablelm",    "llama-bias",   "mixtral-shared",  "glm4moe-noqk", "qwen3moe-wide",  "qwen2-yarn", "qwen2-yarn+200",
    "phi3-window", "phi3-partial", "phi3-window+200", "gemma2-27b",   "gemma2-27b+200", "gemma3-27b", "gemma3-27b+200",
};

class Variants : public ::testing::TestWithParam<std::string> {};

TEST_P(Variants, EqualTheReference) {
  const std::string name = GetParam();
  NEED_VARIANT(path, name);
  RF_NEED_SHARED(golden_path, "goldens/logits2/" + name + ".txt");
  const LoadedModel model = LoadedModel::open(path);
  const Golden golden = Golden::read(golden_path);
  for (const KvType kv_type : {KvType::f32, KvType::f16}) {
    testing::expect_golden(model, golden, kv_type, testing::tolerance_of(name, kv_type));
  }
}

// The logits of one pass over each chunk of so many tokens, of the sequence alone.
std::vector<float> in_chunks(const LoadedModel& model, std::span<const TokenId> tokens, uint32_t n) {
  Session session = model.session(KvType::f16, 256);
  std::vector<float> all;
  for (size_t at = 0; at < tokens.size(); at += n) {
    const auto some = testing::evaluate_all(session, tokens.subspan(at, std::min<size_t>(n, tokens.size() - at)));
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// Whatever a family computes: how a text is cut and what shares its batch changes no bit.
TEST_P(Variants, ChunksAndCompanyChangeNoBit) {
  NEED_VARIANT(path, GetParam());
  const LoadedModel model = LoadedModel::open(path);
  ASSERT_FALSE(HasFailure());
  const uint32_t n_vocab = model.plan->spec().n_vocab;
  const auto tokens = testing::some_tokens(70, n_vocab);
  const auto expected = in_chunks(model, tokens, 70);
  EXPECT_TRUE(in_chunks(model, tokens, 1) == expected);
  EXPECT_TRUE(in_chunks(model, tokens, 19) == expected);

  const auto other = testing::some_tokens(9, n_vocab);
  const auto expected_other = in_chunks(model, other, 9);
  ASSERT_TRUE(model.backend->reserve(model.plan->pass_memory(128, 128, 4, KvType::f16)).ok());
  PagePool pool(4);
  BlockTable pages(pool), other_pages(pool);
  ASSERT_TRUE(other_pages.grow_to(9).ok() && pages.grow_to(70).ok());
  Batch batch;
  batch.add(other, 0, other_pages.pages(), false);
  batch.add(tokens, 0, pages.pages(), false);
  if (model.plan->has_states()) {
    for (uint32_t i = 0; i < 2; i++) batch.sequences[i].state_after = StateId(i);
  }
  ASSERT_TRUE(forward(*model.plan, batch).ok());
  std::vector<float> logits(size_t{79} * n_vocab);
  ASSERT_TRUE(model.backend->read(logits, model.plan->logits()).ok());
  const auto split = logits.begin() + ptrdiff_t{9} * n_vocab;
  EXPECT_TRUE(std::equal(logits.begin(), split, expected_other.begin(), expected_other.end()));
  EXPECT_TRUE(std::equal(split, logits.end(), expected.begin(), expected.end()));
}

class Rewinds : public ::testing::TestWithParam<std::string> {};

// A state cannot forget, but its sequence can: what comes after a rewind is what comes after the tokens that are left.
TEST_P(Rewinds, ToTheBitsOfWhatIsLeft) {
  NEED_VARIANT(path, GetParam());
  const LoadedModel model = LoadedModel::open(path);
  ASSERT_FALSE(HasFailure());
  const auto tokens = testing::some_tokens(60, model.plan->spec().n_vocab);
  const std::span<const TokenId> all(tokens);
  for (const auto& [n_left, next] :
       {std::pair{33u, all.subspan(33, 20)}, {40u, all.subspan(5, 7)}, {0u, all.first(9)}}) {
    Session session = model.session(KvType::f16, 16);
    ASSERT_TRUE(session.evaluate(all.first(50)).ok());
    session.rewind(n_left);
    const auto found = session.evaluate(next);
    ASSERT_TRUE(found.ok()) << found.error().message;
    const std::vector<float> logits(found->begin(), found->end());
    Session fresh = model.session(KvType::f16, 16);
    std::vector<TokenId> same(all.begin(), all.begin() + n_left);
    same.insert(same.end(), next.begin(), next.end());
    const auto expected = fresh.evaluate(same);
    ASSERT_TRUE(expected.ok());
    EXPECT_TRUE(std::ranges::equal(logits, *expected)) << n_left;
  }
}

const auto kNameOf = [](const auto& test) { return testing::test_name(test.param); };
INSTANTIATE_TEST_SUITE_P(Few, Variants, ::testing::ValuesIn(kFew), kNameOf);
INSTANTIATE_TEST_SUITE_P(Families, Variants, ::testing::ValuesIn(testing::kNewFamilies), kNameOf);
INSTANTIATE_TEST_SUITE_P(OtherFamilies, Variants, ::testing::ValuesIn(testing::kMoreOfNewFamilies), kNameOf);
INSTANTIATE_TEST_SUITE_P(Recurrent, Variants, ::testing::ValuesIn(testing::kRecurrentFamilies), kNameOf);
INSTANTIATE_TEST_SUITE_P(OtherRecurrent, Variants, ::testing::ValuesIn(testing::kMoreOfRecurrentFamilies), kNameOf);
INSTANTIATE_TEST_SUITE_P(Recurrent, Rewinds, ::testing::ValuesIn(testing::kRecurrentFamilies), kNameOf);
INSTANTIATE_TEST_SUITE_P(Others, Variants, ::testing::ValuesIn(kOthers), kNameOf);

// No file with a reference is forgotten: it is tested above, or its architecture is refused by name.
TEST(VariantFiles, EveryOneIsRightOrRefused) {
  std::ifstream list(testing::data_path("logits2/list.tsv"));  // name, architecture
  std::set<std::string> tested;
  for (const auto* cases : {&testing::kMadeEmbeddings, &testing::kOtherEmbeddings}) {
    for (const testing::EmbeddingCase& one : *cases) tested.insert(one.model);
  }
  for (const auto* names : {&kFew, &kOthers}) tested.insert(names->begin(), names->end());
  for (const auto* names : {&testing::kNewFamilies, &testing::kMoreOfNewFamilies, &testing::kRecurrentFamilies,
                            &testing::kMoreOfRecurrentFamilies}) {
    tested.insert(names->begin(), names->end());
  }
  const auto known = supported_architectures();
  size_t n_refused = 0;
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    std::string name, architecture;
    words >> name >> architecture;
    if (std::ranges::find(known, architecture) != known.end()) {
      EXPECT_TRUE(tested.contains(name)) << name;
      continue;
    }
    const testing::TempDir dir;
    testing::TinyModel{.architecture = architecture}.write(dir.file("m.gguf"));
    const auto file = gguf::GgufFile::open(dir.file("m.gguf"));
    ASSERT_TRUE(file.ok()) << file.error().message;
    const auto spec = read_model_spec(file->metadata());
    ASSERT_FALSE(spec.ok()) << name;
    EXPECT_NE(spec.error().message.find("'" + architecture + "'"), std::string::npos) << spec.error().message;
    n_refused++;
  }
  EXPECT_GT(n_refused, 20u);
}

}  // namespace
}  // namespace rocmforge
