// What passes put on a device's stream: kernels, their order, their shapes and every argument, for cards that are not
// here, too. tests/data/launches.txt has a number for each model and device. A change of structure keeps all of them; a
// change that is meant replaces them, after its effect was looked at:
//
//   ROCMFORGE_TEST_LAUNCHES=folder gpu_launches_test     writes the new launches.txt and every launch as text there

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "gguf/synth.h"
#include "gpu/backend.h"
#include "gpu/device_class.h"
#include "support/golden_check.h"
#include "support/recording_device.h"
#include "support/support.h"

namespace rocmforge {
namespace {

using testing::LoadedModel;
using testing::Recording;

constexpr const char* kClasses[] = {"hopper", "ampere", "cdna3", "rdna2"};

// A real shape with few layers and words.
struct Made {
  const char* shape;
  const char* mix;
  uint32_t n_layers = 3;
};
constexpr Made kMade[] = {
    {"llama-8b", "Q4_K_M"},
    {"llama-8b", "Q5_K_M"},
    {"llama-8b", "Q8_0"},
    {"llama-8b", "Q3_K_M"},
    {"llama-8b", "F16"},
    {"llama-8b", "F32", 1},
    {"llama-8b", "IQ2_XS"},
    {"llama-8b", "IQ4_XS"},
    {"llama-1b", "Q4_K_M"},
    {"llama-70b", "Q4_K_M"},
    {"qwen2-7b", "Q4_K_M"},
    {"qwen2-0.5b", "Q4_0"},
    {"qwen3-embedding-0.6b", "Q6_K"},
    {"bert-base", "F16"},
    {"qwen3-30b-a3b", "Q4_K_M"},
    {"qwen3-30b-a3b", "MXFP4_MOE"},
    {"qwen3.6-35b-a3b", "Q4_K_M", 4},
    {"qwen3.6-27b", "Q4_K_M", 4},
    {"nemotron-3-nano", "Q4_K_M", 8},
    {"gemma4-26b-a4b", "Q4_K_M", 6},
};

// Runs of one length behind some tokens, and how many outputs they ask for.
struct Form {
  uint32_t n_runs, n_rows;
  bool all_outputs;
};
constexpr Form kForms[] = {
    {1, 1, true},   {2, 1, true},   {8, 1, true},    {9, 1, true},    {16, 1, true},   {17, 1, true},
    {32, 1, true},  {33, 1, true},  {64, 1, true},   {65, 1, true},   {128, 1, true},  {1, 5, false},
    {1, 16, false}, {1, 24, false}, {1, 64, false},  {1, 100, false}, {3, 20, false},  {1, 200, false},
    {2, 8, true},   {1, 40, true},  {1, 400, false}, {1, 512, false}, {4, 128, false},
};
constexpr uint32_t kMaxRows = 512, kPast = 70;

class Passes {
 public:
  Passes(const char* device_class, const std::string& path, KvType kv_type, bool fuse) : kv_type_(kv_type) {
    const gpu::Target& target = gpu::find_device_class(device_class)->target;
    auto backend = GpuBackend::open(testing::recording_api(target), 0);
    EXPECT_TRUE(backend.ok()) << backend.error().message;
    model_ = LoadedModel::open_on(std::move(*backend), path, nullptr, 1, fuse);
  }

  // Nothing runs, so no weight has to be there: only its address counts.
  bool reserve() {
    const ExecutionPlan& plan = *model_.plan;
    max_rows_ = std::min(kMaxRows, plan.n_context() > kPast ? plan.n_context() - kPast : 1);
    n_pages_ = pages_for(kPast + max_rows_);
    const PassMemory memory = plan.pass_memory(max_rows_, std::min(max_rows_, 128u), n_pages_, kv_type_, 256);
    EXPECT_TRUE(plan.backend().placement().reserve(plan.weights().arena_bytes(), 1).ok());
    const auto reserved = plan.backend().reserve(memory);
    EXPECT_TRUE(reserved.ok()) << (reserved.ok() ? "" : reserved.error().message);
    testing::take_recording();
    return reserved.ok();
  }

