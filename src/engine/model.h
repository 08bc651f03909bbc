#pragma once
// A model file opened for use: its plan on a backend, and its tokenizer, which is read on first use.
//
// Opening reads the header and makes the plan. Weights are loaded by the first pass (lazy) or before it (eager); the
// answers have the same bits either way.
//
// The device auto is the first GPU that opens, supports every step of the model and holds all of its weights (or the
// part that vram_bytes keeps resident). If there is none, auto is the CPU.
//
// Threads: one pass at a time; weights/weight_store.h says which calls may run beside a pass.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/load_control.h"
#include "base/result.h"
#include "gguf/overrides.h"
#include "plan/execution_plan.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

enum class LoadMode : uint8_t { lazy, eager };

struct ModelOptions {
  std::string device = "auto";  // auto, cpu, or what gpu/module.h opens: gpu, gpu:N, emu, emu:64
  size_t n_threads = 0;         // for computing, and as many for reading; 0: one per core
  uint32_t n_context = 0;       // tokens of the longest sequence; 0: the model's, at most kDefaultContext
  // Limits on the process's memory and on the device's. None: the memory available now, less a margin. A model that
  // needs more streams some of its weights in every pass (weights/residency.h).
  std::optional<uint64_t> ram_bytes = {};
  std::optional<uint64_t> vram_bytes = {};
  // The part of ram_bytes already in use or promised: the program and other models. None: the memory that the process
  // holds now.
  std::optional<uint64_t> held_bytes = {};
  PassSize pass = {};                          // the passes that the budget must leave room for
  bool fuse = true;                            // PlanOptions::fuse
  std::vector<gguf::Override> overrides = {};  // of the file's metadata
  const FileCalls* calls = nullptr;
  std::string self_test_file = {};  // remembers the results of GPUs' self-tests (gpu/self_test_policy.h); empty: none
  LoadControl control = {};         // can stop the reading of the tokenizer
  // How the GPU is opened, for tests; null: there is none. Otherwise gpu/module.h does it.
  std::function<Result<std::unique_ptr<Backend>>()> open_gpu = {};
};

// The default budget, given the available memory.
uint64_t less_margin(uint64_t available);

class Model {
 public:
  static Result<std::unique_ptr<Model>> open(const std::string& path, const ModelOptions& options = {});

  const gguf::GgufFile& file() const { return plan_->file(); }
  const ExecutionPlan& plan() const { return *plan_; }
  Backend& backend() const { return *backend_; }
  // Its weights, keys and values are in the memory of a GPU, not in the machine's.
  bool is_on_gpu() const { return is_on_gpu_; }
  // Why auto did not use the GPU that was found; empty if none was found or a device was named.
  const std::string& gpu_refusal() const { return gpu_refusal_; }

  // Read on the first call.
  Result<const tokenizer::Tokenizer*> tokenizer();

  // eager: blocks until every weight is resident. lazy: prefetches the weights in the order of use and returns, so that
  // they load while the prompt is being prepared.
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
