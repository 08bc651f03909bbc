// V9: text made to be slow. Time per byte is bounded and does not grow with the text. In builds made for finding errors
// rather than for speed, only the growth is checked.

#include <gtest/gtest.h>
#include <malloc.h>

#include <climits>
#include <ctime>

#include "gguf/reader.h"
#include "support/support.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary_builder.h"

namespace rocmforge::tokenizer {
namespace {

#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
constexpr size_t kBytes = 25'000;
constexpr double kMaxNsPerByte = 200;
#else
constexpr size_t kBytes = 20'000;
constexpr double kMaxNsPerByte = 1e9;
#endif
// For four times the text: 4 is linear, 16 is quadratic; the rest is what else runs on the machine.
constexpr double kMaxGrowth = 9;

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds_to_encode(const Tokenizer& tokenizer, const std::string& text) {
  double best = 1e9;
  for (int i = 0; i < 3; i++) {
    const double start = cpu_seconds();
    const auto ids = tokenizer.encode(text, {.parse_special = i == 0});
    EXPECT_TRUE(ids.ok()) << ids.error().message;
    best = std::min(best, cpu_seconds() - start);
  }
  return best;
}

std::string repeated(std::string_view part, size_t n_bytes, std::string_view end) {
  std::string text;
  while (text.size() < n_bytes) text += part;
  return text += end;
}

void expect_linear(const Tokenizer& tokenizer, std::string_view name) {
  // Fresh pages from the system would be most of what is measured.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  for (const char* part :
       {"a", "A", " ", "<", "<|", "\n", " \n", "\t", "7", "'", "'l", "aA", "中", "\u0301", "<|im_"}) {
    for (const char* end : {"", "x"}) {
      const double once = seconds_to_encode(tokenizer, repeated(part, kBytes, end));
      const double four_times = seconds_to_encode(tokenizer, repeated(part, 4 * kBytes, end));
      EXPECT_LT(once / kBytes * 1e9, kMaxNsPerByte) << name << ": '" << part << "' then '" << end << "'";
      EXPECT_LT(four_times / once, kMaxGrowth) << name << ": '" << part << "' then '" << end << "', " << once << " s";
    }
  }
}

Tokenizer tokenizer_of(const MetadataBuilder& metadata) {
  auto tokenizer = Tokenizer::load(metadata.build());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return *std::move(tokenizer);
}

TEST(HostileText, IsLinearForSpm) {
  expect_linear(tokenizer_of(small_spm().finish("llama")), "spm");
  // All scores equal: every pair waits at one rank.
  VocabularyBuilder flat = small_spm();
  flat.scores.assign(flat.scores.size(), 0);
  expect_linear(tokenizer_of(flat.finish("llama")), "spm with equal scores");
}

TEST(HostileText, IsLinearForPlamo2) {
  expect_linear(tokenizer_of(small_plamo2().finish("plamo2")), "plamo2");
  // Words of one letter: every place begins as many as there are.
  VocabularyBuilder runs = small_plamo2();
  for (size_t n = 3; n <= 16; n++) runs.add(std::string(n, 'a'), 1, -static_cast<float>(n));
  expect_linear(tokenizer_of(runs.finish("plamo2")), "plamo2 with runs");
}

TEST(HostileText, IsLinearForUgm) {
  expect_linear(tokenizer_of(small_ugm().finish("t5")), "ugm");
  // Words of one letter, up to the longest token: every place begins as many as there are.
  VocabularyBuilder runs = small_ugm();
  for (size_t n = 3; n <= 16; n++) runs.add(std::string(n, 'a'), 1, -static_cast<float>(n));
  expect_linear(tokenizer_of(runs.finish("t5")), "ugm with runs");
}

TEST(HostileText, IsLinearForCharacterBpeAndWpm) {
  expect_linear(tokenizer_of(small_gemma4().finish("gemma4")), "gemma4");
  expect_linear(tokenizer_of(small_wpm().finish("bert")), "wpm");
}

class HostileBpe : public ::testing::TestWithParam<const char*> {};

TEST_P(HostileBpe, IsLinear) {
  expect_linear(tokenizer_of(small_bpe().finish("gpt2").set_text("tokenizer.ggml.pre", GetParam())), GetParam());
}

// One name for each set of rules that differs in its patterns.
INSTANTIATE_TEST_SUITE_P(Rules, HostileBpe,
                         ::testing::Values("default", "gpt-2", "starcoder", "falcon", "llama-bpe", "qwen2", "qwen35",
                                           "jais-2", "minicpm5", "bailingmoe", "seed-coder", "exaone-moe", "gpt-4o",
                                           "tiny_aya", "tekken", "youtu", "kimi-k2", "superbpe", "deepseek-llm",
                                           "deepseek-coder", "deepseek-v3", "afmoe", "bloom", "viking", "laguna",
                                           "chameleon"));

}  // namespace
}  // namespace rocmforge::tokenizer