  std::string settled() const {
    return each_form([&](const Batch& batch) -> Result<void> {
      const ExecutionPlan& plan = *model_.plan;
      for (int i = 0; i < 3; i++) {  // launched, recorded, replayed
        TRY(plan.backend().run_settled(plan.steps(), batch, plan.weights()));
        if (plan.has_logits()) TRY(plan.backend().read_candidates(batch.n_outputs(), plan.logits()));
      }
      return {};
    });
  }

  // The first such pass, which is launched.
  std::string settled_once() const {
    return each_form([&](const Batch& batch) -> Result<void> {
      const ExecutionPlan& plan = *model_.plan;
      return plan.backend().run_settled(plan.steps(), batch, plan.weights());
    });
  }

  // As when weights are streamed: stage by stage, in two parts where experts are read between them.
  std::string by_stage() const {
    return each_form([&](const Batch& batch) -> Result<void> {
      const ExecutionPlan& plan = *model_.plan;
      for (size_t i = 0; i < plan.stages().size(); i++) {
        const Stage& stage = plan.stages()[i];
        const size_t n_before = stage.experts ? stage.experts->n_fused_before : stage.fused.size();
        TRY(plan.backend().run_part({plan.steps(), i, 0, n_before}, batch, plan.weights()));
        if (!stage.experts) continue;
        TRY(plan.backend().run_part({plan.steps(), i, n_before, stage.fused.size() - n_before}, batch, plan.weights()));
      }
      return {};
    });
  }

 private:
  static uint32_t pages_for(uint32_t n) { return (n + kPageTokens - 1) / kPageTokens; }

  std::string each_form(const std::function<Result<void>(const Batch&)>& run) const {
    std::string out;
    std::vector<PageId> pages;
    for (uint32_t i = 0; i < n_pages_; i++) pages.emplace_back(i);
    for (const Form& form : kForms) {
      const bool is_text = !model_.plan->has_logits();
      if (form.n_runs * form.n_rows > max_rows_ || (is_text && form.all_outputs && form.n_rows > 1)) continue;
      Batch batch;
      for (uint32_t i = 0; i < form.n_runs; i++) {
        const std::vector<TokenId> tokens(form.n_rows, TokenId(3));
        const uint32_t past = is_text ? 0 : kPast;
        batch.add(tokens, past, std::span(pages).first(is_text ? 0 : pages_for(past + form.n_rows)), !form.all_outputs);
        if (!model_.plan->has_states()) continue;
        batch.sequences.back().state_before = StateId(i);
        batch.sequences.back().state_after = StateId(128 + i);
      }
      const auto done = run(batch);
      out += fmt::format("== {} runs of {} rows, {} outputs{}\n", form.n_runs, form.n_rows, batch.n_outputs(),
                         done.ok() ? "" : ": " + done.error().message);
      out += testing::take_recording().text();
    }
    return out;
  }

  KvType kv_type_;
  LoadedModel model_;
  uint32_t max_rows_ = 0, n_pages_ = 0;
};

// A pass stage by stage knows how long its sequences are, copies its batch and is not recorded: lines without what
// follows from that.
std::string without_extents(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(0, line.find(' '));
    if (name == "take_batch" || name == "graph") continue;
    const bool has_extent =
        name.starts_with("attend") || name == "convolve" || name.starts_with("scan_") || name.starts_with("delta_rule");
    out += (has_extent ? name : line) + "\n";
  }
  return out;
}

class Launches : public ::testing::Test {
 protected:
  void SetUp() override {
#if !__has_builtin(__builtin_clear_padding)
    GTEST_SKIP() << "the compiler does not say which bytes of arguments mean nothing";
#endif
    std::istringstream file(testing::read_text(testing::data_path("launches.txt")));
    for (std::string line; std::getline(file, line);) {
      const size_t at = line.rfind(' ');
      if (at != line.npos) expected_[line.substr(0, at)] = line.substr(at + 1);
    }
  }

