#include "engine/model.h"

#include <algorithm>

#include "cpu/backend.h"
#include "cpu/memory.h"
#include "gpu/module.h"

namespace rocmforge {
namespace {

// auto is the CPU as long as the GPU's kernels do not cover every family.
bool is_cpu(const std::string& device) {
  return device == "auto" || device == "cpu";
}

Result<std::unique_ptr<Backend>> open_backend(const std::string& device, size_t n_threads) {
  if (is_cpu(device)) {
    return std::make_unique<CpuBackend>(CpuBackend::Options{.n_threads = n_threads});
  }
  return gpu::open_backend(device, gpu::module_folders());
}

// Of what is available without being asked for: for what others take meanwhile, and for the driver.
constexpr uint64_t kMarginBytes = 256 << 20;
constexpr uint64_t kMarginShare = 16;

// A tokenizer takes up to this many times the header it is made from.
constexpr uint64_t kTokenizerShare = 6;

struct Budget {
  uint64_t bytes = 0;
  uint64_t held_bytes = 0;  // of them, beside the plan's
};

Budget memory_budget(const ModelOptions& options, Backend& backend, const gguf::GgufFile& file) {
  const bool on_cpu = is_cpu(options.device);
  if (const auto asked = on_cpu ? options.ram_bytes : options.vram_bytes) {
    return {*asked, on_cpu ? cpu::held_memory() + kTokenizerShare * file.header_bytes() : 0};
  }
  const uint64_t available = backend.placement().available_bytes();
  return {available - std::min(available, std::max(kMarginBytes, available / kMarginShare)), 0};
}

}  // namespace

Result<std::unique_ptr<Model>> Model::open(const std::string& path, const ModelOptions& options) {
  auto file = std::make_shared<gguf::GgufFile>(TRY(gguf::GgufFile::open(path, {}, options.calls)));
  std::unique_ptr<Model> model(new Model);
  model->backend_ = TRY(open_backend(options.device, options.n_threads));
  const Budget budget = memory_budget(options, *model->backend_, *file);
  model->plan_ = TRY(ExecutionPlan::from_gguf(*model->backend_, std::move(file),
                                              {.weights = {.n_loaders = options.n_threads},
                                               .n_context = options.n_context,
                                               .budget_bytes = budget.bytes,
                                               .held_bytes = budget.held_bytes,
                                               .pass = options.pass}));
  return model;
}

Result<const tokenizer::Tokenizer*> Model::tokenizer() {
  if (!tokenizer_) tokenizer_ = TRY(tokenizer::Tokenizer::load(file().metadata()));
  return &*tokenizer_;
}

Result<void> Model::load(LoadMode mode) {
  if (mode == LoadMode::eager) return plan_->weights().preload_all();
  prefetch(*plan_);
  return {};
}

}  // namespace rocmforge
