// What lazy means, shown on the CPU backend: nothing is read before it is needed, what is needed arrives behind the
// computation, a fault fails one call, and the answer is the same as with everything loaded first.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>

#include "support/loaded_model.h"
#include "support/support.h"
#include "support/tiny_model.h"

namespace rocmforge {
namespace {

using testing::evaluate_all;
using testing::LoadedModel;
using testing::some_tokens;
using testing::TempDir;
using testing::TinyModel;

std::set<uint32_t> resident_stages(const ExecutionPlan& plan) {
  std::set<uint32_t> stages;
  for (const LazyTensor& tensor : plan.weights().tensors()) {
    if (plan.weights().state(tensor.id) != LoadState::unloaded) stages.insert(tensor.stage);
  }
  return stages;
}

TEST(Lazy, NothingOfTheWeightsIsReadUntilTheFirstPass) {
  const TempDir dir;
  const std::string path = dir.file("m.gguf");
  TinyModel().write(path);
  std::atomic<uint64_t> data_reads = 0;
  std::atomic<uint64_t> data_begin = UINT64_MAX;
  FileCalls calls;
  calls.pread = [&](int fd, void* to, size_t n, off_t offset) {
    if (static_cast<uint64_t>(offset) >= data_begin) data_reads++;
    return ::pread(fd, to, n, offset);
  };
  // The header is read in pieces, so the first reads of a tiny file may run into its data; none comes later.
  const LoadedModel model = LoadedModel::open(path, 2, &calls);
  data_begin = 0;
  Session session = model.session();
  EXPECT_EQ(data_reads, 0u);
  EXPECT_EQ(model.plan->weights().loading_stats().n_reads, 0u);
  EXPECT_FALSE(model.backend->placement().is_reserved());
  EXPECT_TRUE(session.evaluate(some_tokens(1, 96)).ok());
  EXPECT_GT(data_reads, 0u);
  EXPECT_EQ(model.plan->weights().loading_stats().n_tensors_loaded, model.plan->weights().tensors().size());
}

TEST(Lazy, WithoutPrefetchExactlyTheUsedStagesAreResident) {
  const TempDir dir;
  TinyModel{.n_layers = 6}.write(dir.file("m.gguf"));
  for (const uint32_t window : {0u, 2u}) {
    const LoadedModel model = LoadedModel::open(dir.file("m.gguf"));
    ASSERT_TRUE(model.backend->reserve(model.plan->pass_memory(8, 8, 1, KvType::f16)).ok());
    PagePool pool(1);
    BlockTable pages(pool);
    ASSERT_TRUE(pages.grow_to(4).ok());
    Batch batch;
    batch.add(some_tokens(4, 96), 0, pages.pages());
    uint32_t n_checked = 0;
    const auto check = [&](uint32_t stage) {
      const std::set<uint32_t> stages = resident_stages(*model.plan);
      for (uint32_t i = 0; i <= stage; i++) EXPECT_TRUE(stages.contains(i)) << "stage " << i << " after " << stage;
      // And the norm that the next stage begins with: a backend may run it at the end of this one.
      const auto& norm = model.plan->stages()[stage].next_norm;
      for (const LazyTensor& tensor : model.plan->weights().tensors()) {
        if (tensor.stage <= stage + window || std::ranges::find(norm, tensor.id) != norm.end()) continue;
        EXPECT_NE(model.plan->weights().state(tensor.id), LoadState::resident) << tensor.name << " after " << stage;
      }
      n_checked++;
    };
    ASSERT_TRUE(forward(*model.plan, batch, {.prefetch_window = window, .after_stage = check}).ok());
    EXPECT_EQ(n_checked, 8u) << "the embedding, six layers, the output";
  }
}

TEST(Lazy, LazyAndEagerGiveTheSameBits) {
  const TempDir dir;
  for (const bool mixture : {false, true}) {
    TinyModel tiny;
    if (mixture) tiny.n_experts = 4, tiny.n_experts_used = 2;
    tiny.write(dir.file("m.gguf"));
    const auto tokens = some_tokens(50, 96);
    const LoadedModel lazy = LoadedModel::open(dir.file("m.gguf"));
    const LoadedModel eager = LoadedModel::open(dir.file("m.gguf"));
    ASSERT_TRUE(eager.plan->weights().preload_all().ok());
    Session a = lazy.session(), b = eager.session();
    EXPECT_EQ(evaluate_all(a, tokens), evaluate_all(b, tokens));
  }
}

// ---- experts ----

struct MixtureTest {
  explicit MixtureTest(const TempDir& dir, uint32_t max_rows = 128)
      : path((TinyModel{.n_layers = 4, .n_experts = 16, .n_experts_used = 2}.write(dir.file("m.gguf")),
              dir.file("m.gguf"))),
        model(LoadedModel::open(path)) {
    EXPECT_TRUE(model.backend->reserve(model.plan->pass_memory(max_rows, 1, 4, KvType::f16)).ok());
    EXPECT_TRUE(pages.grow_to(max_rows).ok());
  }

