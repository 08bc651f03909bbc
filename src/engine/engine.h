#pragma once
// One model serving many requests: each step takes some tokens of every running request through one pass.
//
// Threads: any thread may call submit, cancel, stats and the other members, also inside a receiver; no call waits for a
// step. A thread of the engine runs the steps and calls the receivers; the thread sleeps while no request is accepted.
// A receiver must not call stop() or destroy the engine.

#include <cstdint>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/result.h"
#include "engine/choice_counts.h"
#include "engine/model.h"
#include "engine/request.h"
#include "engine/side_work.h"
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
  SideWorkLimits side_work = {};
};

struct EngineStats {
  // Now.
  uint32_t n_running = 0, n_waiting = 0;
  uint32_t n_pages = 0, n_pages_used = 0, n_pages_cached = 0;     // cached: kept for their prefix, free when needed
  uint32_t n_states = 0, n_states_used = 0, n_states_cached = 0;  // slots for states of recurrent layers
  uint32_t n_window_pages = 0, n_window_pages_used = 0, n_window_pages_cached = 0;  // of windowed layers
  bool is_draining = false;
  bool is_dead = false;  // see death(); every request has been ended
  LoadingStats loading;
  // Since the engine was made.
  uint64_t n_requests = 0, n_finished = 0, n_cancelled = 0, n_failed = 0, n_refused = 0;
  uint64_t n_prompt_tokens = 0, n_generated_tokens = 0;
  // Prompt tokens looked up, found in pages, and of these not computed again. Only where layers are recurrent or
  // windowed the last two differ, and n_recomputed of them were computed for their states or windows alone.
  uint64_t n_prefix_queries = 0, n_prefix_matched = 0, n_prefix_hits = 0, n_recomputed = 0;
  uint64_t n_preemptions = 0, n_device_errors = 0, n_not_finite = 0;
  ChoiceCounts choices;
  uint64_t n_refused_recordings = 0;  // by the device (plan/backend.h)
  uint64_t n_steps = 0;
  double step_seconds = 0;    // in steps, all together
  TimePoint last_progress{};  // the end of the last step, or when work arrived at an idle engine

  // Adds what `other` counted since it was made; what it has now is left out.
  void add_counts(const EngineStats& other);
};

class Engine {
 public:
  // The size of the engine's passes, for ModelOptions::pass.
  static PassSize pass_size(const EngineOptions& options);
  // Reads the tokenizer. The first step reserves memory and loads the weights.
  // out_of_memory: not even one page of positions fits.
  static Result<std::unique_ptr<Engine>> create(std::unique_ptr<Model> model, const EngineOptions& options = {});
  ~Engine();

  // limit_exceeded: prompt and max_tokens do not fit the context. queue_full, draining: not now.
  // invalid_argument: an empty prompt, an id outside the vocabulary, sampling options out of range.
  // device_failed: the engine is dead.
  Result<RequestId> submit(GenerationRequest request, EventReceiver receiver);
  Result<RequestId> submit(EmbeddingRequest request, EventReceiver receiver);
  // The request's FinishEvent comes within one step. A request that has ended or is unknown is ignored.
  void cancel(RequestId id);

  const Model& model() const;
  const tokenizer::Tokenizer& tokenizer() const;
  uint32_t n_context() const;      // prompt and answer of one request
  uint32_t n_kv_tokens() const;    // of all together
  MemoryBill memory_bill() const;  // the memory in use after the first step
  EngineStats stats() const;
  // The reason why every request is refused from now on: the device has failed for good, the model's file was removed
  // or replaced, or memory ran out in a step.
  std::optional<Error> death() const;

  // Refuses new requests (draining); accepted requests continue.
  void begin_drain();
  // Every accepted request has ended.
  bool is_idle() const;
  // Ends all remaining requests with this error, then the thread. Later calls do nothing.
  void stop(Error error);

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rocmforge
