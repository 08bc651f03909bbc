#include "cpu/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "cpu/test_weights.h"
#include "support/support.h"
#include "tensor/half.h"

namespace rocmforge::cpu {
namespace {

class AttentionOf : public EveryIsa {};

struct Geometry {
  uint32_t n_heads, n_kv_heads, head_size;
  uint32_t q_width() const { return n_heads * head_size; }
  uint32_t kv_width() const { return n_kv_heads * head_size; }
};

// Keys, values and queries of one sequence, whole.
struct Sequence {
  std::vector<float> q, k, v;
  uint32_t n;
};

Sequence random_sequence(const Geometry& g, uint32_t n, gguf::RandomBits& random) {
  return {random_floats(random, n * g.q_width()), random_floats(random, n * g.kv_width()),
          random_floats(random, n * g.kv_width()), n};
}

// What some families add to plain attention.
struct Extras {
  uint32_t window = 0;
  float softcap = 0;
  std::vector<float> sinks;
};

std::vector<double> naive(const Geometry& g, const Sequence& s, KvType type, double scale, const Extras& extras = {}) {
  const auto stored = [&](float x) { return type == KvType::f16 ? double{to_float(to_f16(x))} : double{x}; };
  std::vector<double> out(s.n * g.q_width());
  for (uint32_t row = 0; row < s.n; row++) {
    for (uint32_t h = 0; h < g.n_heads; h++) {
      const uint32_t kv = h / (g.n_heads / g.n_kv_heads) * g.head_size;
      const float* q = &s.q[row * g.q_width() + h * g.head_size];
      std::vector<double> p(row + 1);
      for (uint32_t j = 0; j <= row; j++) {
        for (uint32_t d = 0; d < g.head_size; d++) p[j] += scale * q[d] * stored(s.k[j * g.kv_width() + kv + d]);
      }
      for (uint32_t j = 0; j <= row; j++) {
        if (extras.softcap != 0) p[j] = extras.softcap * std::tanh(p[j] / extras.softcap);
        if (extras.window != 0 && row - j >= extras.window) p[j] = -INFINITY;
      }
      const double largest = *std::max_element(p.begin(), p.end());
      double sum = extras.sinks.empty() ? 0 : std::exp(extras.sinks[h] - largest);
      for (double& x : p) sum += x = std::exp(x - largest);
      for (uint32_t j = 0; j <= row; j++) {
        for (uint32_t d = 0; d < g.head_size; d++) {
          out[row * g.q_width() + h * g.head_size + d] += p[j] / sum * stored(s.v[j * g.kv_width() + kv + d]);
        }
      }
    }
  }
  return out;
}

// Several sequences through one cache, cut into batches of at most `chunk` rows of each.
struct Runner {
  const Kernels& kernels;
  Geometry g;
  KvType type = KvType::f16;
  size_t n_threads = 1;
  bool by_heads = true;
  uint64_t page_seed = 1;
  Extras extras = {};

