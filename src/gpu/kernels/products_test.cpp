// Every weight format: repacking, looking rows up, and products with few and with many rows, against the format's own
// header and sums in f64.

#include <bit>

#include "gpu/kernel_set.h"
#include "gpu/kernels/embed.h"
#include "gpu/kernels/matmul_f32.h"
#include "gpu/kernels/matmul_hopper.h"
#include "gpu/kernels/matvec.h"
#include "support/kernel_weights.h"

namespace rocmforge::gpu {
namespace {

using testing::nmse;
using testing::OnDevice;

std::vector<HopperShape> hopper_shapes(uint32_t n_out, uint32_t n) {
  std::vector<HopperShape> shapes = {hopper_shape(hopper_across(n_out), n)};
  if (n > 64) shapes.push_back({128, Grid{(n_out + 127) / 128, (n + 127) / 128, 1, 1}});
  return shapes;
}

TEST_P(Products, RowsAreLookedUpToTheBit) {
  each_format([&](DType dtype) {
    const TestWeight w = weight(dtype, 5, 512);
    const std::vector<uint32_t> chosen = {4, 0, 3};
    const auto rows = put(chosen);
    const auto out = space(3 * w.width);
    run("embed", "embed_" + suffix(dtype), embed_grid(3), kEmbedThreads,
        EmbedArgs{w.planes, out.data(), rows.data(), w.width});
    const auto got = out.values();
    for (size_t r = 0; r < 3; r++) {
      for (size_t i = 0; i < w.width; i++) {
        ASSERT_EQ(got[r * w.width + i], w.values[chosen[r] * w.width + i]) << "row " << r << ", element " << i;
      }
    }
  });
}

// Blocks of one byte throughout, of every value, and blocks of random bytes: every code and every scale, also those
// that no encoder writes.
TEST_P(Products, EveryBlockDecodesToItsBits) {
  each_format([&](DType dtype) {
    const DTypeInfo& info = dtype_info(dtype);
    constexpr uint32_t kRows = 8;
    const uint32_t width = 128 * std::max<uint32_t>(info.block_elements, 4);
    std::vector<uint8_t> blocks(size_t{kRows} * width / info.block_elements * info.block_bytes);
    for (size_t i = 0; i < blocks.size(); i++) {
      const size_t block = i / info.block_bytes;
      blocks[i] = static_cast<uint8_t>(block < 256 ? block : rng_());
    }
    const TestWeight w = weight_of(dtype, kRows, width, std::move(blocks));
    const std::vector<uint32_t> all = {0, 1, 2, 3, 4, 5, 6, 7};
    const auto rows = put(all);
    const auto out = space(w.values.size());
    run("embed", "embed_" + suffix(dtype), embed_grid(kRows), kEmbedThreads,
        EmbedArgs{w.planes, out.data(), rows.data(), w.width});
    const auto got = out.values();
    for (size_t i = 0; i < got.size(); i++) {
      if (std::isnan(w.values[i]) && std::isnan(got[i])) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(w.values[i] + 0.0f))  // -0 is added to 0
          << "row " << i / width << ", element " << i % width << ": " << got[i] << " for " << w.values[i];
    }
  });
}

TEST_P(Products, RowsAreScaledAndAdded) {
  const auto rows = put(std::vector<uint32_t>{2, 1});
  for (const DType dtype : {DType::f16, DType::q8_0, DType::iq2_xs}) {
    const TestWeight w = weight(dtype, 3, 256);
    const auto before = noise(2 * w.width);
    const auto out = put(before);
    run("embed", "embed_" + suffix(dtype), embed_grid(2), kEmbedThreads,
        EmbedArgs{w.planes, out.data(), rows.data(), w.width, 8.0f, 1});
    std::vector<float> expected = before;
    for (size_t i = 0; i < w.width; i++) {
      expected[i] += 8 * w.values[2 * w.width + i];
      expected[w.width + i] += 8 * w.values[w.width + i];
    }
    EXPECT_LE(nmse(out.values(), expected), 1e-12);
  }
}

// One element that outweighs a row is rounded by up to 2^-11, and a weight as much: 1e-6 of the product's energy at
// worst. Hopper's weights are rounded twice.
constexpr double kHalfTolerance = 2e-6;

// 8-bit activations cost some 5e-5 of the product's energy; floats nothing worth naming.
double matvec_tolerance(DType dtype) {
  return plane_table(dtype).n_planes > 1 ? 2e-4 : 1e-10;
}

TEST_P(Products, FewRows) {
  each_format([&](DType dtype) {
    const TestWeight w = weight(dtype, 21, 512);
    const auto bias = noise(w.n_rows);
    const auto x = noise(3 * w.width);
    const auto expected = product(w, x, bias);
    EXPECT_LE(nmse(run_matvec(w, x, bias, 1), expected), matvec_tolerance(dtype));
    if (has_own_kernels(dtype)) {
      EXPECT_LE(nmse(run_matvec(w, x, bias, 8), expected), matvec_tolerance(dtype));
    }
  });
}

// Each by itself and eight at a time: their scales are f32.
TEST_P(Products, FewRowsBeyondHalfPrecision) {
  for (const DType dtype : {DType::q4_k, DType::q6_k, DType::f32, DType::f16, DType::bf16, DType::iq2_xs}) {
    SCOPED_TRACE(suffix(dtype));
    const TestWeight w = weight(dtype, 5, 256);
    for (const uint32_t n_at_once : {1u, 8u}) {
      if (n_at_once == 8 && !has_own_kernels(dtype)) continue;
      check_large_rows(w, 14, matvec_tolerance(dtype),
                       [&](const std::vector<float>& x) { return run_matvec(w, x, {}, n_at_once); });
    }
  }
}

TEST_P(Products, OfThreeWeightsInOneLaunch) {
  for (const DType dtype : {DType::q4_k, DType::q8_0, DType::f16}) {
    const std::vector<TestWeight> weights = [&] {
      std::vector<TestWeight> out;
      for (const uint32_t n_out : {21u, 3u, 40u}) out.push_back(weight(dtype, n_out, 512));
      return out;
    }();
    const auto x = noise(512), bias = noise(40);
    const auto on_x = put(x), on_bias = put(bias);
    const OnDevice<int8_t> q(*device_, x.size());
    const OnDevice<ActivationScale> scales(*device_, x.size() / 32);
    run("quantize", "quantize", quantize_grid(512, 1), kQuantizeThreads,
        QuantizeArgs{q.data(), scales.data(), on_x.data(), 512});
    const auto a = space(21), b = space(3), c = space(40);
    MatvecArgs args{};
    args.w = weights[0].planes;
    args.out = a.data();
    args.x = on_x.data();
    args.q = q.data();
    args.scales = scales.data();
    args.pairs_per_input = args.n_summed = args.n_rows = 1;
    args.n_out = 21;
    args.width = 512;
    args.n_more = 2;
    args.more[0] = {weights[1].planes, b.data(), nullptr, 3};
    args.more[1] = {weights[2].planes, c.data(), on_bias.data(), 40};
    Grid grid = matvec_grid(21, 1, 1, device_->wave());
    for (const uint32_t n_out : {3u, 40u}) grid.x += matvec_blocks(n_out, device_->wave());
    run(dtype == DType::f16 ? "matvec_float" : "matvec", "matvec_" + suffix(dtype) + "_1", grid, kMatvecThreads, args);
    EXPECT_LE(nmse(a.values(), product(weights[0], x, {})), matvec_tolerance(dtype));
    EXPECT_LE(nmse(b.values(), product(weights[1], x, {})), matvec_tolerance(dtype));
    EXPECT_LE(nmse(c.values(), product(weights[2], x, bias)), matvec_tolerance(dtype));
  }
}

TEST_P(Products, FloatsOfAnyWidth) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const TestWeight w = weight(dtype, 5, 37);
    const auto x = noise(9 * w.width);
    for (const uint32_t n_at_once : {1u, 8u}) {
      EXPECT_LE(nmse(run_matvec(w, x, {}, n_at_once), product(w, x, {})), 1e-10);
    }
  }
}

