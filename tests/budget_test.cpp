// Models larger than memory: with a budget smaller than the model it still answers, with the same bits as when
// everything is resident, within the budget, and as fast as the file can be read.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>

#include "support/loaded_model.h"
#include "support/support.h"
#include "support/tiny_model.h"
#include "support/variants.h"

namespace rocmforge {
namespace {

using testing::evaluate_all;
using testing::LoadedModel;
using testing::some_tokens;
using testing::TempDir;
using testing::TinyModel;

constexpr PassSize kPass = {.max_rows = 64, .max_outputs = 64};

struct BudgetedModel {
  std::unique_ptr<CpuBackend> backend;
  std::unique_ptr<ExecutionPlan> plan;

  static Result<BudgetedModel> open(const std::string& path, std::optional<uint64_t> budget_bytes,
                                    const FileCalls* calls = nullptr) {
    BudgetedModel model;
    model.backend = std::make_unique<CpuBackend>(CpuBackend::Options{.n_threads = 2});
    auto file = std::make_shared<const gguf::GgufFile>(TRY(gguf::GgufFile::open(path, {}, calls)));
    model.plan = TRY(ExecutionPlan::from_gguf(
        *model.backend, std::move(file),
        {.weights = {.n_loaders = 2}, .n_context = 128, .budget_bytes = budget_bytes, .pass = kPass}));
    return model;
  }

