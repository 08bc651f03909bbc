// Kernels that are not products, each against a plain loop.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "gpu/kernels/elementwise.h"
#include "gpu/kernels/norm.h"
#include "gpu/kernels/rope.h"
#include "gpu/kernels/route.h"
#include "gpu/kernels/take_batch.h"
#include "support/kernel_device.h"

namespace rocmforge::gpu {
namespace {

using testing::KernelTest;
using testing::nmse;
using testing::OnDevice;

class Steps : public KernelTest {};

// Up to the length that is said, or to the end of the room for it; of what comes behind one sweep may be taken, too.
TEST_P(Steps, TakesABatchFromTheHost) {
  constexpr uint32_t kSweep = kTakeBatchMaxBlocks * kTakeBatchThreads * 4, kBefore = 0xABABABAB;
  for (const uint32_t max_words : {4u, 516u, kSweep, 3 * kSweep + 8}) {
    const Memory pinned = Memory::allocate(*device_, Memory::Kind::pinned, max_words * sizeof(uint32_t)).value();
    auto* from = reinterpret_cast<uint32_t*>(pinned.data());
    for (uint32_t i = 0; i < max_words; i++) from[i] = 7 * i + 1;
    for (const uint32_t length : {3u, max_words / 2 + 1, max_words, UINT32_MAX}) {
      from[kBatchLength] = length;
      const auto to = put(std::vector<uint32_t>(max_words, kBefore));
      run("take_batch", "take_batch", take_batch_grid(max_words), kTakeBatchThreads,
          TakeBatchArgs{to.data(), from, max_words});
      const auto taken = to.values();
      const uint32_t n = std::min(length, max_words);
      for (uint32_t i = 0; i < max_words; i++) {
        if (i >= n && taken[i] == kBefore) continue;
        ASSERT_EQ(taken[i], from[i]) << i << " of " << length << " and " << max_words;
        ASSERT_TRUE(i < (n + 3) / 4 * 4 || i < kSweep);
      }
    }
  }
}

TEST_P(Steps, NormsOfBothKinds) {
  constexpr uint32_t kWidth = 300, kRows = 3;
  const auto in = noise(kRows * kWidth, 3.0f), weight = noise(kWidth), bias = noise(kWidth);
  const auto on_in = put(in), on_weight = put(weight), on_bias = put(bias);
  for (const bool is_rms : {true, false}) {
    const auto out = space(in.size());
    const NormArgs args{out.data(), on_in.data(), on_weight.data(), on_bias.data(), kWidth, 1, 0, 1e-5f};
    run("norm", is_rms ? "rms_norm" : "layer_norm", norm_grid(kRows, 1), kNormThreads, args);
    const auto wide = space(in.size());
    NormArgs wide_args = args;
    wide_args.out = wide.data();
    run("norm", is_rms ? "rms_norm_wide" : "layer_norm_wide", norm_grid(kRows, 1), kWideNormThreads, wide_args);
    std::vector<float> expected(in.size());
    for (size_t r = 0; r < kRows; r++) {
      const float* row = in.data() + r * kWidth;
      const double mean = is_rms ? 0.0 : std::accumulate(row, row + kWidth, 0.0) / kWidth;
      double squares = 0;
      for (size_t i = 0; i < kWidth; i++) squares += (row[i] - mean) * (row[i] - mean);
      const double scale = 1 / std::sqrt(squares / kWidth + 1e-5);
      for (size_t i = 0; i < kWidth; i++) {
        expected[r * kWidth + i] = static_cast<float>((row[i] - mean) * scale * weight[i] + bias[i]);
      }
    }
    EXPECT_LE(nmse(out.values(), expected), 1e-12);
    EXPECT_LE(nmse(wide.values(), expected), 1e-12);
  }
}

// What a norm adds first and quantizes afterwards equals the three steps by themselves.
TEST_P(Steps, NormsOfSumsAsBytes) {
  for (const uint32_t width : {320u, 4096u, 4096u + 64}) {  // the last needs two sweeps
    constexpr uint32_t kRows = 2;
    const auto in = noise(kRows * width, 3.0f), more = noise(kRows * width), weight = noise(width);
    const auto on_more = put(more), on_weight = put(weight);
    for (const std::string kernel : {"rms_norm", "layer_norm", "rms_norm_wide", "layer_norm_wide"}) {
      const uint32_t n_threads = kernel.ends_with("wide") ? kWideNormThreads : kNormThreads;
      std::vector<float> sums = in;
      for (size_t i = 0; i < sums.size(); i++) sums[i] += 0.5f * more[i];
      const auto on_sums = put(sums), on_in = put(in);
      const auto expected = space(in.size()), out = space(in.size());
      run("norm", kernel, norm_grid(kRows, 1), n_threads,
          NormArgs{expected.data(), on_sums.data(), on_weight.data(), nullptr, width, 1, 0, 1e-5f});
      const OnDevice<int8_t> q(*device_, in.size()), expected_q(*device_, in.size());
      const OnDevice<ActivationScale> scales(*device_, in.size() / 32), expected_scales(*device_, in.size() / 32);
      run("quantize", "quantize", quantize_grid(width, kRows), kQuantizeThreads,
          QuantizeArgs{expected_q.data(), expected_scales.data(), expected.data(), width});

      NormArgs args{out.data(), on_in.data(), on_weight.data(), nullptr, width, 1, 0, 1e-5f};
      args.added = on_more.data();
      args.added_scale = 0.5f;
      args.q = q.data();
      args.scales = scales.data();
      run("norm", kernel, norm_grid(kRows, 1), n_threads, args);
      EXPECT_EQ(on_in.values(), sums);
      EXPECT_EQ(out.values(), expected.values());
      EXPECT_EQ(q.values(), expected_q.values());
      const auto got = scales.values(), wanted = expected_scales.values();
      EXPECT_EQ(std::memcmp(got.data(), wanted.data(), got.size() * sizeof(ActivationScale)), 0);
    }
  }
}

// By a block for each head, and by a wave for each.
TEST_P(Steps, NormsOfHeads) {
  for (const auto& [group, n_groups, n_rows] : {std::tuple{20u, 3u, 2u}, {128u, 5u, 7u}, {512u, 1u, 3u}}) {
    const auto in = noise(size_t{group} * n_groups * n_rows, 3.0f), bias = noise(size_t{group} * n_groups);
    const auto weight = noise(size_t{group} * n_groups);
    const auto on_in = put(in), on_weight = put(weight), on_bias = put(bias);
    for (const uint32_t weight_step : {0u, group}) {
      for (const bool is_rms : {true, false}) {
        std::vector<float> expected(in.size());
        for (size_t g = 0; g < n_rows * n_groups; g++) {
          const float* head = in.data() + g * group;
          const double mean = is_rms ? 0 : std::accumulate(head, head + group, 0.0) / group;
          double squares = 0;
          for (size_t i = 0; i < group; i++) squares += (head[i] - mean) * (head[i] - mean);
          const double scale = 1 / std::sqrt(squares / group + 1e-5);
          for (size_t i = 0; i < group; i++) {
            const size_t w = g % n_groups * weight_step + i;
            expected[g * group + i] = static_cast<float>((head[i] - mean) * scale * weight[w] + bias[w]);
          }
        }
        const auto out = space(in.size());
        const NormArgs args{out.data(), on_in.data(), on_weight.data(), on_bias.data(), group, n_groups, weight_step,
                            1e-5f,      n_rows};
        const std::string kernel = is_rms ? "rms_norm" : "layer_norm";
        run("norm", kernel, norm_grid(n_rows, n_groups), kNormThreads, args);
        EXPECT_LE(nmse(out.values(), expected), 1e-12);
        const auto by_waves = space(in.size());
        NormArgs other = args;
        other.out = by_waves.data();
        run("norm", kernel + "_heads", norm_heads_grid(n_rows, n_groups, device_->wave()), kNormThreads, other);
        EXPECT_LE(nmse(by_waves.values(), expected), 1e-12);
      }
    }
  }
}

TEST_P(Steps, ElementByElement) {
  constexpr size_t kN = 2500;
  const auto a = noise(kN, 4.0f), b = noise(kN);
  const auto on_a = put(a), on_b = put(b);
  const auto check = [&](const char* kernel, bool has_b, float scale, float cap, auto&& f) {
    const auto out = space(kN);
    run("elementwise", kernel, element_grid(kN), kElementThreads,
        ElementArgs{out.data(), on_a.data(), has_b ? on_b.data() : nullptr, kN, scale, cap});
    std::vector<float> expected(kN);
    for (size_t i = 0; i < kN; i++) expected[i] = static_cast<float>(f(double{a[i]}, has_b ? double{b[i]} : 1.0));
    EXPECT_LE(nmse(out.values(), expected), 1e-12) << kernel;
  };
  check("add", true, 1, 0, [](double x, double y) { return x + y; });
  check("add", true, 0.25f, 0, [](double x, double y) { return x + 0.25 * y; });
  check("scale_and_cap", false, 0.5f, 0, [](double x, double) { return 0.5 * x; });
  check("scale_and_cap", false, 0.5f, 3, [](double x, double) { return 3 * std::tanh(0.5 * x / 3); });
  for (const bool gated : {true, false}) {
    check("silu_multiply", gated, 1, 0, [](double x, double y) { return x / (1 + std::exp(-x)) * y; });
    check("gelu_multiply", gated, 1, 0, [](double x, double y) {
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) * y;
    });
  }
  check("clamped_swish_multiply", true, 1, 0, [](double x, double y) {
    x = std::min(x, 7.0);
    return x / (1 + std::exp(-1.702 * x)) * (std::clamp(y, -7.0, 7.0) + 1);
  });
}

TEST_P(Steps, TanhIsRightFromZeroToInfinity) {
  std::vector<float> in = {0.0f, -0.0f, 1e-20f, 20.0f, -20.0f, 100.0f, -100.0f, INFINITY, -INFINITY};
  for (float x = 1e-6f; x < 12; x *= 1.01f) in.push_back(x), in.push_back(-x);
  const auto on_in = put(in);
  const auto out = space(in.size());
  run("elementwise", "scale_and_cap", element_grid(in.size()), kElementThreads,
      ElementArgs{out.data(), on_in.data(), nullptr, in.size(), 1, 1});
  const auto got = out.values();
  for (size_t i = 0; i < in.size(); i++) {
    const double expected = std::tanh(double{in[i]});
    EXPECT_NEAR(got[i], expected, 4e-7 * std::abs(expected)) << in[i];
  }
}

TEST_P(Steps, RowsAreTaken) {
  constexpr uint32_t kWidth = 300;
  const auto in = noise(5 * kWidth);
  const auto on_in = put(in);
  const auto rows = put(std::vector<uint32_t>{1, 4});
  const auto taken = space(2 * kWidth);
  run("elementwise", "take_rows", row_grid(2, kWidth), kElementThreads,
      TakeRowsArgs{taken.data(), on_in.data(), rows.data(), kWidth});
  std::vector<float> expected(in.begin() + kWidth, in.begin() + 2 * kWidth);
  expected.insert(expected.end(), in.begin() + 4 * kWidth, in.end());
  EXPECT_EQ(taken.values(), expected);
}

TEST_P(Steps, RopeRotatesPairsAtAnyPosition) {
  constexpr uint32_t kHeads = 3, kHeadSize = 20, kPairs = 8;
  const std::vector<uint32_t> positions = {0, 1, 77, 131071};
  const auto in = noise(positions.size() * kHeads * kHeadSize);
  std::vector<double> turns(kPairs);
  for (uint32_t i = 0; i < kPairs; i++) turns[i] = std::pow(10000.0, -2.0 * i / (2 * kPairs));
  const std::vector<float> factors = {1, 1, 2, 3, 1, 8, 1, 1};
  const auto on_positions = put(positions);
  const auto on_turns = put(turns);
  const auto on_factors = put(factors);
  for (const bool halves : {false, true}) {
    const auto heads = put(in);
    const uint32_t step = halves ? 1 : 2, apart = halves ? kPairs : 1;
    const auto keys = put(std::vector<float>(positions.size() * kHeadSize, 1.0f));
    const RopeArgs args{{heads.data(), keys.data()},
                        {kHeads, 1},
                        on_positions.data(),
                        on_turns.data(),
                        on_factors.data(),
                        0,
                        1.5f,
                        kHeadSize,
                        kPairs,
                        step,
                        apart};
    run("rope", "rope", rope_grid(static_cast<uint32_t>(positions.size()), args), kRopeThreads, args);
    std::vector<float> expected = in;
    for (size_t r = 0; r < positions.size(); r++) {
      for (size_t h = 0; h < kHeads; h++) {
        for (size_t i = 0; i < kPairs; i++) {
          const double angle = positions[r] * (turns[i] / factors[i]);
          float& a = expected[(r * kHeads + h) * kHeadSize + i * step];
          float& b = expected[(r * kHeads + h) * kHeadSize + i * step + apart];
          const double x = a, y = b;
          a = static_cast<float>(1.5 * (x * std::cos(angle) - y * std::sin(angle)));
          b = static_cast<float>(1.5 * (x * std::sin(angle) + y * std::cos(angle)));
        }
      }
    }
    EXPECT_LE(nmse(heads.values(), expected), 1e-13);

    std::vector<float> expected_keys(positions.size() * kHeadSize, 1.0f);
    for (size_t r = 0; r < positions.size(); r++) {
      for (size_t i = 0; i < kPairs; i++) {
        const double angle = positions[r] * (turns[i] / factors[i]);
        expected_keys[r * kHeadSize + i * step] = static_cast<float>(1.5 * (std::cos(angle) - std::sin(angle)));
        expected_keys[r * kHeadSize + i * step + apart] = static_cast<float>(1.5 * (std::sin(angle) + std::cos(angle)));
      }
    }
    EXPECT_LE(nmse(keys.values(), expected_keys), 1e-13);
  }
}

TEST_P(Steps, RopeAndStoreAreRopeThenStore) {
  constexpr uint32_t kHeads = 3, kKvHeads = 2, kPairs = 8, kWidth = kKvHeads * 20;
  const std::vector<uint32_t> positions = {0, 63, 64, 200}, first_page = {0, 1, 2, 1}, pages = {3, 2, 4, 0, 1};
  const auto n_rows = static_cast<uint32_t>(positions.size());
  const auto q = noise(n_rows * kHeads * 20), k = noise(n_rows * kWidth), v = noise(n_rows * kWidth);
  const auto on_positions = put(positions), on_first = put(first_page), on_pages = put(pages);
  const auto on_turns = put(std::vector<double>(kPairs, 0.37));
  const auto on_v = put(v);
  BatchView batch{};
  batch.positions = on_positions.data();
  batch.first_page = on_first.data();
  batch.pages = on_pages.data();
  for (const uint32_t head_size : {20u, 2 * kPairs, 40u}) {  // 20 and 40: elements that no pair holds
    for (const char* type : {"f16", "f32"}) {
      const uint32_t n_kv_heads = kWidth / head_size;
      const std::vector<float> untouched(pages.size() * 2 * kPagePositions * kWidth, 0.25f);
      const auto apart_q = put(q), apart_k = put(k), apart_cache = put(untouched);
      const auto joint_q = put(q), joint_k = put(k), joint_cache = put(untouched);
      const uint32_t width = n_kv_heads * head_size, n_heads = kHeads * 20 / head_size;
      const RopeArgs rope{{apart_q.data(), apart_k.data()},
                          {n_heads, n_kv_heads},
                          on_positions.data(),
                          on_turns.data(),
                          nullptr,
                          0,
                          1.5f,
                          head_size,
                          kPairs,
                          1,
                          kPairs};
      const StoreKvArgs store{apart_cache.data(), apart_k.data(), on_v.data(), batch, width, width};
      run("rope", "rope", rope_grid(n_rows, rope), kRopeThreads, rope);
      run("attend", std::string("store_kv_") + type, store_kv_grid(n_rows, store), kStoreKvThreads, store);
      RopeStoreArgs both{rope, store, n_turning(rope)};
      both.rope.heads[0] = joint_q.data();
      both.rope.heads[1] = joint_k.data();
      both.store.keys = joint_k.data();
      both.store.cache = joint_cache.data();
      run("rope", std::string("rope_store_") + type, rope_store_grid(n_rows, both), kRopeThreads, both);
      EXPECT_EQ(joint_q.values(), apart_q.values());
      EXPECT_EQ(joint_k.values(), apart_k.values());
      EXPECT_EQ(joint_cache.values(), apart_cache.values()) << type << ", heads of " << head_size;
    }
  }
}

// Rows that are computed for a state alone: their keys and values lie in pages that others read.
TEST_P(Steps, RowsBelowTheFirstStoredLeaveTheCacheAlone) {
  constexpr uint32_t kHeads = 2, kPairs = 8, kWidth = kHeads * 2 * kPairs;
  const std::vector<uint32_t> positions = {62, 63, 64, 65}, first_page(4, 0), pages = {1, 0},
                              first_stored = {64, 64, 64, 70};
  const auto n_rows = static_cast<uint32_t>(positions.size());
  const auto q = put(noise(n_rows * kWidth)), k = put(noise(n_rows * kWidth)), v = put(noise(n_rows * kWidth));
  const auto on_positions = put(positions), on_first = put(first_page), on_pages = put(pages),
             on_stored = put(first_stored);
  const auto on_turns = put(std::vector<double>(kPairs, 0.37));
  BatchView batch{};
  batch.positions = on_positions.data();
  batch.first_page = on_first.data();
  batch.pages = on_pages.data();
  batch.first_stored = on_stored.data();
  const RopeArgs rope{{q.data(), k.data()},
                      {kHeads, kHeads},
                      on_positions.data(),
                      on_turns.data(),
                      nullptr,
                      0,
                      1.0f,
                      2 * kPairs,
                      kPairs,
                      1,
                      kPairs};
  const size_t n_cached = pages.size() * 2 * kPagePositions * kWidth;
  const auto expect_third_row_alone = [&](const std::vector<float>& cache) {
    for (size_t i = 0; i < n_cached; i++) {
      const size_t row = i / kWidth;  // the third row is position 0 of page 0
      ASSERT_EQ(cache[i] != 0.25f, row == 0 || row == kPagePositions) << "row " << row;
    }
  };
  const auto cache = put(std::vector<float>(n_cached, 0.25f)), joint = put(std::vector<float>(n_cached, 0.25f));
  const StoreKvArgs store{cache.data(), k.data(), v.data(), batch, kWidth, kWidth};
  run("attend", "store_kv_f32", store_kv_grid(n_rows, store), kStoreKvThreads, store);
  expect_third_row_alone(cache.values());
  RopeStoreArgs both{rope, store, n_turning(rope)};
  both.store.cache = joint.data();
  run("rope", "rope_store_f32", rope_store_grid(n_rows, both), kRopeThreads, both);
  expect_third_row_alone(joint.values());
  const auto turns = space(n_rows * kPairs * 2);
  const auto cache_rows = put(std::vector<uint32_t>(n_rows));
  const RowRotationsArgs args{rope, batch, n_rows, turns.data(), cache_rows.data()};
  run("rope", "row_rotations", row_rotations_grid(args), kRopeThreads, args);
  EXPECT_EQ(cache_rows.values(), (std::vector<uint32_t>{kNotStored, kNotStored, 0, kNotStored}));
}

TEST_P(Steps, RowRotationsAreThoseOfRope) {
  constexpr uint32_t kPairs = 24;
  const std::vector<uint32_t> positions = {0, 63, 64, 200}, first_page = {0, 1, 2, 1}, pages = {3, 2, 4, 0, 1};
  const auto n_rows = static_cast<uint32_t>(positions.size());
  const auto on_positions = put(positions), on_first = put(first_page), on_pages = put(pages);
  const auto on_turns = put(std::vector<double>(kPairs, 0.37));
  BatchView batch{};
  batch.positions = on_positions.data();
  batch.first_page = on_first.data();
  batch.pages = on_pages.data();
  // Turned, a pair of one and zero is cosine and sine.
  std::vector<float> pairs;
  pairs.reserve(size_t{n_rows} * kPairs * 2);
  for (uint32_t i = 0; i < n_rows * kPairs; i++) pairs.insert(pairs.end(), {1.0f, 0.0f});
  const auto q = put(pairs), k = put(pairs);
  const RopeArgs rope{
      {q.data(), k.data()}, {1, 1}, on_positions.data(), on_turns.data(), nullptr, 0, 1.5f, 2 * kPairs, kPairs, 2, 1};
  run("rope", "rope", rope_grid(n_rows, rope), kRopeThreads, rope);
  const auto turns = space(pairs.size());
  const auto cache_rows = put(std::vector<uint32_t>(n_rows));
  const RowRotationsArgs args{rope, batch, n_rows, turns.data(), cache_rows.data()};
  run("rope", "row_rotations", row_rotations_grid(args), kRopeThreads, args);
  const auto got = turns.values(), turned = q.values();
  for (size_t i = 0; i < got.size(); i += 2) {
    EXPECT_EQ(got[i], turned[i + 1]);
    EXPECT_EQ(got[i + 1], turned[i]);
  }
  constexpr uint32_t kPage = 2 * kPagePositions;
  EXPECT_EQ(cache_rows.values(), (std::vector<uint32_t>{3 * kPage, 2 * kPage + 63, 0 * kPage, 1 * kPage + 8}));
}

TEST_P(Steps, RoutesByScoresAndBias) {
  constexpr uint32_t kExperts = 40, kUsed = 4;
  const auto check = [&](const std::vector<float>& logits, const std::vector<float>& bias, RouteScores scores,
                         bool normalise) {
    const bool is_sigmoid = scores == RouteScores::sigmoid;
    const auto out = space(kUsed * 2), on_logits = put(logits),
               on_bias = put(bias.empty() ? std::vector<float>(1) : bias);
    run("route", "route", route_grid(1), kRouteThreads,
        RouteArgs{out.data(), on_logits.data(), bias.empty() ? nullptr : on_bias.data(), kExperts, kUsed, scores,
                  normalise, 2.5f});
    std::vector<double> share(kExperts), rank(kExperts);
    for (size_t i = 0; i < kExperts; i++) {
      share[i] = is_sigmoid ? 1 / (1 + std::exp(-double{logits[i]})) : std::exp(double{logits[i]});
    }
    const double whole = is_sigmoid ? 1 : std::accumulate(share.begin(), share.end(), 0.0);
    for (size_t i = 0; i < kExperts; i++) {
      rank[i] = scores == RouteScores::softmax_of_chosen ? double{logits[i]} : share[i] / whole;
      if (!bias.empty()) rank[i] += double{bias[i]};
    }
    std::vector<uint32_t> ids(kExperts);
    std::iota(ids.begin(), ids.end(), 0u);
    std::sort(ids.begin(), ids.end(), [&](uint32_t a, uint32_t b) { return rank[a] > rank[b]; });
    double total = 0;
    for (size_t i = 0; i < kUsed; i++) total += share[ids[i]];
    if (scores != RouteScores::softmax_of_chosen) total = normalise ? std::max(total, whole * 0x1p-14) : whole;
    const auto got = out.values();
    for (size_t j = 0; j < kUsed; j++) {
      EXPECT_EQ(got[2 * j], static_cast<float>(ids[j]));
      EXPECT_NEAR(got[2 * j + 1], 2.5 * share[ids[j]] / total, 1e-5);
    }
  };
  const auto logits = noise(kExperts, 2.0f), bias = noise(kExperts, 0.5f);
  // The last four are chosen by their bias alone: their shares together are less than 2^-14.
  std::vector<float> unlikely(kExperts), towards(kExperts);
  for (uint32_t i = 0; i < kExperts; i++) {
    const bool is_last = i >= kExperts - kUsed;
    unlikely[i] =
        is_last ? -14.0f + 0.5f * static_cast<float>(i - (kExperts - kUsed)) : 0.125f * static_cast<float>(i % 3);
    towards[i] = is_last ? 20.0f + static_cast<float>(i) : 0.0f;
  }
  for (const RouteScores scores : {RouteScores::softmax, RouteScores::softmax_of_chosen, RouteScores::sigmoid}) {
    for (const bool normalise : {false, true}) {
      check(logits, {}, scores, normalise);
      check(logits, bias, scores, normalise);
      check(unlikely, towards, scores, normalise);
    }
  }
}

TEST_P(Steps, RoutesToTheLargest) {
  constexpr uint32_t kExperts = 70, kUsed = 3;
  std::vector<float> logits = noise(3 * kExperts);
  logits[5] = logits[40] = logits[69] = 9;  // equal: the lower ids first
  logits[kExperts + 3] = NAN;
  for (uint32_t i = 0; i < kExperts; i++) logits[2 * kExperts + i] = i < 2 ? 1.0f : -INFINITY;
  const auto on_logits = put(logits);
  for (const bool normalise : {true, false}) {
    const auto out = space(3 * kUsed * 2);
    run("route", "route", route_grid(3), kRouteThreads,
        RouteArgs{out.data(), on_logits.data(), nullptr, kExperts, kUsed, RouteScores::softmax, normalise, 1});
    const auto got = out.values();
    for (size_t r = 0; r < 3; r++) {
      if (r == 1 && !normalise) continue;  // NaN in the total
      std::vector<uint32_t> ids(kExperts);
      std::iota(ids.begin(), ids.end(), 0u);
      const float* row = logits.data() + r * kExperts;
      const auto value = [&](uint32_t id) { return std::isnan(row[id]) ? -INFINITY : row[id]; };
      std::sort(ids.begin(), ids.end(),
                [&](uint32_t a, uint32_t b) { return value(a) != value(b) ? value(a) > value(b) : a < b; });
      double total = 0;
      for (uint32_t j = 0; j < (normalise ? kUsed : kExperts); j++)
        total += std::exp(double{row[ids[j]]} - row[ids[0]]);
      for (uint32_t j = 0; j < kUsed; j++) {
        EXPECT_EQ(got[(r * kUsed + j) * 2], static_cast<float>(ids[j]));
        EXPECT_NEAR(got[(r * kUsed + j) * 2 + 1], std::exp(double{row[ids[j]]} - row[ids[0]]) / total, 1e-6);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Steps, testing::both_waves());

}  // namespace
}  // namespace rocmforge::gpu
