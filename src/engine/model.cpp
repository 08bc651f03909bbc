#include "engine/model.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "base/read_ahead.h"
#include "base/thread.h"
#include "base/units.h"
#include "cpu/backend.h"
#include "cpu/memory.h"
#include "gpu/module.h"

namespace rocmforge {
namespace {

using SharedFile = std::shared_ptr<const gguf::GgufFile>;
using OpenedGpu = Result<std::unique_ptr<Backend>>;

// Of what is available without being asked for: for what others take meanwhile, and for the driver.
constexpr uint64_t kMarginBytes = 256 << 20;
constexpr uint64_t kMarginShare = 16;

// A tokenizer takes up to this many times the header it is made from.
constexpr uint64_t kTokenizerShare = 6;

OpenedGpu open_gpu(const ModelOptions& options) {
  if (options.open_gpu) return options.open_gpu();
  const auto folders = gpu::module_folders();
  const gpu::SelfTestOptions self_test{.mode = gpu::self_test_mode(gpu::SelfTestMode::once),
                                       .file = options.self_test_file};
  return options.device == "auto" ? gpu::open_any_gpu(folders, self_test)
                                  : gpu::open_backend(options.device, folders, self_test);
}

// A driver takes a fifth of a second to start, so the GPU is opened on a thread of its own while the file's header is
// read. Without a thread it is opened by wait().
class OpeningGpu {
 public:
  explicit OpeningGpu(const ModelOptions& options) : options_(options) {
    auto thread = start_thread([this] { open(); });
    if (thread.ok()) thread_ = std::move(*thread);
  }
  ~OpeningGpu() {
    if (thread_.joinable()) thread_.join();
  }
  OpeningGpu(const OpeningGpu&) = delete;
  OpeningGpu& operator=(const OpeningGpu&) = delete;

  // What will be read first comes closer while the driver starts. Called once.
  OpenedGpu wait(const gguf::GgufFile& file) {
    if (thread_.joinable()) {
      std::vector<std::string> paths;
      for (uint32_t i = 0; i < file.n_shards(); i++) paths.push_back(file.file(i).path());
      const ReadAhead reading(std::move(paths));
      thread_.join();
    } else {
      open();
    }
    return *std::move(opened_);
  }

 private:
  void open() noexcept {
    try {
      opened_ = open_gpu(options_);
    } catch (const std::exception& exception) {
      opened_ = error_of(exception);
    }
  }

  const ModelOptions& options_;
  std::optional<OpenedGpu> opened_;
  std::thread thread_;
};

}  // namespace

uint64_t less_margin(uint64_t available) {
  return available - std::min(available, std::max(kMarginBytes, available / kMarginShare));
}

Result<std::unique_ptr<Model>> Model::open(const std::string& path, const ModelOptions& options) {
  const auto open_file = [&]() -> Result<SharedFile> {
    gguf::GgufFile file = TRY(gguf::GgufFile::open(path, {}, options.calls));
    TRY(file.override_metadata(options.overrides));
    return std::make_shared<const gguf::GgufFile>(std::move(file));
  };
  if (options.device == "cpu") return on_cpu(TRY(open_file()), options);

  OpeningGpu opening(options);
  const SharedFile file = TRY(open_file());
  OpenedGpu backend = opening.wait(*file);
  if (options.device != "auto") return on_gpu(TRY(std::move(backend)), file, options);

  if (backend.ok() && *backend == nullptr) return on_cpu(file, options);
  auto model = backend.ok() ? on_gpu(*std::move(backend), file, options) : std::move(backend).error();
  if (model.ok()) return model;
  auto instead = on_cpu(file, options);
  if (instead.ok()) (*instead)->gpu_refusal_ = std::move(model.error().message);
  return instead;
}

Result<std::unique_ptr<Model>> Model::on_cpu(SharedFile file, const ModelOptions& options) {
  auto backend = std::make_unique<CpuBackend>(CpuBackend::Options{.n_threads = options.n_threads});
  const uint64_t held_bytes =
      options.ram_bytes ? options.held_bytes.value_or(cpu::held_memory()) + kTokenizerShare * file->header_bytes()
                        : uint64_t{0};
  const uint64_t budget_bytes =
      options.ram_bytes ? *options.ram_bytes : less_margin(backend->placement().available_bytes());
  return on(std::move(backend), std::move(file), options, budget_bytes, held_bytes);
}

Result<std::unique_ptr<Model>> Model::on_gpu(std::unique_ptr<Backend> backend, SharedFile file,
                                             const ModelOptions& options) {
  const uint64_t available = less_margin(backend->placement().available_bytes());
  auto model = TRY(on(std::move(backend), std::move(file), options, options.vram_bytes.value_or(available), 0));
  model->is_on_gpu_ = true;
  const ExecutionPlan& plan = *model->plan_;
  for (const auto steps : plan.steps()) TRY(model->backend_->check_steps(steps, plan.weights()));
  // Weights that come over the bus with every token are nobody's choice unless it was asked for.
  if (options.device == "auto" && !options.vram_bytes &&
      (!plan.streamed_stages().empty() || plan.weights().experts_move())) {
    return Error{ErrorCode::out_of_memory, fmt::format("{}: {} of its memory do not hold the model",
                                                       model->backend_->name(), format_bytes(available))};
  }
  return model;
}

Result<std::unique_ptr<Model>> Model::on(std::unique_ptr<Backend> backend, SharedFile file, const ModelOptions& options,
                                         uint64_t budget_bytes, uint64_t held_bytes) {
  std::unique_ptr<Model> model(new Model);
  model->control_ = options.control;
  model->backend_ = std::move(backend);
  model->plan_ = TRY(ExecutionPlan::from_gguf(*model->backend_, std::move(file),
                                              {.weights = {.n_loaders = options.n_threads},
                                               .n_context = options.n_context,
                                               .budget_bytes = budget_bytes,
                                               .held_bytes = held_bytes,
                                               .pass = options.pass,
                                               .fuse = options.fuse}));
  return model;
}

Result<const tokenizer::Tokenizer*> Model::tokenizer() {
  if (!tokenizer_) tokenizer_ = TRY(tokenizer::Tokenizer::load(file().metadata(), control_));
  return &*tokenizer_;
}

Result<void> Model::load(LoadMode mode) {
  if (mode == LoadMode::eager) return plan_->weights().preload_all();
  prefetch(*plan_);
  return {};
}

}  // namespace rocmforge
