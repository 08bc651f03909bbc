#pragma once
// A model file opened for use: its plan on a backend, and its tokenizer when somebody asks for it.
//
// Opening reads the header and plans. Weights come with the first pass (lazy) or before it (eager); the answers are the
// same bits either way.
//
// auto is the first GPU that opens, computes every step of the model and holds all of it (or what vram_bytes leaves
// resident of it); where there is none, the CPU.
//
// Threads: one pass at a time; see weights/weight_store.h for what may run beside it.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/load_control.h"
#include "base/result.h"
#include "plan/execution_plan.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

enum class LoadMode : uint8_t { lazy, eager };

struct ModelOptions {
  std::string device = "auto";  // auto, cpu, or what gpu/module.h opens: gpu, gpu:N, emu, emu:64
  size_t n_threads = 0;         // that compute and that read; 0: one per core
  uint32_t n_context = 0;       // tokens of the longest sequence; 0: the model's, at most kDefaultContext
  // What may be taken of the machine's memory, by the whole process, and of the device's. None: what is available now,
  // less a margin. A model that needs more has weights that are read again and again (weights/residency.h).
  std::optional<uint64_t> ram_bytes = {};
  std::optional<uint64_t> vram_bytes = {};
  // Of ram_bytes, what is taken already: the program, other models and what they are promised. None: what the process
  // holds now.
  std::optional<uint64_t> held_bytes = {};
  PassSize pass = {};  // what the budget has to leave room for
  bool fuse = true;    // PlanOptions::fuse
  const FileCalls* calls = nullptr;
  LoadControl control = {};  // asked while the tokenizer is read
  // How the GPU is opened, for tests; null: there is none. Otherwise gpu/module.h does it.
  std::function<Result<std::unique_ptr<Backend>>()> open_gpu = {};
};

// What may be taken of memory that is available when nobody says how much.
uint64_t less_margin(uint64_t available);

class Model {
 public:
  static Result<std::unique_ptr<Model>> open(const std::string& path, const ModelOptions& options = {});

  const gguf::GgufFile& file() const { return plan_->file(); }
  const ExecutionPlan& plan() const { return *plan_; }
  Backend& backend() const { return *backend_; }
  // Its weights, keys and values are in the memory of a GPU, not in the machine's.
  bool is_on_gpu() const { return is_on_gpu_; }
  // Why auto did not take the GPU that there was; empty where none was found, or another device was asked for.
  const std::string& gpu_refusal() const { return gpu_refusal_; }

  // Read on the first call.
  Result<const tokenizer::Tokenizer*> tokenizer();

  // eager: blocks until every weight is resident. lazy: asks for them in the order of use and returns, so that they are
  // on their way while the prompt is being prepared.
  Result<void> load(LoadMode mode);

 private:
  Model() = default;
  static Result<std::unique_ptr<Model>> on_cpu(std::shared_ptr<const gguf::GgufFile> file, const ModelOptions& options);
  static Result<std::unique_ptr<Model>> on_gpu(std::unique_ptr<Backend> backend,
                                               std::shared_ptr<const gguf::GgufFile> file, const ModelOptions& options);
  static Result<std::unique_ptr<Model>> on(std::unique_ptr<Backend> backend, std::shared_ptr<const gguf::GgufFile> file,
                                           const ModelOptions& options, uint64_t budget_bytes, uint64_t held_bytes);

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<ExecutionPlan> plan_;
  std::optional<tokenizer::Tokenizer> tokenizer_;
  LoadControl control_;
  bool is_on_gpu_ = false;
  std::string gpu_refusal_;
};

}  // namespace rocmforge
