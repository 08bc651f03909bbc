// Devices that compute one family of kernels wrongly, as a compiler, a driver or a card may: what failed the self-test
// is not used, and a model on what is left has the CPU's logits.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/log.h"
#include "engine/model.h"
#include "gguf/quantize.h"
#include "gpu/backend.h"
#include "gpu/emu/device.h"
#include "gpu/kernels/matvec.h"
#include "gpu/kernels/self_test.h"
#include "support/golden.h"
#include "support/loaded_model.h"
#include "support/support.h"
#include "support/tiny_model.h"

namespace rocmforge {
namespace {

using gpu::GpuApi;
using gpu::GpuDevice;
using gpu::GpuGraph;
using gpu::GpuKernel;
using gpu::GpuStatus;
using gpu::GpuStream;
using gpu::LaunchShape;
using testing::TinyModel;

enum class Fault : uint8_t { none, fragments, graphs, one_row, meeting };

// The emulation with a fault, and what was launched on it.
struct Faulty {
  Fault fault = Fault::none;
  std::map<GpuKernel*, std::pair<std::string, std::string>> kernels;  // file, name
  std::multiset<std::string> launched;                                // files
};
Faulty& faulty() {
  static Faulty all;
  return all;
}

constexpr const char* kFragmentFiles[] = {"attend_matrix",    "attend_tiles",   "experts_fragments",
                                          "matmul_fragments", "stream_experts", "stream_fragments"};

GpuStatus find(GpuDevice* device, const char* file, const char* name, GpuKernel** out) {
  const auto is = [&](Fault fault, const char* kernel) {
    return faulty().fault == fault && std::strcmp(name, kernel) == 0;
  };
  const char* instead = is(Fault::fragments, "try_fragments_f16") ? "fragments_transposed"
                        : is(Fault::meeting, "meet")              ? "meet_too_early"
                                                                  : nullptr;
  const GpuStatus status =
      gpu::emu::api().find(device, instead != nullptr ? "rules" : file, instead != nullptr ? instead : name, out);
  if (status == GpuStatus::ok) faulty().kernels[*out] = {file, name};
  return status;
}

// Products of one row leave out the last output.
GpuStatus launch(GpuDevice* device, GpuKernel* kernel, LaunchShape shape, const void* args, size_t args_bytes,
                 GpuStream* stream) {
  const auto& [file, name] = faulty().kernels.at(kernel);
  faulty().launched.insert(file);
  if (faulty().fault == Fault::one_row && file == "matvec" && name.ends_with("_1")) {
    gpu::MatvecArgs fewer;
    std::memcpy(&fewer, args, sizeof fewer);
    fewer.n_out--;
    return gpu::emu::api().launch(device, kernel, shape, &fewer, sizeof fewer, stream);
  }
  return gpu::emu::api().launch(device, kernel, shape, args, args_bytes, stream);
}

GpuStatus launch_graph(GpuDevice* device, GpuGraph* graph, GpuStream* stream) {
  faulty().launched.insert("graph");
  return faulty().fault == Fault::graphs ? GpuStatus::ok : gpu::emu::api().launch_graph(device, graph, stream);
}

const GpuApi& api_with(Fault fault) {
  static GpuApi api;
  api = gpu::emu::api();
  api.find = find;
  api.launch = launch;
  api.launch_graph = launch_graph;
  faulty() = {};
  faulty().fault = fault;
  return api;
}

const TinyModel kDense{.ff_width = 128, .n_layers = 1};
constexpr uint32_t kRows = 66;  // more than any pass that is recorded

class FaultyGpu : public ::testing::Test {
 protected:
  void write_model(const TinyModel& tiny) const {
    const std::string floats = path_ + ".f32";
    tiny.write(floats);
    const auto written = gguf::quantize_file(floats, path_, *gguf::find_mix("Q8_0"), {.n_threads = 1});
    ASSERT_TRUE(written.ok()) << written.error().message;
  }
  static Result<std::unique_ptr<Backend>> open(Fault fault, uint32_t device = 0) {
    return TRY(GpuBackend::open(api_with(fault), device, {.mode = gpu::SelfTestMode::always}));
  }
  // A prompt at once, twelve rows, then four times one; every weight is resident, so that passes may be recorded.
  static std::vector<float> logits_of(const testing::LoadedModel& model) {
    EXPECT_TRUE(model.plan->weights().preload_all().ok());
    faulty().launched.clear();
    Session session = model.session(KvType::f16, kRows);
    const auto tokens = testing::some_tokens(kRows + 16, 96);
    std::vector<float> out;
    size_t first = 0;
    for (const size_t n : {size_t{kRows}, size_t{12}, size_t{1}, size_t{1}, size_t{1}, size_t{1}}) {
      const auto logits = testing::evaluate_all(session, std::span(tokens).subspan(first, n));
      out.insert(out.end(), logits.begin(), logits.end());
      first += n;
    }
    return out;
  }
  std::vector<float> logits_on(std::unique_ptr<Backend> backend) const {
    return logits_of(testing::LoadedModel::open_on(std::move(backend), path_));
  }
  static double distance(std::span<const float> got, std::span<const float> expected) {
    testing::Nmse error;
    error.add(got, expected);
    return error.value();
  }
  static std::string launched_fragments() {
    std::string out;
    for (const char* file : kFragmentFiles) {
      if (faulty().launched.contains(file)) out += std::string(file) + " ";
    }
    return out;
  }
  size_t n_said(std::string_view words) const {
    return std::ranges::count_if(said_, [&](const std::string& line) { return line.find(words) != std::string::npos; });
  }