TEST_P(Products, InfinityAndNanShow) {
  const TestWeight w = weight(DType::q4_k, 4, 256);
  for (const float bad : {INFINITY, NAN}) {
    auto x = noise(w.width);
    x[77] = bad;
    for (const float v : run_matvec(w, x, {}, 1)) EXPECT_TRUE(std::isnan(v));
  }
}

TEST_P(Products, OfExperts) {
  constexpr uint32_t kExperts = 4, kOut = 6;
  for (const DType dtype : {DType::q4_0, DType::f32, DType::iq2_xs, DType::nvfp4}) {
    SCOPED_TRACE(dtype_info(dtype).name);
    std::vector<TestWeight> experts;
    std::vector<uint64_t> at;  // from the first one
    for (uint32_t e = 0; e < kExperts; e++) {
      experts.push_back(weight(dtype, kOut, 256));
      at.push_back(reinterpret_cast<uintptr_t>(experts[e].planes.at[0]) -
                   reinterpret_cast<uintptr_t>(experts[0].planes.at[0]));
    }
    const TestWeight& w = experts[0];
    const auto on_at = put(at);
    const auto x = noise(4 * w.width);
    const std::vector<float> pairs = {3, 0.5f, 0, 0.5f, 1, 0.25f, 3, 0.75f};  // two rows, two experts each
    const auto bias = noise(kExperts * kOut);
    const auto routing = put(pairs), on_x = put(x), on_bias = put(bias);
    const OnDevice<int8_t> q(*device_, x.size());
    const OnDevice<ActivationScale> scales(*device_, x.size() / 32);
    run("quantize", "quantize", quantize_grid(w.width, 4), kQuantizeThreads,
        QuantizeArgs{q.data(), scales.data(), on_x.data(), w.width});
    const std::string kernel = "matvec_" + suffix(dtype) + "_1";
    const char* file = dtype == DType::f32 ? "matvec_float" : "matvec";
    std::vector<std::vector<float>> all;  // every expert for every input
    for (const TestWeight& expert : experts) all.push_back(product(expert, x, {}));
    const auto of_pair = [&](size_t pair, size_t input, size_t o) {
      const auto e = static_cast<size_t>(pairs[2 * pair]);
      return all[e][input * kOut + o] + bias[e * kOut + o];
    };

    const auto apart = space(4 * kOut);
    run(file, kernel, matvec_grid(kOut, 4, 1, device_->wave()), kMatvecThreads,
        MatvecArgs{w.planes,
                   apart.data(),
                   on_bias.data(),
                   on_x.data(),
                   q.data(),
                   scales.data(),
                   routing.data(),
                   2,
                   1,
                   0,
                   kOut,
                   4,
                   w.width,
                   {0, on_at.data()}});
    std::vector<float> expected;
    for (size_t pair = 0; pair < 4; pair++) {
      for (size_t o = 0; o < kOut; o++) expected.push_back(of_pair(pair, pair / 2, o));
    }
    EXPECT_LE(nmse(apart.values(), expected), matvec_tolerance(dtype));

    const auto summed = space(2 * kOut);
    run(file, kernel, matvec_grid(kOut, 2, 1, device_->wave()), kMatvecThreads,
        MatvecArgs{w.planes,
                   summed.data(),
                   on_bias.data(),
                   on_x.data(),
                   q.data(),
                   scales.data(),
                   routing.data(),
                   1,
                   2,
                   1,
                   kOut,
                   2,
                   w.width,
                   {0, on_at.data()}});
    expected.clear();
    for (size_t r = 0; r < 2; r++) {
      for (size_t o = 0; o < kOut; o++) {
        expected.push_back(pairs[4 * r + 1] * of_pair(2 * r, 2 * r, o) +
                           pairs[4 * r + 3] * of_pair(2 * r + 1, 2 * r + 1, o));
      }
    }
    EXPECT_LE(nmse(summed.values(), expected), matvec_tolerance(dtype));
  }
}

