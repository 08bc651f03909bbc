// Rows grouped by expert, and the products of groups with their experts, for every weight format.

#include <numeric>
#include <random>
#include <set>

#include "gpu/kernel_set.h"
#include "gpu/kernels/experts.h"
#include "gpu/kernels/experts_fragments.h"
#include "gpu/kernels/matmul_hopper.h"
#include "gpu/kernels/stream_experts.h"
#include "support/kernel_weights.h"

namespace rocmforge::gpu {
namespace {

using testing::nmse;

bool operator==(const ExpertTile& a, const ExpertTile& b) {
  return a.expert == b.expert && a.first == b.first && a.n == b.n;
}

class Experts : public Products {
 protected:
  // A batch's groups on the device. `experts`: of each pair.
  struct Groups {
    OnDevice<uint32_t> order;
    OnDevice<ExpertTile> tiles;
    OnDevice<uint32_t> n_tiles;
    uint32_t max_tiles, tile_rows;
    ExpertGroups args() const { return {order.data(), tiles.data(), n_tiles.data()}; }
  };

  Groups group(const std::vector<uint32_t>& experts, uint32_t n_experts, uint32_t tile_rows) {
    const auto n_pairs = static_cast<uint32_t>(experts.size());
    std::vector<float> pairs;
    for (const uint32_t e : experts) pairs.insert(pairs.end(), {static_cast<float>(e), 0.5f});
    const auto routing = put(pairs);
    const uint32_t max_tiles = max_expert_tiles(n_pairs, n_experts, tile_rows);
    Groups out{{*device_, n_pairs}, {*device_, max_tiles}, {*device_, 1}, max_tiles, tile_rows};
    run("experts", "group_experts", group_experts_grid(n_experts), kGroupExpertsThreads,
        GroupExpertsArgs{out.order.data(), out.tiles.data(), out.n_tiles.data(), routing.data(), n_pairs, n_experts,
                         tile_rows});
    return out;
  }

  // Weights of one format, one for each expert, and a bias for each of their outputs.
  struct Stack {
    std::vector<TestWeight> experts;
    std::vector<float> bias;
    OnDevice<float> on_bias;
    OnDevice<uint64_t> at;
    uint32_t n_experts() const { return static_cast<uint32_t>(experts.size()); }
  };

  Stack stack(DType dtype, uint32_t n_experts, uint32_t n_out, uint32_t width) {
    std::vector<TestWeight> experts;
    std::vector<uint64_t> at;  // from the first one
    for (uint32_t e = 0; e < n_experts; e++) {
      experts.push_back(weight(dtype, n_out, width));
      at.push_back(reinterpret_cast<uintptr_t>(experts[e].planes.at[0]) -
                   reinterpret_cast<uintptr_t>(experts[0].planes.at[0]));
    }
    auto bias = noise(size_t{n_experts} * n_out);
    auto on_bias = put(bias);
    return {std::move(experts), std::move(bias), std::move(on_bias), put(at)};
  }

  // The product of every pair, in f64.
  std::vector<float> expected(const Stack& stack, const std::vector<uint32_t>& experts, const std::vector<float>& x,
                              uint32_t pairs_per_input) const {
    const uint32_t n_out = stack.experts[0].n_rows, width = stack.experts[0].width;
    std::vector<float> out;
    for (size_t pair = 0; pair < experts.size(); pair++) {
      const auto input = std::span(x).subspan(pair / pairs_per_input * width, width);
      const auto bias = std::span(stack.bias).subspan(size_t{experts[pair]} * n_out, n_out);
      const auto of_pair = product(stack.experts[experts[pair]], input, bias);
      out.insert(out.end(), of_pair.begin(), of_pair.end());
    }
    return out;
  }

