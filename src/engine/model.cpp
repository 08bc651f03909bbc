#include "engine/model.h"

#include "cpu/backend.h"
#include "gpu/module.h"

namespace rocmforge {
namespace {

// auto is the CPU as long as the GPU's kernels do not cover every family.
Result<std::unique_ptr<Backend>> open_backend(const std::string& device, size_t n_threads) {
  if (device == "auto" || device == "cpu") {
    return std::make_unique<CpuBackend>(CpuBackend::Options{.n_threads = n_threads});
  }
  return gpu::open_backend(device, gpu::module_folders());
}

}  // namespace

Result<std::unique_ptr<Model>> Model::open(const std::string& path, const ModelOptions& options) {
  auto file = std::make_shared<gguf::GgufFile>(TRY(gguf::GgufFile::open(path, {}, options.calls)));
  std::unique_ptr<Model> model(new Model);
  model->backend_ = TRY(open_backend(options.device, options.n_threads));
  model->plan_ =
      TRY(ExecutionPlan::from_gguf(*model->backend_, std::move(file),
                                   {.weights = {.n_loaders = options.n_threads}, .n_context = options.n_context}));
  return model;
}

Result<const tokenizer::Tokenizer*> Model::tokenizer() {
  if (!tokenizer_) tokenizer_ = TRY(tokenizer::Tokenizer::load(file().metadata()));
  return &*tokenizer_;
}

Result<void> Model::load(LoadMode mode) {
  if (mode == LoadMode::eager) return plan_->weights().preload_all();
  for (const Stage& stage : plan_->stages()) plan_->weights().prefetch(stage.weights);
  return {};
}

}  // namespace rocmforge
