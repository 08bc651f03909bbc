// The goldens on this machine's GPU; skipped where there is none. Modules are taken from ROCMFORGE_TEST_MODULES, or
// from the build folder.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "gpu/backend.h"
#include "gpu/module.h"
#include "support/golden.h"
#include "support/loaded_model.h"
#include "support/support.h"

namespace rocmforge {
namespace {

using testing::evaluate_all;
using testing::Golden;
using testing::LoadedModel;

std::vector<std::string> folders() {
  const char* named = std::getenv("ROCMFORGE_TEST_MODULES");
  return {named != nullptr ? named : RF_MODULE_FOLDER};
}

double nmse_of(Session& session, const Golden& golden) {
  const std::vector<float> logits = evaluate_all(session, golden.tokens);
  const size_t n_vocab = golden.logits.begin()->second.size();
  EXPECT_EQ(logits.size(), golden.tokens.size() * n_vocab);
  if (logits.size() != golden.tokens.size() * n_vocab) return INFINITY;
  testing::Nmse nmse;
  for (const auto& [position, reference] : golden.logits) {
    nmse.add(std::span(logits).subspan(position * n_vocab, n_vocab), reference);
  }
  return nmse.value();
}

class GpuDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu::find_devices(folders()).devices.empty()) GTEST_SKIP() << "this machine has no GPU, or no module for it";
  }
  LoadedModel open(const std::string& path) {
    auto backend = gpu::open_backend("gpu", folders());
    EXPECT_TRUE(backend.ok()) << backend.error().message;
    return LoadedModel::open_on(std::move(*backend), path);
  }
  static std::string model_file(const std::string& name) {
    const std::string committed = testing::data_path("logits/" + name + ".gguf");
    if (std::filesystem::exists(committed)) return committed;
    const char* folder = std::getenv("ROCMFORGE_GOLDEN_MODELS");
    const std::string generated = std::string(folder ? folder : "") + "/" + name + ".gguf";
    return std::filesystem::exists(generated) ? generated : std::string();
  }
};

TEST_F(GpuDevice, EqualsTheReference) {
  for (const char* name : {"llama@384-64-128-2-1-32-2", "mixtral@384-64-128-2-1-32-2", "llama", "llama-tied-ropefreqs",
                           "llama-yarn", "llama-linear", "mixtral", "qwen2", "llama@1003-384-800-4-2-96-2",
                           "llama@1003-512-544-2-1-256-2", "llama@1003-512-800-4-1-128-2"}) {
    SCOPED_TRACE(name);
    const std::string path = model_file(name);
    std::string reference = testing::data_path(std::string("logits/") + name + ".txt");
    if (!std::filesystem::exists(reference)) {
      reference = testing::shared_path(std::string("goldens/logits/") + name + ".txt");
    }
    if (path.empty() || reference.empty()) continue;
    const Golden golden = Golden::read(reference);
    const LoadedModel model = open(path);
    for (const KvType kv_type : {KvType::f32, KvType::f16}) {
      Session session = model.session(kv_type);
      EXPECT_LE(nmse_of(session, golden), kv_type == KvType::f32 ? 1e-8 : 1e-5);
      if (kv_type == KvType::f16) continue;
      TokenId token = golden.greedy[0];
      for (size_t i = 1; i < golden.greedy.size(); i++) {
        const auto logits = session.evaluate(std::span(&token, 1));
        ASSERT_TRUE(logits.ok()) << logits.error().message;
        token = TokenId(static_cast<int32_t>(std::max_element(logits->begin(), logits->end()) - logits->begin()));
        EXPECT_EQ(token, golden.greedy[i]) << "greedy token " << i;
      }
    }
  }
}

TEST_F(GpuDevice, QuantizedWeightsAreAsCloseAsThePeers) {
  // 1.5 times llama.cpp's own distance from exact.
  for (const auto& [type, peer_nmse] : std::initializer_list<std::pair<const char*, double>>{{"F16", 8.5e-07},
                                                                                             {"BF16", 4.6e-05},
                                                                                             {"Q4_0", 8.5e-04},
                                                                                             {"Q4_1", 8.6e-04},
                                                                                             {"Q5_0", 9.4e-04},
                                                                                             {"Q5_1", 1.1e-03},
                                                                                             {"Q8_0", 7.9e-04},
                                                                                             {"Q2_K", 1.9e-03},
                                                                                             {"Q3_K_M", 1.3e-03},
                                                                                             {"Q4_K_M", 1.9e-03},
                                                                                             {"Q5_K_M", 1.8e-03},
                                                                                             {"Q6_K", 1.9e-03},
                                                                                             {"IQ4_NL", 9.5e-04},
                                                                                             {"IQ4_XS", 1.7e-03},
                                                                                             {"IQ3_S", 2.1e-03},
                                                                                             {"TQ1_0", 2.1e-03},
                                                                                             {"TQ2_0", 2.1e-03}}) {
    SCOPED_TRACE(type);
    const std::string base = std::string("goldens/quants/llama-") + type;
    const std::string model_path = testing::shared_path(base + ".gguf");
    const std::string golden_path = testing::shared_path(base + ".txt");
    if (model_path.empty() || golden_path.empty()) continue;
    const Golden golden = Golden::read(golden_path);
    const LoadedModel model = open(model_path);
    for (const uint32_t max_rows : {64u, 8u}) {
      Session session = model.session(KvType::f32, max_rows);
      EXPECT_LE(nmse_of(session, golden), 1.5 * peer_nmse) << max_rows << " rows at once";
    }
  }
}

}  // namespace
}  // namespace rocmforge