  // One pass over n tokens with the logits of the last. Notes which experts its rows were routed to.
  void pass(uint32_t n) {
    Batch batch;
    const auto tokens = some_tokens(n, 96);
    batch.add(tokens, 0, pages.pages(), true);
    used.assign(model.plan->stages().size(), {});
    const auto note = [&](uint32_t stage) {
      const auto& experts = model.plan->stages()[stage].experts;
      if (!experts) return;
      const Slot& slot = model.plan->slots()[experts->routing.value];
      std::vector<float> routing(size_t{slot.rows == SlotRows::batch ? n : 1} * slot.width);
      ASSERT_TRUE(model.backend->read(routing, experts->routing).ok());
      for (size_t i = 0; i < routing.size(); i += 2) used[stage].insert(static_cast<uint32_t>(routing[i]));
    };
    ASSERT_TRUE(forward(*model.plan, batch, {.after_stage = note}).ok());
  }

  uint64_t n_bytes(const std::function<bool(const LazyTensor&)>& counts) const {
    uint64_t total = 0;
    for (const LazyTensor& t : model.plan->weights().tensors()) total += counts(t) ? t.file_bytes : 0;
    return total;
  }
  LoadingStats stats() const { return model.plan->weights().loading_stats(); }

  std::string path;
  LoadedModel model;
  PagePool pool{4};
  BlockTable pages{pool};
  std::vector<std::set<uint32_t>> used;  // by stage
};

TEST(Lazy, AShortPromptReadsOnlyTheExpertsItIsRoutedTo) {
  const TempDir dir;
  MixtureTest mixture(dir);
  prefetch(*mixture.model.plan);
  mixture.pass(3);
  const uint64_t routed =
      mixture.n_bytes([&](const LazyTensor& t) { return t.expert && mixture.used[t.stage].contains(*t.expert); });
  const uint64_t dense = mixture.n_bytes([](const LazyTensor& t) { return !t.expert; });
  EXPECT_EQ(mixture.stats().read_bytes, dense + routed);
  EXPECT_EQ(mixture.used[4].size(), 2u) << "the last layer computes one row";
  for (uint32_t stage = 1; stage <= 4; stage++) EXPECT_LE(mixture.used[stage].size(), 6u);

  // The same rows again need nothing more.
  mixture.pass(3);
  EXPECT_EQ(mixture.stats().read_bytes, dense + routed);
}

TEST(Lazy, ALongPromptReadsALayersExpertsInTheOrderOfTheFile) {
  const TempDir dir;
  MixtureTest mixture(dir);
  mixture.pass(64);
  const uint64_t expected = mixture.n_bytes([&](const LazyTensor& t) {
    return !t.expert || t.stage < 4 || mixture.used[t.stage].contains(*t.expert);  // one row in the last layer
  });
  EXPECT_EQ(mixture.stats().read_bytes, expected);
  for (const Stage& stage : mixture.model.plan->stages()) {
    if (!stage.experts) continue;
    uint64_t before = 0;
    for (const WeightId id : stage.experts->in_file_order) {
      EXPECT_GT(mixture.model.plan->weights().tensor(id).file_offset, before);
      before = mixture.model.plan->weights().tensor(id).file_offset;
    }
  }
}

TEST(Lazy, EagerLoadsEveryExpertAndSettles) {
  const TempDir dir;
  MixtureTest mixture(dir);
  WeightStore& weights = mixture.model.plan->weights();
  ASSERT_TRUE(weights.preload_all().ok());
  EXPECT_EQ(mixture.stats().read_bytes, mixture.stats().total_bytes);
  EXPECT_TRUE(weights.is_settled());
  weights.evict(mixture.model.plan->stages()[2].experts->in_file_order[7]);
  EXPECT_FALSE(weights.is_settled());
}

TEST(Lazy, AddressesStayFromTheFirstLoadToClear) {
  const TempDir dir;
  TinyModel().write(dir.file("m.gguf"));
  const LoadedModel model = LoadedModel::open(dir.file("m.gguf"));
  WeightStore& weights = model.plan->weights();
  Session session = model.session();
  ASSERT_TRUE(session.evaluate(some_tokens(3, 96)).ok());
  const std::byte* base = model.backend->placement().base();
  std::vector<const std::byte*> addresses;
  for (const LazyTensor& t : weights.tensors()) addresses.push_back(weights.get(t.id)->data());
  weights.evict(weights.tensors()[3].id);
  ASSERT_TRUE(session.evaluate(some_tokens(5, 96)).ok());
  EXPECT_EQ(model.backend->placement().base(), base);
  for (const LazyTensor& t : weights.tensors()) EXPECT_EQ(weights.get(t.id)->data(), addresses[t.id.value]);
  weights.clear();
  EXPECT_FALSE(model.backend->placement().is_reserved());
  EXPECT_EQ(weights.loading_stats().n_tensors_loaded, 0u);
}

TEST(Lazy, ClearAndReloadGivesTheSameAnswer) {
  const TempDir dir;
  TinyModel().write(dir.file("m.gguf"));
  const LoadedModel model = LoadedModel::open(dir.file("m.gguf"));
  const auto tokens = some_tokens(9, 96);
  Session session = model.session();
  const auto before = evaluate_all(session, tokens);
  for (int i = 0; i < 5; i++) {
    model.plan->weights().clear();
    session.rewind(0);
    EXPECT_EQ(evaluate_all(session, tokens), before);
  }
}

// Every read of the weights in turn fails, once or for good: that pass fails with an error that names a tensor, and
// when reads work again so does the next pass.
TEST(Lazy, AnyFailingReadFailsOnePassOnly) {
  const TempDir dir;
  TinyModel{.n_layers = 2}.write(dir.file("m.gguf"));
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
  const LoadedModel model = LoadedModel::open(dir.file("m.gguf"), 2, &calls);
  Session session = model.session();
  n_reads = 0;
  const auto expected = evaluate_all(session, tokens);
  const int n_total = n_reads;
  ASSERT_GT(n_total, 10);
  for (const bool for_good : {false, true}) {
    for (int n = 0; n < n_total; n++) {
      model.plan->weights().clear();
      session.rewind(0);
      n_reads = 0;
      persistent = for_good;
      fail_at = n;
      const auto failed = session.evaluate_all(tokens);
      // A transient fault in a prefetch is retried by the stage that needs the weight; a lasting one is always seen.
      EXPECT_TRUE(!for_good || !failed.ok()) << "read " << n;
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

// The CPU, sending rows to experts that are ordered.
class MisroutingBackend final : public Backend {
 public:
  std::optional<float> expert;
  std::optional<SlotId> routing;
  std::string_view name() const override { return "misrouting"; }
  Placement& placement() override { return cpu_.placement(); }
  uint64_t pass_bytes(const PassMemory& memory) const override { return cpu_.pass_bytes(memory); }
  Result<void> reserve(const PassMemory& memory) override { return cpu_.reserve(memory); }
  void release() override { cpu_.release(); }
  Result<void> run(std::span<const Step> steps, const Batch& batch, const WeightStore& weights) override {
    return cpu_.run(steps, batch, weights);
  }
  Result<void> read(std::span<float> out, SlotId slot) override {
    TRY(cpu_.read(out, slot));
    if (expert && slot == routing) out[out.size() / 2] = *expert;
    return {};
  }
  Result<std::span<const RowCandidates>> read_allowed_candidates(std::span<const AllowedTokens> rows,
                                                                 SlotId logits) override {
    return cpu_.read_allowed_candidates(rows, logits);
  }
  Result<std::span<const RowCandidates>> read_candidates(uint32_t n, SlotId logits) override {
    return cpu_.read_candidates(n, logits);
  }

 private:
  CpuBackend cpu_{{.n_threads = 1}};
};

TEST(Lazy, RoutingThatIsNoExpertIsAFailureOfTheDevice) {
  const TempDir dir;
  TinyModel{.n_layers = 2, .n_experts = 16, .n_experts_used = 2}.write(dir.file("m.gguf"));
  auto backend = std::make_unique<MisroutingBackend>();
  MisroutingBackend& device = *backend;
  const LoadedModel model = LoadedModel::open_on(std::move(backend), dir.file("m.gguf"));
  for (const Stage& stage : model.plan->stages()) {
    if (stage.experts) device.routing = stage.experts->routing;
  }
  ASSERT_TRUE(device.routing);
  Session session = model.session();
  const auto tokens = some_tokens(3, 96);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float expert : {16.0f, -1.0f, 4294967296.0f, -kInfinity, kInfinity, std::nanf("")}) {
    device.expert = expert;
    const auto result = session.evaluate(tokens);
    ASSERT_FALSE(result.ok()) << expert;
    EXPECT_EQ(result.error().code, ErrorCode::device_failed) << result.error().message;
    session.rewind(0);
  }
  device.expert.reset();
  EXPECT_TRUE(session.evaluate(tokens).ok());
}

TEST(Lazy, AFileThatChangedMeanwhileIsAnErrorAndOtherModelsGoOn) {
  const TempDir dir;
  TinyModel().write(dir.file("other.gguf"));
  const LoadedModel other = LoadedModel::open(dir.file("other.gguf"));
  const auto tokens = some_tokens(3, 96);
  const std::string path = dir.file("m.gguf");
  const auto expect_failure = [&](ErrorCode code, auto&& damage) {
    TinyModel{.seed = 2}.write(path);
    const LoadedModel model = LoadedModel::open(path);
    damage();
    Session session = model.session();
    const auto result = session.evaluate(tokens);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, code) << result.error().message;
    Session good = other.session();
    EXPECT_TRUE(good.evaluate(tokens).ok());
  };
  expect_failure(ErrorCode::file_truncated, [&] { ASSERT_EQ(::truncate(path.c_str(), 20'000), 0); });
  expect_failure(ErrorCode::file_changed, [&] { TinyModel{.seed = 3}.write(path); });
  expect_failure(ErrorCode::file_not_found, [&] { std::filesystem::remove(path); });
}

}  // namespace
}  // namespace rocmforge
