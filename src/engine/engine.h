#pragma once
// One model serving many requests: each step takes some tokens of every running request through one pass.
//
// Threads: submit, cancel, stats and the others may be called from any thread, receivers too; none of them waits for a
// step. One thread of the engine's own runs the steps and calls the receivers; it sleeps when there is nothing to do.
// stop() and the destructor must not be called from a receiver.

#include <cstdint>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/result.h"
#include "engine/model.h"
#include "engine/request.h"
#include "plan/backend.h"
#include "weights/loading_stats.h"

namespace rocmforge {

struct EngineOptions {
  uint32_t n_kv_tokens = 0;  // positions of all sequences together; 0: kv_percent of the memory left beside weights and
                             // workspaces, at least one sequence, no more than max_running sequences can use
  uint32_t kv_percent = 90;
  uint64_t max_bytes = 0;          // of weights, workspaces and those positions together; 0: what the plan may take
  uint32_t max_running = 64;       // sequences in one step
  uint32_t max_step_tokens = 512;  // rows of one step; fewer where they take long
  uint32_t max_queued = 512;       // requests that wait
  uint64_t max_queued_tokens = 1 << 20;  // of their prompts; a single one may be longer
  KvType kv_type = KvType::f16;
  Clock clock = system_clock();
};

struct EngineStats {
  // Now.
  uint32_t n_running = 0, n_waiting = 0;
  uint32_t n_pages = 0, n_pages_used = 0, n_pages_cached = 0;  // cached: kept for their prefix, free when needed
  bool is_draining = false;
  bool is_dead = false;  // see death(); every request has been ended
  LoadingStats loading;
  // Since the engine was made.
  uint64_t n_requests = 0, n_finished = 0, n_cancelled = 0, n_failed = 0, n_refused = 0;
  uint64_t n_prompt_tokens = 0, n_generated_tokens = 0;
  uint64_t n_prefix_queries = 0, n_prefix_hits = 0;  // prompt tokens looked up, and found computed
  uint64_t n_preemptions = 0, n_device_errors = 0, n_not_finite = 0;
  uint64_t n_steps = 0;
  double step_seconds = 0;    // in steps, all together
  TimePoint last_progress{};  // the end of the last step, or when work arrived at an idle engine

  // Adds what `other` counted since it was made; what it has now is left out.
  void add_counts(const EngineStats& other);
};

class Engine {
 public:
  // How large its passes are: what ModelOptions::pass must leave room for.
  static PassSize pass_size(const EngineOptions& options);
  // Reads the tokenizer; reserves nothing: the first step does, and streams the weights in.
  // out_of_memory: not even one page of positions fits.
  static Result<std::unique_ptr<Engine>> create(std::unique_ptr<Model> model, const EngineOptions& options = {});
  ~Engine();

  // limit_exceeded: prompt and max_tokens do not fit the context. queue_full, draining: not now.
  // invalid_argument: an empty prompt, an id outside the vocabulary, sampling options out of range.
  // device_failed: the engine is dead.
  Result<RequestId> submit(GenerationRequest request, EventReceiver receiver);
  Result<RequestId> submit(EmbeddingRequest request, EventReceiver receiver);
  // Its FinishEvent comes within one step. Nothing happens when the request has ended or never was.
  void cancel(RequestId id);

  const Model& model() const;
  const tokenizer::Tokenizer& tokenizer() const;
  uint32_t n_context() const;      // prompt and answer of one request
  uint32_t n_kv_tokens() const;    // of all together
  MemoryBill memory_bill() const;  // what it takes once the first step has run
  EngineStats stats() const;
  // Why every request is refused from now on: the device has failed for good, the model's file is gone or another, or
  // memory ran out in a step.
  std::optional<Error> death() const;

  // From now on requests are refused (draining); those accepted go on.
  void begin_drain();
  // No request is accepted and not ended.
  bool is_idle() const;
  // Ends the requests that are left with this error and the thread with them. Calls after the first do nothing.
  void stop(Error to_the_rest);

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rocmforge
