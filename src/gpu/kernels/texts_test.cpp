// Steps over whole texts, each against a plain loop in f64.

#include "gpu/kernels/texts.h"

#include <algorithm>
#include <cmath>

#include "gpu/distance_buckets.h"
#include "gpu/kernels/rare_steps.h"
#include "plan/step.h"
#include "support/kernel_device.h"

namespace rocmforge::gpu {
namespace {

using testing::KernelTest;
using testing::nmse;

// The rows of a batch of texts of these lengths.
struct Texts {
  std::vector<uint32_t> first_row, n_together, output_rows;

  explicit Texts(std::initializer_list<uint32_t> lengths) {
    for (const uint32_t n : lengths) {
      const auto begin = static_cast<uint32_t>(first_row.size());
      first_row.insert(first_row.end(), n, begin);
      n_together.insert(n_together.end(), n, n);
      output_rows.push_back(begin + n - 1);
    }
  }
  uint32_t n_rows() const { return static_cast<uint32_t>(first_row.size()); }
};

class TextSteps : public KernelTest {};

struct Shape {
  uint32_t n_heads, n_kv_heads, head_size, value_size, reach;
  float softcap, alibi_bias;
  uint32_t n_buckets = 0;  // of biases by distance
};

std::vector<float> attended(const Texts& texts, const Shape& s, float scale, std::span<const float> q,
                            std::span<const float> k, std::span<const float> v, std::span<const float> biases = {}) {
  std::vector<float> out(size_t{texts.n_rows()} * s.n_heads * s.value_size);
  for (uint32_t row = 0; row < texts.n_rows(); row++) {
    for (uint32_t h = 0; h < s.n_heads; h++) {
      const uint32_t kv_head = h / (s.n_heads / s.n_kv_heads);
      double total = 0;
      std::vector<double> sums(s.value_size);
      for (uint32_t key = texts.first_row[row]; key < texts.first_row[row] + texts.n_together[row]; key++) {
        const uint32_t distance = key > row ? key - row : row - key;
        if (distance > s.reach) continue;
        double score = 0;
        for (uint32_t d = 0; d < s.head_size; d++) {
          score += double{q[(size_t{row} * s.n_heads + h) * s.head_size + d]} *
                   k[(size_t{key} * s.n_kv_heads + kv_head) * s.head_size + d];
        }
        score *= scale;
        if (s.softcap != 0) score = s.softcap * std::tanh(score / s.softcap);
        if (s.alibi_bias != 0) score -= double{alibi_slope(s.alibi_bias, s.n_heads, h)} * distance;
        if (s.n_buckets != 0) {
          score += biases[size_t{distance_bucket(int64_t{key} - row, s.n_buckets)} * s.n_heads + h];
        }
        const double weight = std::exp(score);
        total += weight;
        for (uint32_t d = 0; d < s.value_size; d++) {
          sums[d] += weight * v[(size_t{key} * s.n_kv_heads + kv_head) * s.value_size + d];
        }
      }
      for (uint32_t d = 0; d < s.value_size; d++) {
        out[(size_t{row} * s.n_heads + h) * s.value_size + d] = static_cast<float>(sums[d] / total);
      }
    }
  }
  return out;
}

TEST_P(TextSteps, AttendWithinEachTextAlone) {
  const Texts texts({1, 20, 3, 40, 7});
  for (const Shape& s :
       {Shape{2, 2, 64, 64, UINT32_MAX, 0, 0}, Shape{4, 2, 32, 32, 8, 0, 0}, Shape{2, 1, 128, 96, UINT32_MAX, 3, 0},
        Shape{6, 6, 24, 24, UINT32_MAX, 0, 8}, Shape{2, 1, 256, 256, 5, 0, 0}}) {
    const uint32_t n = texts.n_rows();
    const auto q = noise(size_t{n} * s.n_heads * s.head_size), k = noise(size_t{n} * s.n_kv_heads * s.head_size);
    const auto v = noise(size_t{n} * s.n_kv_heads * s.value_size);
    const auto on_q = put(q), on_k = put(k), on_v = put(v);
    const auto first = put(texts.first_row), together = put(texts.n_together);
    const auto out = space(size_t{n} * s.n_heads * s.value_size);
    const float scale = 1 / std::sqrt(static_cast<float>(s.head_size));
    const uint32_t size = std::max(s.head_size, s.value_size);
    const char* kernel = size <= 64 ? "attend_texts_64" : size <= 128 ? "attend_texts_128" : "attend_texts_256";
    run("texts", kernel, {(n + kAttendTextsRows - 1) / kAttendTextsRows, s.n_heads}, kAttendTextsThreads,
        AttendTextsArgs{out.data(), on_q.data(), on_k.data(), on_v.data(), first.data(), together.data(), n, s.n_heads,
                        s.n_kv_heads, s.head_size, s.value_size, s.reach, scale, s.softcap, s.alibi_bias});
    EXPECT_LE(nmse(out.values(), attended(texts, s, scale, q, k, v)), 1e-11) << s.head_size;
  }
}

// Distances up to and beyond the longest that has a bucket of its own.
TEST_P(TextSteps, AttendWithABiasForEachBucketOfDistances) {
  const Texts texts({3, 150, 20});
  for (const Shape& s : {Shape{2, 2, 32, 32, UINT32_MAX, 0, 0, 32}, Shape{3, 1, 16, 16, UINT32_MAX, 0, 0, 64},
                         Shape{2, 1, 16, 16, 20, 0, 0, 8}}) {
    const uint32_t n = texts.n_rows();
    const auto q = noise(size_t{n} * s.n_heads * s.head_size), k = noise(size_t{n} * s.n_kv_heads * s.head_size);
    const auto v = noise(size_t{n} * s.n_kv_heads * s.value_size);
    auto biases = noise(size_t{s.n_buckets} * s.n_heads);
    for (float& bias : biases) bias *= 3;
    const auto on_q = put(q), on_k = put(k), on_v = put(v), on_biases = put(biases);
    const auto first = put(texts.first_row), together = put(texts.n_together);
    const auto out = space(size_t{n} * s.n_heads * s.value_size);
    run("texts", "attend_texts_64", {(n + kAttendTextsRows - 1) / kAttendTextsRows, s.n_heads}, kAttendTextsThreads,
        AttendTextsArgs{out.data(), on_q.data(), on_k.data(), on_v.data(), first.data(), together.data(), n, s.n_heads,
                        s.n_kv_heads, s.head_size, s.value_size, s.reach, 0.25f, s.softcap, s.alibi_bias,
                        distance_buckets(on_biases.data(), s.n_buckets)});
    EXPECT_LE(nmse(out.values(), attended(texts, s, 0.25f, q, k, v, biases)), 1e-11) << s.n_buckets;
  }
}

TEST_P(TextSteps, PoolEachTextAsAsked) {
  constexpr uint32_t kWidth = 300;
  const Texts texts({5, 1, 9, 4, 6});
  const std::vector<TextPooling> asked = {TextPooling::mean, TextPooling::mean, TextPooling::first, TextPooling::last,
                                          TextPooling::rank};
  const auto in = noise(size_t{texts.n_rows()} * kWidth);
  std::vector<uint32_t> poolings;
  for (const TextPooling one : asked) poolings.push_back(static_cast<uint32_t>(one));
  const auto on_in = put(in), out = space(asked.size() * kWidth);
  const auto rows = put(texts.output_rows), on_poolings = put(poolings), first = put(texts.first_row);
  run("texts", "pool_texts", {static_cast<uint32_t>(asked.size())}, kElementThreads,
      PoolTextsArgs{out.data(), on_in.data(), rows.data(), on_poolings.data(), first.data(), kWidth,
                    static_cast<uint32_t>(TextPooling::first)});
  std::vector<float> expected;
  for (size_t i = 0; i < asked.size(); i++) {
    const uint32_t last = texts.output_rows[i], begin = texts.first_row[last];
    for (uint32_t d = 0; d < kWidth; d++) {
      double sum = 0;
      for (uint32_t r = begin; r <= last; r++) sum += in[size_t{r} * kWidth + d];
      const bool is_first = asked[i] == TextPooling::first || asked[i] == TextPooling::rank;
      expected.push_back(asked[i] == TextPooling::mean ? static_cast<float>(sum / (last + 1 - begin))
                                                       : in[size_t{is_first ? begin : last} * kWidth + d]);
    }
  }
  EXPECT_LE(nmse(out.values(), expected), 1e-12);
}

TEST_P(TextSteps, AddAVectorToEveryRow) {
  constexpr uint32_t kWidth = 100, kRows = 7;
  const auto x = noise(kWidth * kRows), vector = noise(kWidth);
  const auto on_x = put(x), on_vector = put(vector);
  run("texts", "add_vector", rare_grid(kWidth * kRows), kElementThreads,
      AddVectorArgs{on_x.data(), on_vector.data(), kWidth * kRows, kWidth});
  std::vector<float> expected = x;
  for (size_t i = 0; i < expected.size(); i++) expected[i] += vector[i % kWidth];
  EXPECT_EQ(on_x.values(), expected);
}

INSTANTIATE_TEST_SUITE_P(, TextSteps, testing::both_waves());

}  // namespace
}  // namespace rocmforge::gpu