  std::vector<float> run_few(const Stack& stack, const std::vector<uint32_t>& experts, const std::vector<float>& x,
                             uint32_t pairs_per_input, uint32_t tile_rows) {
    const TestWeight& w = stack.experts[0];
    const auto n_pairs = static_cast<uint32_t>(experts.size());
    const Groups groups = group(experts, stack.n_experts(), tile_rows);
    const auto on_x = put(x), out = space(size_t{n_pairs} * w.n_rows);
    const OnDevice<int8_t> q(*device_, x.size());
    const OnDevice<ActivationScale> scales(*device_, x.size() / 32 + 1);
    MatvecArgs args{};
    args.w = w.planes;
    args.out = out.data();
    args.bias = stack.on_bias.data();
    args.x = on_x.data();
    args.pairs_per_input = pairs_per_input;
    args.n_summed = 1;
    args.n_out = w.n_rows;
    args.n_rows = n_pairs;
    args.width = w.width;
    args.experts = {0, stack.at.data()};
    args.groups = groups.args();
    const bool is_integer = plane_table(w.dtype).n_planes > 1;
    if (is_integer) {
      run("quantize", "quantize", quantize_grid(w.width, static_cast<uint32_t>(x.size() / w.width)), kQuantizeThreads,
          QuantizeArgs{q.data(), scales.data(), on_x.data(), w.width});
      args.q = q.data();
      args.scales = scales.data();
    }
    run(is_integer ? "matvec" : "matvec_float", "experts_" + suffix(w.dtype) + "_8",
        experts_few_grid(w.n_rows, groups.max_tiles, tile_rows, device_->wave()), kMatvecThreads, args);
    return out.values();
  }

  // Two stacks of one format in one launch, the second without biases.
  std::pair<std::vector<float>, std::vector<float>> run_many(const Stack& a, const Stack& b,
                                                             const std::vector<uint32_t>& experts,
                                                             const std::vector<float>& x, uint32_t pairs_per_input,
                                                             uint32_t tile_rows) {
    const TestWeight &w = a.experts[0], &v = b.experts[0];
    const Groups groups = group(experts, a.n_experts(), tile_rows);
    const auto n_inputs = static_cast<uint32_t>(x.size() / w.width);
    const auto on_x = put(x), scales = space(n_inputs);
    const auto out_a = space(experts.size() * w.n_rows), out_b = space(experts.size() * v.n_rows);
    const OnDevice<uint8_t> panels(*device_, size_t{padded_to(n_inputs, kInputPanelRows)} * w.width * 2);
    const bool is_streamed = tile_rows == kStreamExpertRows;
    const PanelsArgs inputs{panels.data(), scales.data(),
                            on_x.data(),   n_inputs,
                            w.width,       is_streamed ? PanelOrder::tiles_by_column : PanelOrder::tiles_by_row};
    run("panels", "panels", panels_grid(inputs), kPanelsThreads, inputs);
    const ExpertsFragmentsArgs args{{{w.planes, {0, a.at.data()}, a.on_bias.data(), out_a.data(), w.n_rows},
                                     {v.planes, {0, b.at.data()}, nullptr, out_b.data(), v.n_rows}},
                                    groups.args(),
                                    panels.data(),
                                    scales.data(),
                                    pairs_per_input,
                                    w.width};
    run(is_streamed ? "stream_experts" : "experts_fragments",
        "experts_" + suffix(w.dtype) + "_" + std::to_string(tile_rows),
        is_streamed ? stream_experts_grid(args, groups.max_tiles, device_->wave())
                    : experts_fragments_grid(args, groups.max_tiles),
        is_streamed ? kStreamFragmentsThreads : kExpertFragmentThreads, args);
    return {out_a.values(), out_b.values()};
  }

