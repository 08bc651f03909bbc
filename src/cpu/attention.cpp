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

// Work on fewer elements than this is done before another thread has woken.
constexpr uint64_t kAloneElements = 16 << 10;

// A position's keys or values of one head, to where the head begins in its page.
void store_row(std::byte* head, const float* row, uint32_t size, KvType type, const Kernels& kernels, KvPlane plane,
               uint32_t position) {
  const auto store = [&]<class T>(T* to, auto&& convert) {
    if (plane == KvPlane::values) return convert(to + position * size, row, size);
    constexpr uint32_t kAtOnce = 64;
    for (uint32_t first = 0; first < size; first += kAtOnce) {
      const uint32_t n = std::min(kAtOnce, size - first);
      T some[kAtOnce];
      convert(some, row + first, n);
      for (uint32_t i = 0; i < n; i++) to[(first + i) * kPageTokens + position] = some[i];
    }
  };
  if (type == KvType::f16) {
    store(reinterpret_cast<uint16_t*>(head), kernels.to_f16);
  } else {
    store(reinterpret_cast<float*>(head), [](float* to, const float* from, size_t n) { std::copy_n(from, n, to); });
  }
}

// The first position that a row at `position` looks at.
uint32_t begin_at(const Attend& step, uint32_t position) {
  if (step.chunk != 0) return position / step.chunk * step.chunk;
  return step.window == 0 || position < step.window ? 0 : position + 1 - step.window;
}

// A cap and what distance costs are applied to scaled scores, which are then not scaled again.
float scale_of(const Attend& step) {
  return step.softcap == 0 && step.alibi_bias == 0 ? step.scale : 1.0f;
}
// `distance`: of the first position from the query's.
void cap_or_bias(float* scores, uint32_t n, const Attend& step, uint32_t head, uint32_t distance) {
  if (step.softcap != 0) {
    for (uint32_t j = 0; j < n; j++) scores[j] *= step.scale;
    cap(scores, n, step.softcap);
  }
  if (step.alibi_bias != 0) {
    const float slope = alibi_slope(step.alibi_bias, step.n_heads, head);
    for (uint32_t j = 0; j < n; j++) {
      scores[j] = scores[j] * step.scale - slope * static_cast<float>(distance - j);
    }
  }
}

}  // namespace

void store_head(const KvCache& cache, const Kernels& kernels, const BatchSequence& sequence, uint32_t position,
                uint32_t layer, KvPlane plane, uint64_t head, const float* row) {
  std::byte* to = cache.head_at(cache.page_of(sequence, layer, position / kPageTokens), layer, plane, head);
  const KvLayer& of = cache.layer(layer);
  store_row(to, row, plane == KvPlane::keys ? of.key_size : of.value_size, cache.shape().type, kernels, plane,
            position % kPageTokens);
}

void store_kv(const KvCache& cache, const Kernels& kernels, Workers& workers, const Batch& batch, uint32_t layer,
              KvPlane plane, const float* rows) {
  const KvLayer& of = cache.layer(layer);
  const uint32_t size = plane == KvPlane::keys ? of.key_size : of.value_size;
  const uint64_t width = uint64_t{of.n_heads} * size;
  // A head is one thread's: rows of keys share the lines of memory they go to.
  const auto store = [&](size_t head) {
    for (const BatchSequence& sequence : batch.sequences) {
      for (uint32_t r = 0; r < sequence.n_rows; r++) {
        if (sequence.first_position + r < sequence.first_stored) continue;
        const float* row = rows + uint64_t{sequence.first_row + r} * width + head * size;
        store_head(cache, kernels, sequence, sequence.first_position + r, layer, plane, head, row);
      }
    }
  };
  if (batch.n_rows() * width <= kAloneElements) {
    for (size_t head = 0; head < of.n_heads; head++) store(head);
  } else {
    workers.run(of.n_heads, [&](size_t head, size_t) { store(head); });
  }
}

void Attention::attend(float* out, const float* q, const Attend& step, std::span<const float> sinks,
                       const KvCache& cache, const Batch& batch, const Before& before) {
  CHECK(!before || batch.sequences.size() == batch.n_rows());
  CHECK(step.softcap == 0 || step.alibi_bias == 0);
  CHECK(step.n_kv_heads > 0 && step.n_heads % step.n_kv_heads == 0);
  CHECK(step.n_kv_heads * step.head_size == cache.layer(step.layer).key_width());
  CHECK(step.n_kv_heads * step.value_head() == cache.layer(step.layer).value_width());
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
  workers_.run(tasks.size(), [&](size_t i, size_t worker) {
    if (before) before(*tasks[i].sequence, tasks[i].kv_head);
    run(out, q, step, sinks, cache, tasks[i], i + 1 < tasks.size() ? &tasks[i + 1] : nullptr, scratch_[worker]);
  });
}

