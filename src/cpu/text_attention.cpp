#include "cpu/text_attention.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "cpu/elementwise.h"
#include "cpu/row_operations.h"

namespace rocmforge::cpu {
namespace {

// Keys that are looked at together.
constexpr uint32_t kTile = 64;

// Queries that share a tile of keys: so many that bringing the keys into order costs little beside them.
constexpr uint32_t kQueriesPerTask = 64;

}  // namespace

struct TextAttention::Tile {
  uint32_t first = 0;  // row of the text
  uint32_t n = 0;
  FloatRows keys, values;
};

void TextAttention::attend(const Rows& rows, const AttendBothWays& step, std::span<const float> distance_biases,
                           const Batch& batch) {
  CHECK(step.n_kv_heads > 0 && step.n_heads % step.n_kv_heads == 0);
  prepare_biases(step, distance_biases, batch);
  const uint32_t rows_per_task = std::max(1u, kQueriesPerTask / (step.n_heads / step.n_kv_heads));
  std::vector<Task> tasks;
  for (const BatchSequence& text : batch.sequences) {
    CHECK(text.first_position == 0);
    for (uint32_t h = 0; h < step.n_kv_heads; h++) {
      for (uint32_t r = 0; r < text.n_rows; r += rows_per_task) {
        tasks.push_back({&text, r, std::min(rows_per_task, text.n_rows - r), h});
      }
    }
  }
  workers_.run(tasks.size(), [&](size_t i, size_t worker) { run(rows, step, tasks[i], scratch_[worker]); });
}

void TextAttention::prepare_biases(const AttendBothWays& step, std::span<const float> distance_biases,
                                   const Batch& batch) {
  slopes_.clear();
  biases_.clear();
  for (uint32_t h = 0; h < step.n_heads && step.alibi_bias != 0; h++) {
    slopes_.push_back(alibi_slope(step.alibi_bias, step.n_heads, h));
  }
  if (distance_biases.empty()) return;
  const auto n_buckets = static_cast<uint32_t>(distance_biases.size() / step.n_heads);
  longest_ = 0;
  for (const BatchSequence& text : batch.sequences) longest_ = std::max(longest_, text.n_rows);
  const uint32_t n_distances = 2 * longest_ - 1;
  biases_.resize(size_t{step.n_heads} * n_distances);
  for (uint32_t i = 0; i < n_distances; i++) {
    const uint32_t bucket = distance_bucket(int64_t{i} - (longest_ - 1), n_buckets);
    for (uint32_t h = 0; h < step.n_heads; h++) {
      biases_[size_t{h} * n_distances + i] = distance_biases[size_t{bucket} * step.n_heads + h];
    }
  }
}

void TextAttention::run(const Rows& rows, const AttendBothWays& step, const Task& task, Scratch& s) const {
  const uint32_t group = step.n_heads / step.n_kv_heads, n_queries = task.n_rows * group;
  s.q.clear();
  s.out.clear();
  s.score_rows.clear();
  s.keys.resize(size_t{step.head_size} * kTile);
  s.scores.resize(size_t{n_queries} * kTile);
  s.softmax.assign(n_queries, {-std::numeric_limits<float>::infinity(), 0.0f});
  s.keep.resize(n_queries);
  for (uint32_t i = 0; i < n_queries; i++) {
    const size_t row = task.text->first_row + task.first_row + i / group;
    const size_t head = row * step.n_heads + task.kv_head * group + i % group;
    s.q.push_back(rows.q + head * step.head_size);
    s.out.push_back(rows.out + head * step.value_size);
    s.score_rows.push_back(s.scores.data() + size_t{i} * kTile);
    std::fill_n(s.out.back(), step.value_size, 0.0f);
  }
  // The tiles that any of the queries sees.
  const uint32_t reach = step.window != 0 ? step.window / 2 : task.text->n_rows;
  const uint32_t first = task.first_row - std::min(task.first_row, reach);
  const auto end =
      static_cast<uint32_t>(std::min<uint64_t>(task.text->n_rows, uint64_t{task.first_row} + task.n_rows + reach));
  const size_t key_width = size_t{step.n_kv_heads} * step.head_size;
  const size_t value_width = size_t{step.n_kv_heads} * step.value_size;
  for (uint32_t at = first / kTile * kTile; at < end; at += kTile) {
    Tile tile{.first = at, .n = std::min(kTile, task.text->n_rows - at), .keys = {}, .values = {}};
    const size_t row = size_t{task.text->first_row} + at;
    const float* keys = rows.k + row * key_width + task.kv_head * step.head_size;
    for (uint32_t j = 0; j < tile.n; j++) {
      for (uint32_t d = 0; d < step.head_size; d++) s.keys[size_t{d} * kTile + j] = keys[j * key_width + d];
    }
    const float* values = rows.v + row * value_width + task.kv_head * step.value_size;
    tile.keys = {s.keys.data(), kTile * sizeof(float), step.head_size, tile.n};
    tile.values = {values, value_width * sizeof(float), tile.n, step.value_size};
    take_tile(step, task, tile, s);
  }
  for (uint32_t i = 0; i < n_queries; i++) scale_row(s.out[i], step.value_size, 1.0f / s.softmax[i].sum);
}

std::pair<uint32_t, uint32_t> TextAttention::seen(const AttendBothWays& step, uint32_t position, const Tile& tile) {
  if (step.window == 0) return {0, tile.n};
  const uint32_t reach = step.window / 2;
  const uint64_t begin = position - std::min(position, reach), end = uint64_t{position} + reach + 1;
  const auto in_tile = [&](uint64_t at) {
    return static_cast<uint32_t>(std::clamp<uint64_t>(at, tile.first, uint64_t{tile.first} + tile.n) - tile.first);
  };
  return {in_tile(begin), in_tile(end)};
}

// Scores are scaled here where something is done to the scaled ones.
void TextAttention::adjust(const AttendBothWays& step, uint32_t head, int64_t distance, float* scores,
                           uint32_t n) const {
  for (uint32_t j = 0; j < n; j++) scores[j] *= step.scale;
  if (step.softcap != 0) cap(scores, n, step.softcap);
  if (!slopes_.empty()) {
    for (uint32_t j = 0; j < n; j++) scores[j] -= slopes_[head] * static_cast<float>(std::abs(distance + j));
  }
  if (!biases_.empty()) {
    const float* of_head = &biases_[size_t{head} * (2 * longest_ - 1)] + (longest_ - 1);
    for (uint32_t j = 0; j < n; j++) scores[j] += of_head[distance + j];
  }
}

void TextAttention::take_tile(const AttendBothWays& step, const Task& task, const Tile& tile, Scratch& s) const {
  const uint32_t group = step.n_heads / step.n_kv_heads;
  const auto n_queries = static_cast<uint32_t>(s.q.size());
  const bool is_adjusted = step.softcap != 0 || !slopes_.empty() || !biases_.empty();
  kernels_.weighted_sum_f32(tile.keys, {s.q.data(), s.score_rows.data(), n_queries, 0}, nullptr, nullptr);
  for (uint32_t i = 0; i < n_queries; i++) {
    float* scores = s.score_rows[i];
    const uint32_t position = task.first_row + i / group;
    const auto [first, last] = seen(step, position, tile);
    std::fill(scores, scores + first, 0.0f);
    std::fill(scores + last, scores + tile.n, 0.0f);
    s.keep[i] = 1.0f;
    if (first >= last) continue;
    if (is_adjusted) {
      adjust(step, task.kv_head * group + i % group, int64_t{tile.first} + first - position, scores + first,
             last - first);
    }
    s.keep[i] = kernels_.add_scores(s.softmax[i], scores + first, last - first, is_adjusted ? 1.0f : step.scale);
  }
  kernels_.weighted_sum_f32(tile.values, {s.score_rows.data(), s.out.data(), n_queries, 0}, s.keep.data(), nullptr);
}

}  // namespace rocmforge::cpu
