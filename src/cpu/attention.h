#pragma once
// Causal attention over pages: each query takes its sequence's pages in order, and merges each with a running maximum
// and sum. A page is the same 64 positions whoever asks, so the result does not depend on how a prompt was cut.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cpu/isa/kernels.h"
#include "cpu/kv_cache.h"
#include "cpu/workers.h"
#include "plan/batch.h"
#include "plan/step.h"

namespace rocmforge::cpu {

// Appends the batch's keys (or values), a row of `rows` each, to their sequences' pages.
void store_kv(const KvCache& cache, const Kernels& kernels, Workers& workers, const Batch& batch, uint32_t layer,
              KvPlane plane, const float* rows);  // rows: batch.n_rows() x width
// One head of one row, which belongs to `position` of the sequence.
void store_head(const KvCache& cache, const Kernels& kernels, const BatchSequence& sequence, uint32_t position,
                uint32_t layer, KvPlane plane, uint64_t head, const float* row);  // row: head_size

class Attention {
 public:
  Attention(const Kernels& kernels, Workers& workers)
      : kernels_(kernels), workers_(workers), scratch_(workers.n_threads()) {}

  // q and out: batch.n_rows() x n_heads x head_size; sinks: one per head, or none.
  // `before`, if any, makes what a key-value head of a sequence needs, its queries and its place in the cache, on the
  // thread that then attends. REQUIRES, then: each sequence has one row
  using Before = std::function<void(const BatchSequence& sequence, uint32_t kv_head)>;
  void attend(float* out, const float* q, const Attend& step, std::span<const float> sinks, const KvCache& cache,
              const Batch& batch, const Before& before = {});

 private:
  // The queries of one task: rows x the query heads of one key-value head, each with its running softmax.
  struct Scratch {
    std::vector<const float*> q;
    std::vector<float*> out;
    std::vector<float> scores;  // a page for each query
    std::vector<float*> score_rows;
    std::vector<RunningSoftmax> softmax;
    std::vector<float> keep;
  };
  struct Task {
    const BatchSequence* sequence;
    uint32_t first_row;  // of the sequence's
    uint32_t n_rows;
    uint32_t kv_head;
  };
  static void begin(Scratch& scratch, float* out, const float* q, const Attend& step, const Task& task);
  static void finish(const Scratch& scratch, const Attend& step, std::span<const float> sinks, const Task& task);
  // `next`, if any: the task that probably follows on this thread.
  void run(float* out, const float* q, const Attend& step, std::span<const float> sinks, const KvCache& cache,
           const Task& task, const Task* next, Scratch& scratch) const;

  const Kernels& kernels_;
  Workers& workers_;
  std::vector<Scratch> scratch_;  // by worker
};

}  // namespace rocmforge::cpu
