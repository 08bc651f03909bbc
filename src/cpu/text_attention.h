#pragma once
// Attention of the rows of whole texts over each other: keys and values are slots, nothing is cached.
//
// Keys are taken 64 rows at a time from the beginning of the text, in that order, whatever else is in the batch: a
// text's bits depend on the text alone.

#include <span>
#include <vector>

#include "cpu/isa/kernels.h"
#include "cpu/workers.h"
#include "plan/batch.h"
#include "plan/step.h"

namespace rocmforge::cpu {

class TextAttention {
 public:
  TextAttention(const Kernels& kernels, Workers& workers)
      : kernels_(kernels), workers_(workers), scratch_(workers.n_threads()) {}

  struct Rows {
    const float* q;  // batch rows x n_heads x head_size
    const float* k;  // batch rows x n_kv_heads x head_size
    const float* v;  // batch rows x n_kv_heads x value_size
    float* out;      // batch rows x n_heads x value_size
  };
  // `distance_biases`: a row for each of n_buckets, a number per head; empty: none. REQUIRES: each run of the batch is
  // a whole text
  void attend(const Rows& rows, const AttendBothWays& step, std::span<const float> distance_biases, const Batch& batch);

 private:
  struct Task {
    const BatchSequence* text;
    uint32_t first_row;  // of the text's
    uint32_t n_rows;
    uint32_t kv_head;
  };
  // The queries of a task: its rows x the query heads of its key-value head.
  struct Scratch {
    std::vector<float> keys;  // a tile, element by element
    std::vector<const float*> q;
    std::vector<float*> out;
    std::vector<float> scores;
    std::vector<float*> score_rows;
    std::vector<RunningSoftmax> softmax;
    std::vector<float> keep;
  };
  struct Tile;

  void run(const Rows& rows, const AttendBothWays& step, const Task& task, Scratch& scratch) const;
  void take_tile(const AttendBothWays& step, const Task& task, const Tile& tile, Scratch& scratch) const;
  // The positions of a tile that query i of the task sees, as [first, last).
  static std::pair<uint32_t, uint32_t> seen(const AttendBothWays& step, uint32_t position, const Tile& tile);
  void adjust(const AttendBothWays& step, uint32_t head, int64_t distance, float* scores, uint32_t n) const;
  void prepare_biases(const AttendBothWays& step, std::span<const float> distance_biases, const Batch& batch);

  const Kernels& kernels_;
  Workers& workers_;
  std::vector<Scratch> scratch_;  // by worker
  std::vector<float> slopes_;     // ALiBi, by head
  // By head, then by distance from -(longest - 1) to longest - 1; empty: none.
  std::vector<float> biases_;
  uint32_t longest_ = 0;
};

}  // namespace rocmforge::cpu
