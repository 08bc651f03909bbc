#pragma once
// A model's numbers against the reference's, on any backend, and the lists of models that have references. Tolerances
// are those of the goldens' README. Header only: for tests that cross rooms.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "support/golden.h"
#include "support/loaded_model.h"
#include "support/support.h"

namespace rocmforge::testing {

// Tiny random models of every family and geometry, F32 weights. NAME@vocab-width-ff-heads-kv_heads-head_size-layers
inline const std::vector<std::string> kTinyModels = {
    "llama@384-64-128-2-1-32-2",
    "mixtral@384-64-128-2-1-32-2",
    "qwen3@384-64-128-2-1-32-2",
    "stablelm@384-64-128-2-1-32-2",
    "chatglm",
    "command-r",
    "gemma2",
    "gemma3",
    "gemma3@1003-384-800-4-2-96-2",
    "gemma3@1003-512-544-2-1-256-2",
    "gemma3@1003-512-800-4-1-128-2",
    "glm4",
    "glm4moe",
    "glm4moe@1003-384-800-4-2-96-2",
    "glm4moe@1003-512-544-2-1-256-2",
    "glm4moe@1003-512-800-4-1-128-2",
    "gpt-oss",
    "gpt-oss@1003-384-800-4-2-96-2",
    "gpt-oss@1003-512-544-2-1-256-2",
    "gpt-oss@1003-512-800-4-1-128-2",
    "gpt2",
    "granite",
    "llama",
    "llama-linear",
    "llama-tied-ropefreqs",
    "llama-yarn",
    "llama@1003-384-800-4-2-96-2",
    "llama@1003-512-544-2-1-256-2",
    "llama@1003-512-800-4-1-128-2",
    "mixtral",
    "olmo2",
    "phi3",
    "phi3-longrope",
    "phi3@1003-384-800-4-2-96-2",
    "phi3@1003-512-544-2-1-256-2",
    "phi3@1003-512-800-4-1-128-2",
    "qwen2",
    "qwen3",
    "qwen3@1003-384-800-4-2-96-2",
    "qwen3@1003-512-544-2-1-256-2",
    "qwen3@1003-512-800-4-1-128-2",
    "qwen3moe",
    "qwen3moe@1003-384-800-4-2-96-2",
    "qwen3moe@1003-512-544-2-1-256-2",
    "qwen3moe@1003-512-800-4-1-128-2",
    "starcoder2",
    "starcoder2@1003-384-800-4-2-96-2",
    "starcoder2@1003-512-544-2-1-256-2",
    "starcoder2@1003-512-800-4-1-128-2",
};

// A few are in the repository; tests/golden_models makes the others into the first folder of ROCMFORGE_GOLDEN_MODELS,
// tests/make_goldens.py more of them into the next. Empty when absent.
inline std::string model_file(const std::string& name) {
  const std::string committed = data_path("logits/" + name + ".gguf");
  if (std::filesystem::exists(committed)) return committed;
  const char* folders = std::getenv("ROCMFORGE_GOLDEN_MODELS");
  std::istringstream list(folders ? folders : "");
  for (std::string folder; std::getline(list, folder, ':');) {
    const std::string made = folder + "/" + name + ".gguf";
    if (std::filesystem::exists(made)) return made;
  }
  return {};
}

inline std::string golden_file(const std::string& name) {
  return shared_path("goldens/logits/" + name + ".txt");
}

// What NMSE a tiny model may have.
inline double tolerance_of(const std::string& name, KvType kv_type) {
  // Here a router's second and third score for token 3 are 0.43527 and 0.43522: with f16 keys and values another expert
  // is chosen, and no rounding is better than the other.
  if (kv_type == KvType::f16 && name == "qwen3moe@1003-512-800-4-1-128-2") return 2e-5;
  // 9.6e-5 was seen. With f16 keys and values other experts are chosen for token 5 than with f32.
  if (kv_type == KvType::f16 && name == "bailingmoe2") return 2e-4;
  // 2.1e-5 was seen, in a model of forty layers.
  if (kv_type == KvType::f16 && name == "baichuan-13b") return 4e-5;
  // 1.6e-5 and 1.8e-5 were seen. Of its 22 layers ten cut their gates, and the reference's half-precision table of GELU
  // shows: computed with such values 1e-6 is met.
  if (name.starts_with("gemma3n")) return 4e-5;
  if (kv_type == KvType::f16) return 1e-5;
  // The reference computes GELU from a table in half precision.
  constexpr const char* kWithGelu[] = {"gemma",   "starcoder", "gpt2", "phi2", "falcon",
                                       "gptneox", "bloom",     "mpt",  "grok", "codeshell"};
  const bool has_gelu = std::ranges::any_of(kWithGelu, [&](const char* with) { return name.starts_with(with); });
  return has_gelu ? 1e-6 : 1e-8;
}

// A name that GoogleTest takes.
inline std::string test_name(std::string name) {
  std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

// NMSE at the positions that the reference gives; `logits` are those after every token.
inline double nmse_of(std::span<const float> logits, const Golden& golden) {
  const size_t n_vocab = golden.logits.begin()->second.size();
  EXPECT_EQ(logits.size(), golden.tokens.size() * n_vocab);
  if (logits.size() != golden.tokens.size() * n_vocab) return INFINITY;
  Nmse nmse;
  for (const auto& [position, reference] : golden.logits) {
    nmse.add(logits.subspan(position * n_vocab, n_vocab), reference);
  }
  return nmse.value();
}

// Ours may leave the reference's path only where its two best logits were too close to call (judged by our own logits,
// which lie within the tolerance of the reference's), and with `exact` not even there.
inline void expect_greedy(Session& session, std::span<const float> last_logits, const Golden& golden, bool exact) {
  std::vector<float> logits(last_logits.begin(), last_logits.end());
  for (size_t i = 0; i < golden.greedy.size(); i++) {
    const auto best = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    if (best != golden.greedy[i].value) {
      EXPECT_FALSE(exact) << "greedy token " << i << ": " << best << ", expected " << golden.greedy[i].value;
      EXPECT_LT(relative_gap(logits), 0.02) << "greedy token " << i;
      return;
    }
    const auto next = session.evaluate(std::span(&golden.greedy[i], 1));
    ASSERT_TRUE(next.ok()) << next.error().message;
    logits.assign(next->begin(), next->end());
  }
}

// The prompt in one go (many rows), then the continuation token by token (one row).
inline void expect_golden(const LoadedModel& model, const Golden& golden, KvType kv_type, double tolerance) {
  if (::testing::Test::HasFailure()) return;
  ASSERT_FALSE(golden.logits.empty());
  Session session = model.session(kv_type);
  const std::vector<float> logits = evaluate_all(session, golden.tokens);
  const double nmse = nmse_of(logits, golden);
  ::testing::Test::RecordProperty(kv_type == KvType::f32 ? "nmse_f32" : "nmse_f16", fmt::format("{:.3g}", nmse));
  ASSERT_LE(nmse, tolerance);
  const size_t n_vocab = golden.logits.begin()->second.size();
  expect_greedy(session, std::span(logits).last(n_vocab), golden, kv_type == KvType::f32);
}

// ---- one model in every common weight type, against its own exact logits ----

struct QuantCase {
  const char* type;
  double peer_nmse;  // llama.cpp's kernels against exact, as the goldens' README lists it
};
inline void PrintTo(const QuantCase& value, std::ostream* out) {
  *out << value.type;
}
inline const std::vector<QuantCase> kQuantCases = {
    {"F16", 8.5e-07},    {"BF16", 4.6e-05},  {"Q4_0", 8.5e-04},   {"Q4_1", 8.6e-04},   {"Q5_0", 9.4e-04},
    {"Q5_1", 1.1e-03},   {"Q8_0", 7.9e-04},  {"Q2_K", 1.9e-03},   {"Q3_K_M", 1.3e-03}, {"Q4_K_M", 1.9e-03},
    {"Q5_K_M", 1.8e-03}, {"Q6_K", 1.9e-03},  {"IQ4_NL", 9.5e-04}, {"IQ4_XS", 1.7e-03}, {"IQ3_S", 2.1e-03},
    {"TQ1_0", 2.1e-03},  {"TQ2_0", 2.1e-03},
};

inline double quant_tolerance(const QuantCase& quant) {
  return 1.5 * quant.peer_nmse;
}

}  // namespace rocmforge::testing