TEST_P(Products, TilesHoldEveryElementOnceInStepsOfItsFormat) {
  each_format([&](DType dtype) {
    if (!is_for_hopper(dtype)) return;
    constexpr uint32_t kRows = 5, kTileRows = 8, kWidth = 512;
    std::vector<float> x(kRows * kWidth);
    for (size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>(i % 2048);  // exact as halves
    const auto on_x = put(x);
    const OnDevice<uint8_t> tiles(*device_, kTileRows * kWidth * 2);
    const auto scales = space(kRows);
    const TilesArgs args{tiles.data(), scales.data(), on_x.data(), kRows, kWidth, kTileRows};
    run("tiles", "tiles_" + suffix(dtype), tiles_grid(args), kTilesThreads, args);
    EXPECT_EQ(scales.values(), std::vector<float>(kRows, 1.0f));
    const auto bytes = tiles.values();
    const auto at = [&](uint32_t row, uint32_t k) {  // column k in the order of the steps
      const uint32_t quarter = k / 8 % 4 ^ row / 2 % 4;
      F16 h;
      std::memcpy(&h, &bytes[(k / 32 * kTileRows + row) * 64 + quarter * 16 + k % 8 * 2], 2);
      return to_float(h);
    };
    for (uint32_t row = 0; row < kTileRows; row++) {
      std::vector<int> n_seen(kWidth);
      for (uint32_t k = 0; k < kWidth; k++) {
        if (row >= kRows) {
          ASSERT_EQ(at(row, k), 0.0f);
          continue;
        }
        // A lane's pairs are neighbours, within the 256 that their step belongs to.
        const auto element = static_cast<uint32_t>(at(row, k) + 2048 - static_cast<float>(row * kWidth % 2048)) % 2048;
        ASSERT_LT(element, kWidth);
        ASSERT_EQ(element / 256, k / 256);
        if (k % 2 == 1) {
          ASSERT_EQ(at(row, k), at(row, k - 1) + 1);
        }
        n_seen[element]++;
      }
      if (row < kRows) {
        ASSERT_EQ(n_seen, std::vector<int>(kWidth, 1));
      }
    }
  });
}

// As if rows had been scaled before. The width takes more than one sweep of a block.
TEST_P(Products, TilesScaleRowsBeyondHalfPrecision) {
  constexpr uint32_t kRows = 14, kTileRows = 16, kWidth = 256 * 40;
  for (const DType dtype : {DType::q4_k, DType::q8_0, DType::bf16}) {
    const auto make = [&](const std::vector<float>& x) {
      const auto on_x = put(x);
      const OnDevice<uint8_t> tiles(*device_, kTileRows * kWidth * 2);
      const auto scales = space(kRows);
      const TilesArgs args{tiles.data(), scales.data(), on_x.data(), kRows, kWidth, kTileRows};
      run("tiles", "tiles_" + suffix(dtype), tiles_grid(args), kTilesThreads, args);
      return std::pair(tiles.values(), scales.values());
    };
    const auto x = with_large_rows(noise(kRows * kWidth), kWidth, 0);
    const auto [scaled, scales] = scaled_for_halves(x, kWidth);
    const auto got = make(x);
    EXPECT_EQ(got.second, scales);
    EXPECT_TRUE(got.first == make(scaled).first);
  }
}

TEST_P(Products, OnHopperMatchTheReference) {
  if (!device_->has_hopper()) GTEST_SKIP() << "this device has no warpgroup instructions";
  each_format([&](DType dtype) {
    if (!is_for_hopper(dtype)) return;
    // One row more than a tile, outputs that end within one, and widths that clusters share unevenly.
    for (const auto& [n_out, width] : {std::pair{70u, 256u}, {300u, 1280u}, {140u, 4096u}}) {
      const TestWeight w = weight(dtype, n_out, width);
      const auto bias = noise(n_out);
      const auto on_bias = put(bias);
      for (const uint32_t n : {2u, 8u, 9u, 16u, 17u, 64u, 65u, 200u}) {
        SCOPED_TRACE(std::to_string(n) + " rows, " + std::to_string(n_out) + " outputs of " + std::to_string(width));
        const auto x = noise(size_t{n} * width);
        const auto expected = product(w, x, bias);
        for (const HopperShape& shape : hopper_shapes(n_out, n)) {
          EXPECT_LE(nmse(run_hopper(w, x, on_bias.data(), shape), expected), 1e-6);
        }
      }
    }
  });
}

TEST_P(Products, OnHopperOfRowsBeyondHalfPrecision) {
  if (!device_->has_hopper()) GTEST_SKIP() << "this device has no warpgroup instructions";
  each_format([&](DType dtype) {
    if (!is_for_hopper(dtype)) return;
    const TestWeight w = weight(dtype, 140, 1280);
    for (const uint32_t n : {2u, 9u, 17u, 65u, 200u}) {
      for (const HopperShape& shape : hopper_shapes(w.n_rows, n)) {
        check_large_rows(w, n, kHalfTolerance,
                         [&](const std::vector<float>& x) { return run_hopper(w, x, nullptr, shape); });
      }
    }
  });
}

// Neither rows nor outputs fill their last tile, nor the width its last step.
TEST_P(Products, OfManyRowsInF32) {
  const TestWeight w = weight(DType::f32, 70, 100);
  const auto bias = noise(w.n_rows), x = noise(67 * w.width);
  const auto on_x = put(x), on_bias = put(bias), out = space(67 * w.n_rows);
  const MatmulF32Args args{
      reinterpret_cast<const float*>(w.planes.at[0]), out.data(), on_bias.data(), on_x.data(), w.n_rows, 67, w.width};
  run("matmul_f32", "matmul_f32", matmul_f32_grid(w.n_rows, 67), kMatmulF32Threads, args);
  EXPECT_LE(nmse(out.values(), product(w, x, bias)), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(, Products, testing::both_waves());

}  // namespace
}  // namespace rocmforge::gpu