  // Two stacks of one format in one launch.
  std::pair<std::vector<float>, std::vector<float>> run_hopper_experts(const Stack& a, const Stack& b,
                                                                       const std::vector<uint32_t>& experts,
                                                                       const std::vector<float>& x,
                                                                       uint32_t pairs_per_input, uint32_t tile_rows) {
    const TestWeight &w = a.experts[0], &v = b.experts[0];
    const Groups groups = group(experts, a.n_experts(), tile_rows);
    const uint32_t n_rows = groups.max_tiles * tile_rows;
    const auto on_x = put(x), scales = space(n_rows);
    const auto out_a = space(experts.size() * w.n_rows), out_b = space(experts.size() * v.n_rows);
    const OnDevice<uint8_t> tiles(*device_, size_t{n_rows} * w.width * 2);
    const TilesArgs tiles_args{tiles.data(), scales.data(), on_x.data(),   n_rows,
                               w.width,      tile_rows,     groups.args(), pairs_per_input};
    run("tiles", "tiles_" + suffix(w.dtype), tiles_grid(tiles_args), kTilesThreads, tiles_args);
    HopperExpertsArgs args{{{}, tiles.data(), scales.data(), 0, w.width}, groups.args(), {}};
    args.product.parts[0] = {w.planes, out_a.data(), a.on_bias.data(), w.n_rows};
    args.product.parts[1] = {v.planes, out_b.data(), b.on_bias.data(), v.n_rows};
    args.places[0] = {0, a.at.data()};
    args.places[1] = {0, b.at.data()};
    run("experts_hopper", "experts_hopper_" + suffix(w.dtype) + "_" + std::to_string(tile_rows),
        Grid{hopper_across(w.n_rows) + hopper_across(v.n_rows), groups.max_tiles}, kHopperThreads, args);
    return {out_a.values(), out_b.values()};
  }

