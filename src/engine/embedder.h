#pragma once
// Embeddings and scores of many texts on one plan, by the engine's own steps without its thread: the texts share
// ragged batches, without padding.
//
// Threads: one at a time.

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine_core.h"
#include "engine/request.h"
#include "plan/execution_plan.h"

namespace rocmforge {

// invalid_argument: no tokens, a token outside the vocabulary, a score of a model without a classifier.
// limit_exceeded: more than n_context tokens.
Result<void> check_embedding(const EmbeddingRequest& request, const ExecutionPlan& plan, uint32_t n_context);

// Scales to length 1; a vector of zeros stays.
void normalise_embedding(std::span<float> values);

// The steps of texts that are embedded: rows for the longest text, whole texts if the model wants them.
SchedulerOptions embedding_sizes(const ExecutionPlan& plan, uint32_t n_context, KvType kv_type);

struct EmbedderOptions {
  uint32_t n_context = 0;  // tokens of a text; 0: what the plan allows
  KvType kv_type = KvType::f16;
  Clock clock = system_clock();
};

class Embedder {
 public:
  // Allocates nothing yet. out_of_memory: more than the budget that the plan was made for.
  static Result<std::unique_ptr<Embedder>> create(const ExecutionPlan& plan, const EmbedderOptions& options = {});
  Embedder(const Embedder&) = delete;
  Embedder& operator=(const Embedder&) = delete;

  uint32_t n_context() const { return sizes_.n_context; }
  CoreStats stats() const { return core_.stats(); }

  // What is asked of each text, in order. An error is that of the first request that has one, and ends all.
  // `should_stop`, if any, is asked between steps; true: cancelled.
  Result<std::vector<std::vector<float>>> embed(std::vector<EmbeddingRequest> requests,
                                                const std::function<bool()>& should_stop = {});

 private:
  Embedder(const ExecutionPlan& plan, const SchedulerOptions& sizes, const EmbedderOptions& options);

  const ExecutionPlan& plan_;
  SchedulerOptions sizes_;
  Clock clock_;
  uint64_t last_id_ = 0;
  EngineCore core_;
};

}  // namespace rocmforge