  const testing::TempDir dir_;
  const std::string path_ = dir_.file("m.gguf");
  std::vector<std::string> said_;
  const LogCapture capture_{[this](LogLevel, std::string_view text) { said_.emplace_back(text); }};
};

TEST_F(FaultyGpu, WithoutAFaultNothingIsSaidAndEveryKernelIsUsed) {
  write_model(kDense);
  auto backend = open(Fault::none);
  ASSERT_TRUE(backend.ok()) << backend.error().message;
  logits_on(std::move(*backend));
  EXPECT_EQ(launched_fragments(), "attend_matrix attend_tiles matmul_fragments stream_fragments ");
  EXPECT_TRUE(faulty().launched.contains("graph"));
  EXPECT_TRUE(said_.empty()) << said_[0];
}

TEST_F(FaultyGpu, FragmentsOfAnotherLayoutAreNotUsed) {
  for (const uint32_t n_experts : {0u, 4u}) {
    TinyModel tiny = kDense;
    tiny.n_experts = n_experts;
    tiny.n_experts_used = n_experts / 2;
    write_model(tiny);
    const auto expected = logits_of(testing::LoadedModel::open(path_));
    for (uint32_t device = 0; device < (n_experts == 0 ? gpu::emu::kNumDevices : 1); device++) {
      SCOPED_TRACE(std::to_string(n_experts) + " experts, device " + std::to_string(device));
      said_.clear();
      auto backend = open(Fault::fragments, device);
      ASSERT_TRUE(backend.ok()) << backend.error().message;
      EXPECT_LE(distance(logits_on(std::move(*backend)), expected), 1e-4);
      EXPECT_EQ(launched_fragments(), "");
      ASSERT_EQ(said_.size(), 1u);
      EXPECT_EQ(n_said("matrix fragments: row 0, column 1: "), 1u) << said_[0];
      EXPECT_EQ(n_said("matrix instructions are not used: products go by at most eight rows"), 1u) << said_[0];
    }
  }
}

TEST_F(FaultyGpu, GraphsThatReplayWronglyAreNotRecorded) {
  write_model(kDense);
  const auto expected = logits_on(open(Fault::none).value());
  EXPECT_EQ(logits_on(open(Fault::graphs).value()), expected);
  EXPECT_FALSE(faulty().launched.contains("graph"));
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_EQ(n_said("recorded passes: row 0, column 0: 0 instead of"), 1u) << said_[0];
  EXPECT_EQ(n_said("passes are not recorded"), 1u) << said_[0];
}

TEST_F(FaultyGpu, ADeviceThatRefusesToRecordIsNotAskedAgain) {
  write_model(kDense);
  const auto expected = logits_on(open(Fault::none).value());
  gpu::emu::controls().refuse_capture = true;
  auto backend = open(Fault::none);
  gpu::emu::controls().refuse_capture = false;
  ASSERT_TRUE(backend.ok()) << backend.error().message;
  const Backend& opened = **backend;
  const auto model = testing::LoadedModel::open_on(std::move(*backend), path_);
  EXPECT_EQ(logits_of(model), expected);
  EXPECT_FALSE(faulty().launched.contains("graph"));
  EXPECT_EQ(opened.n_refused_recordings(), 0u);
  EXPECT_EQ(n_said("passes are not recorded"), 1u);
}

TEST_F(FaultyGpu, ADeviceWithoutPlainProductsIsRefusedByName) {
  const auto backend = open(Fault::one_row);
  ASSERT_FALSE(backend.ok());
  EXPECT_EQ(backend.error().code, ErrorCode::device_failed);
  EXPECT_NE(
      backend.error().message.find("emu (emulation, wave 32, mma) fails its self-test, products of one row: row 0, "
                                   "column 69: "),
      std::string::npos)
      << backend.error().message;
  const auto apart = open(Fault::meeting);
  ASSERT_FALSE(apart.ok());
  EXPECT_NE(apart.error().message.find("meetings of blocks: thread "), std::string::npos) << apart.error().message;
}

TEST_F(FaultyGpu, AutoGoesOnToTheCpuAndSaysWhy) {
  write_model(kDense);
  ModelOptions options;
  options.open_gpu = [] { return open(Fault::one_row); };
  const auto model = Model::open(path_, options);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_FALSE((*model)->is_on_gpu());
  EXPECT_NE((*model)->gpu_refusal().find("products of one row"), std::string::npos) << (*model)->gpu_refusal();
}

}  // namespace
}  // namespace rocmforge