  // Pairs of rows that each choose n_used different experts.
  std::vector<uint32_t> choices(uint32_t n_rows, uint32_t n_used, uint32_t n_experts) {
    std::vector<uint32_t> all(n_experts), out;
    std::iota(all.begin(), all.end(), 0u);
    for (uint32_t r = 0; r < n_rows; r++) {
      std::ranges::shuffle(all, rng_);
      out.insert(out.end(), all.begin(), all.begin() + n_used);
    }
    return out;
  }
};

double few_tolerance(DType dtype) {
  return plane_table(dtype).n_planes > 1 ? 2e-4 : 1e-10;
}

TEST_P(Experts, GroupsHoldEachExpertsPairsInTheirOrder) {
  const Groups groups = group({2, 0, 2, 3, 2, 0}, 5, 2);
  EXPECT_EQ(groups.order.values(), (std::vector<uint32_t>{1, 5, 0, 2, 4, 3}));
  ASSERT_EQ(groups.n_tiles.values()[0], 4u);
  const auto tiles = groups.tiles.values();
  const std::vector<ExpertTile> expected = {{0, 0, 2}, {2, 2, 2}, {2, 4, 1}, {3, 5, 1}};
  for (size_t i = 0; i < expected.size(); i++) EXPECT_TRUE(tiles[i] == expected[i]) << "tile " << i;
}

// Any choice: few and many experts, all pairs with one of them, and more pairs than a block takes at once.
TEST_P(Experts, GroupsDivideAnyChoiceAmongTiles) {
  for (const auto& [n_pairs, n_experts] :
       {std::pair{1u, 1u}, {7u, 3u}, {300u, 1u}, {257u, 128u}, {64u, 512u}, {2048u, 40u}}) {
    for (const uint32_t tile_rows : {8u, 16u, 64u, 128u}) {
      for (const bool is_skewed : {false, true}) {
        SCOPED_TRACE(std::to_string(n_pairs) + " pairs, " + std::to_string(n_experts) + " experts");
        std::vector<uint32_t> experts(n_pairs);
        for (uint32_t& e : experts) e = is_skewed && rng_() % 4 != 0 ? n_experts - 1 : rng_() % n_experts;
        const Groups groups = group(experts, n_experts, tile_rows);
        std::vector<uint32_t> sorted(n_pairs);
        std::iota(sorted.begin(), sorted.end(), 0u);
        std::ranges::sort(sorted, {}, [&](uint32_t pair) { return std::pair(experts[pair], pair); });
        ASSERT_EQ(groups.order.values(), sorted);
        const auto tiles = groups.tiles.values();
        const uint32_t n_tiles = groups.n_tiles.values()[0];
        ASSERT_LE(n_tiles, groups.max_tiles);
        uint32_t n_placed = 0;
        for (uint32_t t = 0; t < n_tiles; t++) {
          ASSERT_EQ(tiles[t].first, n_placed);
          ASSERT_TRUE(tiles[t].n > 0 && tiles[t].n <= tile_rows);
          for (uint32_t i = 0; i < tiles[t].n; i++) ASSERT_EQ(experts[sorted[n_placed + i]], tiles[t].expert);
          n_placed += tiles[t].n;
          // Only an expert's last tile may have room.
          if (tiles[t].n < tile_rows && t + 1 < n_tiles) {
            ASSERT_NE(tiles[t + 1].expert, tiles[t].expert);
          }
        }
        ASSERT_EQ(n_placed, n_pairs);
      }
    }
  }
}

TEST_P(Experts, SumsARowsProductsInTheOrderOfItsExperts) {
  constexpr uint32_t kRows = 3, kUsed = 5, kWidth = 300;
  const auto products = noise(size_t{kRows} * kUsed * kWidth), shares = noise(size_t{kRows} * kUsed);
  std::vector<float> pairs;
  for (const float share : shares) pairs.insert(pairs.end(), {7, share});
  const auto on_products = put(products), routing = put(pairs), out = space(size_t{kRows} * kWidth);
  run("experts", "combine_experts", combine_experts_grid(kRows, kWidth), kCombineExpertsThreads,
      CombineExpertsArgs{out.data(), on_products.data(), routing.data(), kUsed, kWidth});
  std::vector<float> expected;
  for (size_t r = 0; r < kRows; r++) {
    for (size_t i = 0; i < kWidth; i++) {
      double sum = 0;
      for (size_t j = r * kUsed; j < (r + 1) * kUsed; j++) sum += double{shares[j]} * products[j * kWidth + i];
      expected.push_back(static_cast<float>(sum));
    }
  }
  EXPECT_LE(nmse(out.values(), expected), 1e-12);
}

TEST_P(Experts, OfFewRows) {
  each_format([&](DType dtype) {
    if (!has_own_kernels(dtype)) return;
    const Stack s = stack(dtype, 4, 21, 256);
    const auto experts = choices(13, 2, 3);  // the last one has no row
    for (const uint32_t pairs_per_input : {2u, 1u}) {
      const auto x = noise(experts.size() / pairs_per_input * 256);
      for (const uint32_t tile_rows : {8u, 64u}) {
        EXPECT_LE(nmse(run_few(s, experts, x, pairs_per_input, tile_rows), expected(s, experts, x, pairs_per_input)),
                  few_tolerance(dtype));
      }
    }
  });
}

// A pair's product does not depend on the pairs that share its expert.
TEST_P(Experts, OfFewRowsAreTheSameBitsWithAnyNeighbours) {
  for (const DType dtype : {DType::q4_k, DType::mxfp4, DType::iq3_xxs, DType::f16}) {
    const Stack s = stack(dtype, 3, 10, 512);
    const auto experts = choices(9, 2, 3);
    const auto x = noise(9 * 512);
    const auto together = run_few(s, experts, x, 2, 8);
    for (size_t row = 0; row < 9; row++) {
      const auto alone =
          run_few(s, {experts[2 * row], experts[2 * row + 1]},
                  {x.begin() + static_cast<long>(row * 512), x.begin() + static_cast<long>(row * 512 + 512)}, 2, 8);
      EXPECT_TRUE(std::ranges::equal(alone, std::span(together).subspan(row * 20, 20))) << "row " << row;
    }
  }
}

TEST_P(Experts, OnHopper) {
  if (!device_->has_hopper()) GTEST_SKIP() << "this device has no warpgroup instructions";
  each_format([&](DType dtype) {
    if (!is_for_hopper(dtype)) return;
    for (const uint32_t width : {256u, 1280u}) {
      const Stack a = stack(dtype, 5, 140, width), b = stack(dtype, 5, 70, width);
      for (const uint32_t n_rows : {3u, 40u, 150u}) {
        const auto experts = choices(n_rows, 2, 4);
        for (const uint32_t pairs_per_input : {2u, 1u}) {
          const auto x = noise(experts.size() / pairs_per_input * width);
          for (const uint32_t tile_rows : {8u, 16u, 64u, 128u}) {
            SCOPED_TRACE(std::to_string(n_rows) + " rows in tiles of " + std::to_string(tile_rows));
            const auto [got_a, got_b] = run_hopper_experts(a, b, experts, x, pairs_per_input, tile_rows);
            EXPECT_LE(nmse(got_a, expected(a, experts, x, pairs_per_input)), 1e-6);
            EXPECT_LE(nmse(got_b, expected(b, experts, x, pairs_per_input)), 1e-6);
          }
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(, Experts, testing::both_waves());

constexpr uint32_t kFragmentTiles[] = {kStreamExpertRows, kExpertFragmentRows};

class ManyRowsOfExperts : public Experts {};

TEST_P(ManyRowsOfExperts, AreMultipliedByFragments) {
  each_format([&](DType dtype) {
    if (!has_own_kernels(dtype) || dtype == DType::f32) return;
    const uint32_t n = dtype_info(dtype).block_elements;
    const Stack a = stack(dtype, 3, 140, n <= 32 ? 96 : n);
    Stack b = stack(dtype, 3, 20, n <= 32 ? 96 : n);
    std::ranges::fill(b.bias, 0.0f);
    // 67 pairs with one expert: more than a tile; none with the second.
    std::vector<uint32_t> experts(72, 2);
    for (const size_t pair : {3, 4, 30, 70, 71}) experts[pair] = 0;
    // Neither tiles nor inputs depend on the format: every other one takes the other combination.
    for (const size_t tile : {0, 1}) {
      const uint32_t pairs_per_input = 1 + (tile + static_cast<size_t>(dtype)) % 2;
      const auto x = noise(experts.size() / pairs_per_input * a.experts[0].width);
      const auto [got_a, got_b] = run_many(a, b, experts, x, pairs_per_input, kFragmentTiles[tile]);
      EXPECT_LE(nmse(got_a, expected(a, experts, x, pairs_per_input)), 3e-7);
      EXPECT_LE(nmse(got_b, expected(b, experts, x, pairs_per_input)), 3e-7);
    }
  });
}

TEST_P(ManyRowsOfExperts, HaveTheSameBitsWithAnyNeighbours) {
  const Stack s = stack(DType::q4_k, 3, 20, 512);
  const auto experts = choices(80, 2, 3);
  const auto x = noise(80 * 512);
  for (const uint32_t tile_rows : kFragmentTiles) {
    const auto together = run_many(s, s, experts, x, 2, tile_rows).first;
    for (const size_t row : {0, 37, 79}) {
      const std::vector<float> input(x.begin() + static_cast<long>(row * 512),
                                     x.begin() + static_cast<long>(row * 512 + 512));
      const auto alone = run_many(s, s, {experts[2 * row], experts[2 * row + 1]}, input, 2, tile_rows).first;
      EXPECT_TRUE(std::ranges::equal(alone, std::span(together).subspan(row * 40, 40))) << "row " << row;
    }
  }
}

TEST_P(ManyRowsOfExperts, ThatHalvesCannotHold) {
  const Stack s = stack(DType::q4_k, 2, 20, 256);
  std::vector<uint32_t> experts(20);
  for (size_t i = 0; i < experts.size(); i++) experts[i] = i % 2;
  const auto x = with_large_rows(noise(experts.size() * 256), 256, 0);
  const auto want = expected(s, experts, x, 1);
  for (const uint32_t tile_rows : kFragmentTiles) {
    const auto got = run_many(s, s, experts, x, 1, tile_rows).first;
    for (size_t row = 0; row < experts.size(); row++) {
      const auto of_row = [&](const std::vector<float>& all) { return std::span(all).subspan(row * 20, 20); };
      EXPECT_LE(nmse(of_row(got), of_row(want)), 2e-6) << "row " << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, ManyRowsOfExperts, testing::all_devices());

}  // namespace
}  // namespace rocmforge::gpu
