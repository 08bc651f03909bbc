#include "cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "cpu/elementwise.h"

namespace rocmforge::cpu {
namespace {

// Queries that share the passes over a head's pages.
constexpr uint32_t kQueriesPerTask = 16;

}  // namespace

void store_kv(const KvCache& cache, const Kernels& kernels, Workers& workers, const Batch& batch, uint32_t layer,
              KvPlane plane, const float* rows) {
  const KvShape& shape = cache.shape();
  for (const BatchSequence& sequence : batch.sequences) {
    workers.run(sequence.n_rows, [&](size_t r, size_t) {
      const uint32_t position = sequence.first_position + static_cast<uint32_t>(r);
      const PageId page = sequence.pages[position / kPageTokens];
      const float* row = rows + (sequence.first_row + r) * shape.width;
      for (uint32_t h = 0; h * shape.head_size < shape.width; h++, row += shape.head_size) {
        std::byte* to = cache.at(page, layer, plane, h, position % kPageTokens);
        if (shape.type == KvType::f16) {
          kernels.to_f16(reinterpret_cast<uint16_t*>(to), row, shape.head_size);
        } else {
          std::copy_n(row, shape.head_size, reinterpret_cast<float*>(to));
        }
      }
    });
  }
}

void Attention::attend(float* out, const float* q, const Attend& step, std::span<const float> sinks,
                       const KvCache& cache, const Batch& batch) {
  CHECK(step.n_kv_heads > 0 && step.n_heads % step.n_kv_heads == 0);
  CHECK(step.n_kv_heads * step.head_size == cache.shape().width);
  const uint32_t rows_per_task = std::max(1u, kQueriesPerTask / (step.n_heads / step.n_kv_heads));
  std::vector<Task> tasks;
  for (const BatchSequence& sequence : batch.sequences) {
    // Rows of one page stay together where they can: cut at the positions where a page begins.
    for (uint32_t r = 0; r < sequence.n_rows;) {
      const uint32_t to_page_end = kPageTokens - (sequence.first_position + r) % kPageTokens;
      const uint32_t n = std::min({rows_per_task, to_page_end, sequence.n_rows - r});
      for (uint32_t h = 0; h < step.n_kv_heads; h++) tasks.push_back({&sequence, r, n, h});
      r += n;
    }
  }
  workers_.run(tasks.size(),
               [&](size_t i, size_t worker) { run(out, q, step, sinks, cache, tasks[i], scratch_[worker]); });
}

void Attention::run(float* out, const float* q, const Attend& step, std::span<const float> sinks, const KvCache& cache,
                    const Task& task, Scratch& s) const {
  const uint32_t group = step.n_heads / step.n_kv_heads;
  const uint32_t n_queries = task.n_rows * group;
  const bool f16 = cache.shape().type == KvType::f16;

  s.q.clear();
  s.out.clear();
  s.score_rows.clear();
  s.scores.resize(size_t{n_queries} * kPageTokens);
  s.largest.assign(n_queries, -std::numeric_limits<float>::infinity());
  s.sum.assign(n_queries, 0.0f);
  s.keep.resize(n_queries);
  for (uint32_t i = 0; i < n_queries; i++) {
    const size_t row = task.sequence->first_row + task.first_row + i / group;
    const size_t at = (row * step.n_heads + task.kv_head * group + i % group) * step.head_size;
    s.q.push_back(q + at);
    s.out.push_back(out + at);
    s.score_rows.push_back(s.scores.data() + size_t{i} * kPageTokens);
    std::fill_n(out + at, step.head_size, 0.0f);
  }

  const uint32_t first_position = task.sequence->first_position + task.first_row;
  // The first position that query i looks at.
  const auto begin_of = [&](uint32_t i) {
    const uint32_t position = first_position + i / group;
    return step.window == 0 || position < step.window ? 0 : position + 1 - step.window;
  };
  // A cap is applied to scaled scores, which are then not scaled again.
  const float scale = step.softcap == 0 ? step.scale : 1.0f;

  // Queries [first, first + n) against the first n_positions of page p of the sequence.
  const auto take_page = [&](uint32_t p_index, uint32_t n_positions, uint32_t first, uint32_t n) {
    const PageId page = task.sequence->pages[p_index];
    const auto plane = [&](KvPlane p) {
      return cache.head_rows(page, step.layer, p, task.kv_head, step.head_size, n_positions);
    };
    const auto matmul = f16 ? kernels_.matmul_f16 : kernels_.matmul_f32;
    matmul(plane(KvPlane::keys), {&s.q[first], &s.score_rows[first], n, 0});
    for (uint32_t i = first; i < first + n; i++) {
      float* scores = s.score_rows[i];
      // Positions of this page before the window count nothing.
      const uint32_t page_begin = p_index * kPageTokens;
      const uint32_t n_before = std::min(n_positions, begin_of(i) > page_begin ? begin_of(i) - page_begin : 0);
      std::fill_n(scores, n_before, 0.0f);
      s.keep[i] = 1.0f;
      if (n_before == n_positions) continue;
      scores += n_before;
      const uint32_t n_scores = n_positions - n_before;
      if (step.softcap != 0) {
        for (uint32_t j = 0; j < n_scores; j++) scores[j] *= step.scale;
        cap(scores, n_scores, step.softcap);
      }
      const float largest = std::max(s.largest[i], kernels_.largest(scores, n_scores));
      s.keep[i] = s.largest[i];  // becomes e^(scale * (the maximum so far - the new one))
      kernels_.exponentials(&s.keep[i], 1, scale, largest);
      s.sum[i] = s.sum[i] * s.keep[i] + kernels_.exponentials(scores, n_scores, scale, largest);
      s.largest[i] = largest;
    }
    const auto weighted_sum = f16 ? kernels_.weighted_sum_f16 : kernels_.weighted_sum_f32;
    weighted_sum(plane(KvPlane::values), {&s.score_rows[first], &s.out[first], n, 0}, &s.keep[first]);
  };

  const uint32_t last_page = first_position / kPageTokens;  // of every row of the task
  // The first query looks back furthest.
  for (uint32_t p = begin_of(0) / kPageTokens; p < last_page; p++) take_page(p, kPageTokens, 0, n_queries);
  for (uint32_t r = 0; r < task.n_rows; r++) {
    const uint32_t n_positions = (first_position + r) % kPageTokens + 1;
    take_page(last_page, n_positions, r * group, group);
  }
  for (uint32_t i = 0; i < n_queries; i++) {
    double sum = s.sum[i];
    if (!sinks.empty()) sum += std::exp(double{sinks[task.kv_head * group + i % group]} - double{scale} * s.largest[i]);
    const auto share = static_cast<float>(1.0 / sum);
    for (uint32_t d = 0; d < step.head_size; d++) s.out[i][d] *= share;
  }
}

}  // namespace rocmforge::cpu