  void check(const std::string& model, const std::string& path, std::span<const char* const> classes) {
    for (const char* const device_class : classes) {
      for (const KvType kv_type : {KvType::f16, KvType::f32}) {
        for (const bool fuse : {true, false}) {
          if (kv_type == KvType::f32 && !fuse) continue;
          Passes passes(device_class, path, kv_type, fuse);
          ASSERT_FALSE(HasFailure()) << model;
          if (!passes.reserve()) return;
          const std::string name = fmt::format("{} {} {}{}", model, device_class,
                                               kv_type == KvType::f16 ? "f16" : "f32", fuse ? "" : " unfused");
          compare(name + " settled", passes.settled());
          compare(name + " by stage", passes.by_stage());
        }
      }
    }
  }

 private:
  void compare(const std::string& name, const std::string& text) {
    Recording as_lines;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) as_lines.lines.push_back(line);
    const std::string now = fmt::format("{:016x}", as_lines.hash());
    if (const char* folder = std::getenv("ROCMFORGE_TEST_LAUNCHES")) {
      std::ofstream(fmt::format("{}/launches.txt", folder), std::ios::app) << name << " " << now << "\n";
      std::ofstream(fmt::format("{}/{}.launches", folder, name)) << text;
      return;
    }
    EXPECT_EQ(now, expected_[name]) << name << ": " << as_lines.n_launches() << " lines";
    n_compared_++;
  }

  std::map<std::string, std::string> expected_;

 protected:
  size_t n_compared_ = 0;
};

TEST_F(Launches, OfRealShapesAreThoseWrittenDown) {
  for (const Made& made : kMade) {
    gguf::Shape shape = *gguf::find_shape(made.shape);
    shape.n_layers = made.n_layers;
    if (shape.architecture == "llama") shape.n_vocabulary = 4096;
    const testing::TempDir dir;
    const std::string path = dir.file("m.gguf");
    const auto written = gguf::synthesize(path, shape, *gguf::find_mix(made.mix), {.sparse = true});
    ASSERT_TRUE(written.ok()) << written.error().message;
    check(fmt::format("{} {}", made.shape, made.mix), path, kClasses);
  }
}

// What weights are resident does not matter: a streamed model gives the bits of one that is not.
TEST_F(Launches, OfAPassStageByStageAreThoseOfAWholePass) {
  for (const char* shape_name : {"llama-8b", "qwen2-7b", "qwen3-30b-a3b", "nemotron-3-nano"}) {
    gguf::Shape shape = *gguf::find_shape(shape_name);
    shape.n_layers = shape.mixed != nullptr ? 8 : 3;
    if (shape.architecture == "llama") shape.n_vocabulary = 4096;
    const testing::TempDir dir;
    const std::string path = dir.file("m.gguf");
    ASSERT_TRUE(gguf::synthesize(path, shape, *gguf::find_mix("Q4_K_M"), {.sparse = true}).ok());
    for (const char* const device_class : kClasses) {
      Passes whole(device_class, path, KvType::f16, true), by_stage(device_class, path, KvType::f16, true);
      ASSERT_TRUE(whole.reserve());
      const std::string expected = without_extents(whole.settled_once());
      ASSERT_TRUE(by_stage.reserve());
      EXPECT_TRUE(without_extents(by_stage.by_stage()) == expected) << shape_name << " on " << device_class;
      EXPECT_GT(expected.size(), 10000u);
    }
  }
}

TEST_F(Launches, OfFamiliesAreThoseWrittenDown) {
  for (const std::string& name : testing::kTinyModels) {
    const std::string path = testing::model_file(name);
    if (path.empty()) continue;  // not one of those that are made here
    check(name, path, std::array{"hopper", "cdna3"});
  }
  EXPECT_TRUE(n_compared_ >= 40 || std::getenv("ROCMFORGE_TEST_LAUNCHES") != nullptr) << "models are missing";
}

}  // namespace
}  // namespace rocmforge