// One query for each row and query head of the task, with nothing looked at.
void Attention::begin(Scratch& s, float* out, const float* q, const Attend& step, const Task& task) {
  const uint32_t group = step.n_heads / step.n_kv_heads;
  const uint32_t n_queries = task.n_rows * group;
  s.q.clear();
  s.out.clear();
  s.score_rows.clear();
  s.scores.resize(size_t{n_queries} * kPageTokens);
  s.softmax.assign(n_queries, {-std::numeric_limits<float>::infinity(), 0.0f});
  s.keep.resize(n_queries);
  for (uint32_t i = 0; i < n_queries; i++) {
    const size_t row = task.sequence->first_row + task.first_row + i / group;
    const size_t head = row * step.n_heads + task.kv_head * group + i % group;
    s.q.push_back(q + head * step.head_size);
    s.out.push_back(out + head * step.value_head());
    s.score_rows.push_back(s.scores.data() + size_t{i} * kPageTokens);
    std::fill_n(s.out.back(), step.value_head(), 0.0f);
  }
}

// Divides the sums by those of their weights.
void Attention::finish(const Scratch& s, const Attend& step, std::span<const float> sinks, const Task& task) {
  const uint32_t group = step.n_heads / step.n_kv_heads;
  const float scale = scale_of(step);
  for (size_t i = 0; i < s.out.size(); i++) {
    double sum = s.softmax[i].sum;
    if (!sinks.empty()) {
      sum += std::exp(double{sinks[task.kv_head * group + i % group]} - double{scale} * s.softmax[i].largest);
    }
    const auto share = static_cast<float>(1.0 / sum);
    for (uint32_t d = 0; d < step.value_head(); d++) s.out[i][d] *= share;
  }
}

void Attention::run(float* out, const float* q, const Attend& step, std::span<const float> sinks, const KvCache& cache,
                    const Task& task, const Task* next_task, Scratch& s) const {
  const uint32_t group = step.n_heads / step.n_kv_heads;
  const auto weighted_sum = cache.shape().type == KvType::f16 ? kernels_.weighted_sum_f16 : kernels_.weighted_sum_f32;
  begin(s, out, q, step, task);

  const uint32_t first_position = task.sequence->first_position + task.first_row;
  const uint32_t last_page = first_position / kPageTokens;  // of every row of the task
  const auto begin_of = [&](uint32_t i) { return begin_at(step, first_position + i / group); };
  const auto keys_of = [&](const Task& of, uint32_t page, uint32_t n_positions) {
    return cache.keys(cache.page_of(*of.sequence, step.layer, page), step.layer, of.kv_head, step.head_size,
                      n_positions);
  };
  const void* keys_of_next_task = nullptr;
  if (next_task != nullptr) {
    const uint32_t position = next_task->sequence->first_position + next_task->first_row;
    keys_of_next_task = keys_of(*next_task, begin_at(step, position) / kPageTokens, kPageTokens).data;
  }
  const float scale = scale_of(step);

  // Queries [first, first + n) against the first n_positions of page p of the sequence.
  const auto take_page = [&](uint32_t p_index, uint32_t n_positions, uint32_t first, uint32_t n) {
    const FloatRows keys = keys_of(task, p_index, n_positions);
    const FloatRows values = cache.values(cache.page_of(*task.sequence, step.layer, p_index), step.layer, task.kv_head,
                                          step.value_head(), n_positions);
    weighted_sum(keys, {&s.q[first], &s.score_rows[first], n, 0}, nullptr, values.data);
    for (uint32_t i = first; i < first + n; i++) {
      float* scores = s.score_rows[i];
      // Positions of this page before the window count nothing.
      const uint32_t page_begin = p_index * kPageTokens;
      const uint32_t n_before = std::min(n_positions, begin_of(i) > page_begin ? begin_of(i) - page_begin : 0);
      std::fill_n(scores, n_before, 0.0f);
      s.keep[i] = 1.0f;
      if (n_before == n_positions) continue;
      const uint32_t distance = first_position + i / group - page_begin - n_before;
      cap_or_bias(scores + n_before, n_positions - n_before, step, task.kv_head * group + i % group, distance);
      s.keep[i] = kernels_.add_scores(s.softmax[i], scores + n_before, n_positions - n_before, scale);
    }
    weighted_sum(values, {&s.score_rows[first], &s.out[first], n, 0}, &s.keep[first],
                 p_index < last_page ? keys_of(task, p_index + 1, n_positions).data : keys_of_next_task);
  };

  // The first query looks back furthest.
  for (uint32_t p = begin_of(0) / kPageTokens; p < last_page; p++) take_page(p, kPageTokens, 0, task.n_rows * group);
  for (uint32_t r = 0; r < task.n_rows; r++) {
    const uint32_t n_positions = (first_position + r) % kPageTokens + 1;
    take_page(last_page, n_positions, r * group, group);
  }
  finish(s, step, sinks, task);
}

}  // namespace rocmforge::cpu