  std::vector<std::vector<float>> run(const std::vector<Sequence>& sequences, uint32_t chunk) const {
    Workers workers(n_threads);
    const KvShape shape = {32, 2, g.kv_width(), by_heads ? g.head_size : g.kv_width(), type};
    const KvCache cache(shape, *Memory::allocate(shape.total_bytes(), available_memory(), "test"));
    std::vector<uint32_t> ids(shape.n_pages);
    std::iota(ids.begin(), ids.end(), 0u);
    std::mt19937_64 rng(page_seed);
    std::shuffle(ids.begin(), ids.end(), rng);
    std::vector<std::vector<PageId>> pages;
    size_t next = 0;
    for (const Sequence& s : sequences) {
      pages.emplace_back();
      for (uint32_t p = 0; p < pages_for_tokens(s.n); p++) pages.back().push_back(PageId(ids.at(next++)));
    }

    Attention attention(kernels, workers);
    const Attend step = {.layer = 1,
                         .n_heads = g.n_heads,
                         .n_kv_heads = g.n_kv_heads,
                         .head_size = g.head_size,
                         .scale = 0.3f,
                         .q = {},
                         .out = {},
                         .window = extras.window,
                         .softcap = extras.softcap,
                         .sinks = {}};
    std::vector<std::vector<float>> out;
    for (const Sequence& s : sequences) out.emplace_back(s.q.size());
    std::vector<uint32_t> done(sequences.size());
    while (true) {
      Batch batch;
      std::vector<float> q, k, v;
      std::vector<std::pair<size_t, uint32_t>> rows;  // sequence and position of each row
      for (size_t i = 0; i < sequences.size(); i++) {
        const Sequence& s = sequences[i];
        const uint32_t n = std::min(chunk, s.n - done[i]);
        if (n == 0) continue;
        batch.add(std::vector<TokenId>(n), done[i], pages[i]);
        const auto append = [&](std::vector<float>& to, const std::vector<float>& from, size_t width) {
          to.insert(to.end(), from.begin() + static_cast<ptrdiff_t>(done[i] * width),
                    from.begin() + static_cast<ptrdiff_t>((done[i] + n) * width));
        };
        append(q, s.q, g.q_width());
        append(k, s.k, g.kv_width());
        append(v, s.v, g.kv_width());
        for (uint32_t r = 0; r < n; r++) rows.emplace_back(i, done[i] + r);
        done[i] += n;
      }
      if (rows.empty()) return out;
      store_kv(cache, kernels, workers, batch, 1, KvPlane::keys, k.data());
      store_kv(cache, kernels, workers, batch, 1, KvPlane::values, v.data());
      std::vector<float> result(q.size());
      attention.attend(result.data(), q.data(), step, extras.sinks, cache, batch);
      for (size_t r = 0; r < rows.size(); r++) {
        std::copy_n(&result[r * g.q_width()], g.q_width(), &out[rows[r].first][rows[r].second * g.q_width()]);
      }
    }
  }
};

TEST_P(AttentionOf, MatchesTheDefinition) {
  gguf::RandomBits random(1);
  for (const Geometry& g :
       {Geometry{1, 1, 8}, Geometry{4, 2, 32}, Geometry{6, 1, 20}, Geometry{3, 3, 96}, Geometry{71, 1, 16}}) {
    for (const KvType type : {KvType::f32, KvType::f16}) {
      for (const bool by_heads : {true, false}) {
        const Sequence s = random_sequence(g, 150, random);
        const Runner runner = {kernels(), g, type, 1, by_heads};
        const auto out = runner.run({s}, 150)[0];
        const auto expected = naive(g, s, type, 0.3f);
        for (size_t i = 0; i < out.size(); i++) ASSERT_NEAR(out[i], expected[i], 2e-5) << i;
      }
    }
  }
}

TEST_P(AttentionOf, WindowsCapsAndSinksMatchTheirDefinitionInAnyBatch) {
  gguf::RandomBits random(4);
  const Geometry g = {6, 2, 32};
  const Sequence s = random_sequence(g, 200, random);
  const std::vector<float> sinks = random_floats(random, g.n_heads);
  for (const Extras& extras :
       {Extras{1, 0, {}}, Extras{16, 0, {}}, Extras{64, 0, {}}, Extras{65, 2.0f, {}}, Extras{150, 0, sinks},
        Extras{0, 1.5f, sinks}, Extras{0, 0, sinks}, Extras{1000, 0, {}}}) {
    Runner runner = {kernels(), g, KvType::f32};
    runner.extras = extras;
    const auto expected = naive(g, s, KvType::f32, 0.3, extras);
    const auto whole = runner.run({s}, 200)[0];
    for (size_t i = 0; i < whole.size(); i++) ASSERT_NEAR(whole[i], expected[i], 2e-5) << extras.window << " " << i;
    for (const uint32_t chunk : {1u, 7u, 48u}) EXPECT_TRUE(same_bits(runner.run({s}, chunk)[0], whole)) << chunk;
  }
}

TEST_P(AttentionOf, NeitherChunksNorNeighboursNorPagesNorThreadsShowInTheBits) {
  gguf::RandomBits random(2);
  const Geometry g = {4, 2, 40};
  for (const KvType type : {KvType::f32, KvType::f16}) {
    const std::vector<Sequence> sequences = {random_sequence(g, 200, random), random_sequence(g, 64, random),
                                             random_sequence(g, 65, random)};
    const Runner runner = {kernels(), g, type};
    const auto expected = runner.run(sequences, 200);
    for (const uint32_t chunk : {1u, 7u, 48u, 64u}) {
      Runner other = runner;
      other.n_threads = chunk == 7 ? 3 : 1;
      other.page_seed = chunk;
      const auto got = other.run(sequences, chunk);
      for (size_t i = 0; i < sequences.size(); i++) EXPECT_TRUE(same_bits(got[i], expected[i])) << chunk << " " << i;
    }
    for (size_t i = 0; i < sequences.size(); i++) {
      EXPECT_TRUE(same_bits(runner.run({sequences[i]}, 33)[0], expected[i]));
    }
    Runner by_rows = runner;
    by_rows.by_heads = false;
    EXPECT_TRUE(same_bits(by_rows.run(sequences, 50)[0], expected[0]));
  }
}

// What lies in a page behind the last position must not matter, even when it is no number.
TEST_P(AttentionOf, LooksNoFurtherThanThePosition) {
  gguf::RandomBits random(3);
  const Geometry g = {2, 1, 16};
  Sequence s = random_sequence(g, 70, random);
  const Runner runner = {kernels(), g, KvType::f32};
  const auto expected = runner.run({s}, 70)[0];
  for (size_t i = 68 * g.kv_width(); i < s.k.size(); i++) s.k[i] = s.v[i] = std::numeric_limits<float>::quiet_NaN();
  const auto got = runner.run({s}, 70)[0];
  EXPECT_EQ(std::memcmp(got.data(), expected.data(), 68 * g.q_width() * sizeof(float)), 0);
  EXPECT_TRUE(std::isnan(got[69 * g.q_width()]));
}

RF_FOR_EVERY_ISA(AttentionOf);

}  // namespace
}  // namespace rocmforge::cpu
