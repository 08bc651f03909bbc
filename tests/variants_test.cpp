// Variants of the families that run: each equals the reference, or is refused by what it has that is not heeded.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "support/engine_fixture.h"
#include "support/golden_check.h"
#include "support/tiny_model.h"

namespace rocmforge {
namespace {

using testing::Golden;
using testing::LoadedModel;

// The file of a variant, of which NAME+200 is a longer text; empty when absent.
std::string variant_file(std::string name) {
  if (const size_t at = name.find('+'); at != name.npos) name.resize(at);
  return testing::model_file("variants/" + name);
}

#define NEED_VARIANT(path, name)               \
  const std::string path = variant_file(name); \
  if (path.empty()) GTEST_SKIP() << "the reference model '" << (name) << "' was not made"

// By name: is wrong without what the comment says.
const std::vector<const char*> kFew = {
    "glm4moe-nextn",   // a layer that predicts a further token is left out
    "glm4-nextn",      // as there
    "glm4-sections",   // pairs are halves
    "olmo2-swa",       // windows, with plain rope there
    "olmo2-swa+200",   // as there
    "granite-norope",  // no rope
};
const std::vector<const char*> kOthers = {
    "stablelm",    "llama-bias",   "mixtral-shared",  "glm4moe-noqk", "qwen3moe-wide",  "qwen2-yarn", "qwen2-yarn+200",
    "phi3-window", "phi3-partial", "phi3-window+200", "gemma2-27b",   "gemma2-27b+200", "gemma3-27b", "gemma3-27b+200",
};

const std::vector<const char*> kFamilies = {"mistral3",
                                            "mistral3+200",
                                            "qwen3vl",
                                            "qwen3vl+200",
                                            "qwen3vlmoe",
                                            "qwen2vl",
                                            "gemma",
                                            "gemma4",
                                            "gemma4+200",
                                            "gemma4-e2b",
                                            "gemma4-e2b+200",
                                            "gemma4-moe",
                                            "gemma4-moe+200",
                                            "llama4",
                                            "llama4-maverick",
                                            "smollm3",
                                            "exaone4",
                                            "exaone4-32b",
                                            "exaone4-32b+200",
                                            "exaone4-nextn",
                                            "cohere2",
                                            "cohere2+200",
                                            "olmo",
                                            "olmoe",
                                            "granitemoe",
                                            "granitemoe-shared",
                                            "internlm2",
                                            "phi2",
                                            "phimoe",
                                            "falcon",
                                            "falcon-40b",
                                            "gptneox",
                                            "gptneox-serial",
                                            "bloom",
                                            "bloom+200",
                                            "mpt",
                                            "baichuan",
                                            "baichuan-13b",
                                            "starcoder",
                                            "stablelm-12b",
                                            "minicpm",
                                            "minicpm-old",
                                            "minicpm-longrope",
                                            "qwen",
                                            "qwen2moe",
                                            "deepseek",
                                            "ernie4_5",
                                            "ernie4_5-moe",
                                            "hunyuan-dense",
                                            "hunyuan-moe",
                                            "seed_oss",
                                            "bailingmoe",
                                            "bailingmoe2",
                                            "dots1",
                                            "nemotron",
                                            "arcee",
                                            "apertus",
                                            "minimax-m2",
                                            "mimo2",
                                            "mimo2+200",
                                            "step35",
                                            "step35+200",
                                            "step35-nextn",
                                            "step35-nextn+200",
                                            "exaone-moe",
                                            "exaone-moe+200",
                                            "afmoe",
                                            "afmoe+200",
                                            "pangu-embedded",
                                            "grok",
                                            "dbrx",
                                            "orion",
                                            "xverse",
                                            "command-r-plus",
                                            "jais2",
                                            "plamo3",
                                            "plamo3+200",
                                            "exaone",
                                            "codeshell",
                                            "plamo",
                                            "refact",
                                            "refact+200",
                                            "jais",
                                            "openelm",
                                            "deci",
                                            "laguna",
                                            "laguna+200",
                                            "laguna-m1",
                                            "smallthinker",
                                            "cohere2moe",
                                            "cohere2moe+200",
                                            "paddleocr",
                                            "hunyuan_vl",
                                            "granite_swa",
                                            "granite_swa+200",
                                            "granite_swa-moe",
                                            "granite_swa-moe+200",
                                            "mellum",
                                            "mellum+200",
                                            "maincoder",
                                            "arctic",
                                            "hy_v3",
                                            "bitnet"};

struct Refused {
  const char* name;
  const char* by;
};
const std::vector<Refused> kRefused = {
    {"qwen3-rank", "'qwen3.pooling_type'"},
};

class Variants : public ::testing::TestWithParam<const char*> {};

TEST_P(Variants, EqualTheReference) {
  const std::string name = GetParam();
  NEED_VARIANT(model, name);
  RF_NEED_SHARED(golden, "goldens/logits2/" + name + ".txt");
  testing::expect_golden(LoadedModel::open(model), Golden::read(golden), KvType::f32,
                         testing::tolerance_of(name, KvType::f32));
}

const auto kNameOf = [](const auto& test) { return testing::test_name(test.param); };
INSTANTIATE_TEST_SUITE_P(Few, Variants, ::testing::ValuesIn(kFew), kNameOf);
INSTANTIATE_TEST_SUITE_P(Families, Variants, ::testing::ValuesIn(kFamilies), kNameOf);
INSTANTIATE_TEST_SUITE_P(Others, Variants, ::testing::ValuesIn(kOthers), kNameOf);

TEST(VariantFiles, WhatIsNotHeededIsRefusedByName) {
  for (const Refused& refused : kRefused) {
    NEED_VARIANT(path, refused.name);
    auto file = gguf::GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    CpuBackend backend({.n_threads = 1});
    const auto plan = ExecutionPlan::from_gguf(backend, std::make_shared<gguf::GgufFile>(std::move(*file)));
    ASSERT_FALSE(plan.ok()) << refused.name;
    EXPECT_NE(plan.error().message.find(refused.by), std::string::npos) << plan.error().message;
  }
}

// The pooled row of the reference, of length 1.
std::vector<float> reference_embedding(const std::string& path) {
  std::istringstream lines(testing::read_text(path));
  std::vector<float> out;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind, pooling;
    words >> kind;
    if (kind != "embedding") continue;
    words >> pooling;
    for (float x; words >> x;) out.push_back(x);
  }
  double squares = 0;
  for (const float x : out) squares += double{x} * x;
  for (float& x : out) x = static_cast<float>(x / std::sqrt(squares));
  return out;
}

TEST(VariantFiles, EmbeddingsArePooledAsTheFileSays) {
  NEED_VARIANT(path, "qwen3-embed");
  auto model = Model::open(path, {});
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ((*model)->plan().spec().pooling, Pooling::last);
  auto engine = Engine::create(std::move(*model), {.kv_type = KvType::f32});
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  for (const auto& [pooling, word] : {std::pair(Pooling::last, "last"), std::pair(Pooling::mean, "mean")}) {
    RF_NEED_SHARED(golden, fmt::format("goldens/embeddings2/qwen3-embed.{}.txt", word));
    testing::Collector collector;
    ASSERT_TRUE((*engine)->submit(EmbeddingRequest{Golden::read(golden).tokens, pooling}, collector.receiver()).ok());
    const std::vector<float> reference = reference_embedding(golden), ours = collector.wait().embedding;
    ASSERT_EQ(ours.size(), reference.size());
    testing::Nmse nmse;
    nmse.add(ours, reference);
    EXPECT_LE(nmse.value(), 1e-8) << word;
  }
}

// No file with a reference is forgotten: it is tested above, or its architecture is refused by name.
TEST(VariantFiles, EveryOneIsRightOrRefused) {
  std::ifstream list(testing::data_path("logits2/list.tsv"));  // name, architecture
  std::set<std::string> tested = {"qwen3-embed"};
  for (const auto* names : {&kFew, &kOthers, &kFamilies}) tested.insert(names->begin(), names->end());
  for (const Refused& refused : kRefused) tested.insert(refused.name);
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
  EXPECT_GT(n_refused, 50u);
}

}  // namespace
}  // namespace rocmforge