  Session session() const {
    return *Session::create(*plan, {.max_rows = kPass.max_rows, .max_outputs = kPass.max_outputs});
  }
};

// The smallest budget that is enough, to a few KiB, found by trying.
uint64_t least_budget(const std::string& path, uint64_t enough) {
  uint64_t low = 0, high = enough;
  while (high - low > 4096) {
    const uint64_t middle = (low + high) / 2;
    const auto opened = BudgetedModel::open(path, middle);
    if (opened.ok()) {
      high = middle;
    } else {
      EXPECT_EQ(opened.error().code, ErrorCode::out_of_memory);
      low = middle;
    }
  }
  return high;
}

// The same bits at every budget from the smallest to one that is nearly enough; a prompt, then token by token.
void expect_same_bits(const std::string& path) {
  const auto whole = BudgetedModel::open(path, std::nullopt);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  const uint32_t n_vocab = whole->plan->spec().n_vocab;
  const auto tokens = some_tokens(70, n_vocab);
  Session reference = whole->session();
  const auto prompt = evaluate_all(reference, std::span(tokens).first(65));
  const auto decoded = evaluate_all(reference, std::span(tokens).subspan(65, 1));
  const uint64_t enough = reference.memory_bill().total();
  const uint64_t least = least_budget(path, enough);
  ASSERT_LT(least, enough) << path;
  for (const uint64_t budget : {least, (2 * least + enough) / 3, enough - 1}) {
    const auto model = BudgetedModel::open(path, budget);
    ASSERT_TRUE(model.ok()) << model.error().message;
    const WeightStore& weights = model->plan->weights();
    EXPECT_FALSE(model->plan->streamed_stages().empty() && !weights.experts_move()) << budget;
    Session session = model->session();
    EXPECT_LE(session.memory_bill().total(), budget);
    EXPECT_TRUE(evaluate_all(session, std::span(tokens).first(65)) == prompt) << path << " with " << budget;
    for (int i = 0; i < 3; i++) {
      EXPECT_TRUE(evaluate_all(session, std::span(tokens).subspan(65, 1)) == decoded) << path << " with " << budget;
      session.rewind(65);
    }
    EXPECT_FALSE(weights.is_settled());
  }
}

TEST(Budget, TinyModelsGiveTheSameBits) {
  const TempDir dir;
  for (const bool tied : {false, true}) {
    TinyModel{.n_layers = 9, .tied = tied, .qkv_bias = tied}.write(dir.file("m.gguf"));
    expect_same_bits(dir.file("m.gguf"));
  }
}

TEST(Budget, TheBundledQuantizedModelGivesTheSameBits) {
  expect_same_bits(testing::source_path("models/story-q4_k_m.gguf"));
}

// Those with caches and embeddings that layers share, stacks that hold two matrices, groups, gates and unequal layers.
TEST(Budget, NewFamiliesGiveTheSameBits) {
  size_t n_tried = 0;
  for (const char* name : {"gemma3n", "gemma4-e2b", "gemma4-moe", "granite_swa-moe", "llama4", "bailingmoe2", "mimo2",
                           "step35", "bitnet"}) {
    const std::string path = testing::variant_file(name);
    if (path.empty()) continue;
    expect_same_bits(path);
    n_tried++;
  }
  if (n_tried == 0) GTEST_SKIP() << "no generated golden models";
}

// Families with windows, sinks, fused projections, shared experts and rope factors.
TEST(Budget, GoldenModelsGiveTheSameBits) {
  size_t n_tried = 0;
  for (const char* name :
       {"llama-tied-ropefreqs", "gemma3", "phi3-longrope", "gpt2", "qwen3moe", "mixtral", "glm4moe", "gpt-oss"}) {
    const std::string path = testing::model_file(name);
    if (path.empty()) continue;
    expect_same_bits(path);
    n_tried++;
  }
  if (n_tried == 0) GTEST_SKIP() << "no generated golden models";
}

TEST(Budget, TooLittleIsAnErrorThatSaysWhatIsNeededAndWhatToDo) {
  const TempDir dir;
  TinyModel().write(dir.file("m.gguf"));
  const auto model = BudgetedModel::open(dir.file("m.gguf"), 100'000);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, ErrorCode::out_of_memory);
  for (const char* part : {"needed", "budget of 97.7 KiB", "raise the budget or shorten the context"}) {
    EXPECT_NE(model.error().message.find(part), std::string::npos) << model.error().message;
  }
}

TEST(Budget, ASessionThatExceedsItIsRefused) {
  const TempDir dir;
  TinyModel{.n_layers = 8}.write(dir.file("m.gguf"));
  const uint64_t enough = BudgetedModel::open(dir.file("m.gguf"), std::nullopt)->session().memory_bill().total();
  const auto model = BudgetedModel::open(dir.file("m.gguf"), enough);
  EXPECT_TRUE(Session::create(*model->plan, {.max_rows = 64, .max_outputs = 64}).ok());
  const auto larger = Session::create(*model->plan, {.max_rows = 128, .max_outputs = 128});
  ASSERT_FALSE(larger.ok());
  EXPECT_EQ(larger.error().code, ErrorCode::out_of_memory);
}

// Every read of three passes fails in turn, once or for good: a typed error at most, and the next pass is right.
TEST(Budget, AnyFailingReadWhileStreamingFailsOnePassOnly) {
  const TempDir dir;
  TinyModel{.n_layers = 5}.write(dir.file("m.gguf"));
  const auto tokens = some_tokens(7, 96);
  std::atomic<int> n_reads = 0;
  std::atomic<int> fail_at = -1;
  std::atomic<bool> persistent = false;
  FileCalls calls;
  calls.pread = [&](int fd, void* to, size_t n, off_t offset) -> ssize_t {
    const int i = n_reads++;
    if (fail_at >= 0 && (i == fail_at || (persistent && i > fail_at))) return errno = EIO, -1;
    return ::pread(fd, to, n, offset);
  };
  const uint64_t enough = BudgetedModel::open(dir.file("m.gguf"), std::nullopt)->session().memory_bill().total();
  const auto model = BudgetedModel::open(dir.file("m.gguf"), least_budget(dir.file("m.gguf"), enough), &calls);
  ASSERT_TRUE(model.ok());
  Session session = model->session();
  const auto expected = evaluate_all(session, tokens);
  const auto run = [&](int n_passes) -> Result<void> {
    for (int i = 0; i < n_passes; i++) {
      session.rewind(0);
      TRY(session.evaluate_all(tokens));
    }
    return {};
  };
  n_reads = 0;
  ASSERT_TRUE(run(3).ok());
  const int n_total = n_reads;
  ASSERT_GT(n_total, 50) << "it streams";
  for (const bool for_good : {false, true}) {
    for (int n = 0; n < n_total; n++) {
      n_reads = 0;
      persistent = for_good;
      fail_at = n;
      const auto failed = run(3);
      if (!failed.ok()) {
        EXPECT_EQ(failed.error().code, ErrorCode::file_read) << failed.error().message;
        EXPECT_NE(failed.error().message.find("tensor '"), std::string::npos) << failed.error().message;
      }
      fail_at = -1;
      session.rewind(0);
      ASSERT_EQ(evaluate_all(session, tokens), expected) << "after read " << n;
    }
  }
}

}  // namespace
}  // namespace rocmforge
