#include "cpu/isa/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/test_weights.h"
#include "tensor/half.h"

namespace rocmforge::cpu {
namespace {

class Products : public EveryIsa {};
class Functions : public EveryIsa {};

constexpr double kRounding = 0x1p-22;  // relative to the sum of magnitudes: a few units in the last place

// Tokens over contiguous inputs and outputs.
template <class T>
struct TokenRows {
  TokenRows(const std::vector<T>& inputs, size_t width, size_t n_out) : out_values(inputs.size() / width * n_out) {
    for (size_t t = 0; t < inputs.size() / width; t++) {
      in.push_back(inputs.data() + t * width);
      out.push_back(out_values.data() + t * n_out);
    }
  }
  Tokens<T> tokens() const { return {in.data(), out.data(), in.size(), 0}; }
  Tokens<T> one(size_t t, size_t first_row = 0) const { return {&in[t], &out[t], 1, first_row}; }

  std::vector<const T*> in;
  std::vector<float> out_values;
  std::vector<float*> out;
};

// The same for packed formats.
struct FormedRows {
  FormedRows(const FormedInputs& inputs, size_t width, size_t n_out)
      : out_values(inputs.values.size() / width * n_out) {
    for (size_t t = 0; t < inputs.values.size() / width; t++) {
      in.push_back(inputs.at(t * width));
      out.push_back(out_values.data() + t * n_out);
    }
  }
  Tokens<void> tokens() const { return {in.data(), out.data(), in.size(), 0}; }
  Tokens<void> one(size_t t, size_t first_row) const { return {&in[t], &out[t], 1, first_row}; }

  std::vector<const void*> in;
  std::vector<float> out_values;
  std::vector<float*> out;
};

struct FloatType {
  DType dtype;
  FloatMatmul Kernels::* matmul;
};
constexpr FloatType kFloatTypes[] = {
    {DType::f32, &Kernels::matmul_f32}, {DType::f16, &Kernels::matmul_f16}, {DType::bf16, &Kernels::matmul_bf16}};

TEST_P(Products, FloatRowsMatchDoublePrecision) {
  gguf::RandomBits random(1);
  for (const FloatType& type : kFloatTypes) {
    for (size_t n_rows = 1; n_rows <= 9; n_rows++) {
      for (const size_t n : {1, 7, 8, 9, 31, 64, 100}) {
        const WeightShape shape = {type.dtype, n, n_rows};
        const auto w = make_weight(kernels(), shape, random);
        for (size_t n_tokens = 1; n_tokens <= 7; n_tokens++) {
          const auto inputs = random_floats(random, n_tokens * n);
          TokenRows<float> rows(inputs, n, n_rows);
          (kernels().*type.matmul)({w->file.data(), shape.row_bytes(), n_rows, n}, rows.tokens());
          for (size_t t = 0; t < n_tokens; t++) {
            for (size_t r = 0; r < n_rows; r++) {
              const Exact exact = exact_dot(&w->values[r * n], rows.in[t], n);
              ASSERT_NEAR(rows.out[t][r], exact.value, kRounding * exact.magnitude)
                  << dtype_info(type.dtype).name << " rows " << n_rows << " n " << n << " token " << t << " row " << r;
            }
          }
        }
      }
    }
  }
}

TEST_P(Products, FloatRowsGiveTheSameBitsInAnyCut) {
  gguf::RandomBits random(2);
  constexpr size_t n_rows = 13, n_tokens = 11;
  for (const auto& [type, n] :
       {std::pair(kFloatTypes[0], 77u), std::pair(kFloatTypes[1], 77u), std::pair(kFloatTypes[2], 77u),
        std::pair(kFloatTypes[0], 1027u), std::pair(kFloatTypes[1], 1027u), std::pair(kFloatTypes[2], 1027u)}) {
    const WeightShape shape = {type.dtype, n, n_rows};
    const auto w = make_weight(kernels(), shape, random);
    const auto inputs = random_floats(random, n_tokens * n);
    TokenRows<float> whole(inputs, n, n_rows), cut(inputs, n, n_rows);
    (kernels().*type.matmul)({w->file.data(), shape.row_bytes(), n_rows, n}, whole.tokens());
    for (size_t t = 0; t < n_tokens; t++) {
      for (size_t r = 0; r < n_rows; r++) {
        (kernels().*type.matmul)({&w->file[r * shape.row_bytes()], shape.row_bytes(), 1, n}, cut.one(t, r));
      }
    }
    EXPECT_TRUE(same_bits(whole.out_values, cut.out_values)) << dtype_info(type.dtype).name;
  }
}

TEST_P(Products, PackingFollowsTheRule) {
  gguf::RandomBits random(3);
  for (size_t i = 0; i < kernels().n_packed; i++) {
    const auto dtype = static_cast<DType>(kernels().packed[i].dtype);
    const PackedCut cut = *packed_cut(dtype);
    const size_t n_rows = kernels().packed[i].n_rows;
    const size_t file_blocks = packed_elements(dtype) / dtype_info(dtype).block_elements;
    ASSERT_EQ(cut.block_bytes(), file_blocks * dtype_info(dtype).block_bytes);
    for (size_t n_groups = 1; n_groups <= 3; n_groups++) {
      const auto rows = gguf::random_blocks(dtype, n_rows * n_groups * file_blocks, random);
      std::vector<std::byte> unit(rows.size()), expected(rows.size()), back(cut.block_bytes());
      kernels().packed[i].pack(unit.data(), rows.data(), n_groups);
      for (size_t r = 0; r < n_rows; r++) {
        for (size_t g = 0; g < n_groups; g++) {
          const std::byte* block = rows.data() + (r * n_groups + g) * cut.block_bytes();
          pack_block(expected.data() + g * cut.group_bytes(n_rows), n_rows, r, block, cut);
          unpack_block(back.data(), unit.data() + g * cut.group_bytes(n_rows), n_rows, r, cut);
          EXPECT_TRUE(std::equal(back.begin(), back.end(), block)) << dtype_info(dtype).name;
        }
      }
      EXPECT_EQ(unit, expected) << dtype_info(dtype).name;
    }
  }
}

// Against weights and activations as they are after rounding: what remains is the rounding of float sums.
TEST_P(Products, PackedUnitsMatchDoublePrecision) {
  gguf::RandomBits random(4);
  for (size_t i = 0; i < kernels().n_packed; i++) {
    const PackedFormat& format = kernels().packed[i];
    const auto dtype = static_cast<DType>(format.dtype);
    for (size_t n_groups = 1; n_groups <= 3; n_groups++) {
      const size_t n = n_groups * packed_elements(dtype);
      for (size_t n_units = 1; n_units <= 2; n_units++) {
        const size_t n_rows = n_units * format.n_rows;
        const auto w = make_weight(kernels(), {dtype, n, n_rows}, random);
        ASSERT_EQ(w->weight.format, &format);
        for (size_t n_tokens = 1; n_tokens <= 9; n_tokens++) {
          const FormedInputs inputs(kernels(), format.input, random_floats(random, n_tokens * n));
          FormedRows rows(inputs, n, n_rows);
          format.matmul({w->memory.data(), n_units, n_groups}, rows.tokens());
          for (size_t t = 0; t < n_tokens; t++) {
            for (size_t r = 0; r < n_rows; r++) {
              const Exact exact = exact_dot(&w->values[r * n], &inputs.values[t * n], n);
              // Weights with a minimum are a difference of two terms, each larger than the weight.
              ASSERT_NEAR(rows.out[t][r], exact.value, 8 * kRounding * exact.magnitude)
                  << dtype_info(dtype).name << " groups " << n_groups << " token " << t << " row " << r;
            }
          }
        }
      }
    }
  }
}

TEST_P(Products, PackedUnitsGiveTheSameBitsInAnyCut) {
  gguf::RandomBits random(5);
  constexpr size_t n_groups = 3, n_units = 3;
  for (size_t i = 0; i < 3 * kernels().n_packed; i++) {
    const size_t n_tokens = 13 + i % 3;  // tiles of 8, 4 and 1, 2 or 3
    const PackedFormat& format = kernels().packed[i / 3];
    const size_t unit_rows = format.n_rows;
    const auto dtype = static_cast<DType>(format.dtype);
    const size_t n = n_groups * packed_elements(dtype);
    const auto w = make_weight(kernels(), {dtype, n, n_units * unit_rows}, random);
    const FormedInputs inputs(kernels(), format.input, random_floats(random, n_tokens * n));
    FormedRows whole(inputs, n, n_units * unit_rows), cut(inputs, n, n_units * unit_rows);
    format.matmul({w->memory.data(), n_units, n_groups}, whole.tokens());
    for (size_t t = 0; t < n_tokens; t++) {
      for (size_t u = 0; u < n_units; u++) {
        format.matmul({w->weight.row(u * unit_rows), 1, n_groups}, cut.one(t, u * unit_rows));
      }
    }
    EXPECT_TRUE(same_bits(whole.out_values, cut.out_values)) << dtype_info(dtype).name;
  }
}

// Whatever a file holds, a kernel reads in bounds and returns; sanitizers look on.
TEST_P(Products, AnyBitsAreSurvived) {
  gguf::RandomBits random(6);
  for (size_t i = 0; i < kernels().n_packed; i++) {
    const FormedInputs inputs(kernels(), kernels().packed[i].input, random_floats(random, 256));
    const PackedCut cut = *packed_cut(static_cast<DType>(kernels().packed[i].dtype));
    const size_t n_rows = kernels().packed[i].n_rows;
    for (int round = 0; round < 50; round++) {
      std::vector<std::byte> unit(cut.group_bytes(n_rows));
      for (std::byte& byte : unit) byte = round == 0 ? std::byte{0xFF} : static_cast<std::byte>(random.next());
      FormedRows rows(inputs, 256, n_rows);
      kernels().packed[i].matmul({unit.data(), 1, 1}, rows.tokens());
    }
  }
}

TEST_P(Functions, QuantizeRoundsToTheNearestOf255Levels) {
  std::vector<float> from(kQuantElements, 0.0f);
  from[0] = 254.0f;  // scale 2
  from[1] = -254.0f;
  from[2] = 3.1f;  // 1.55 levels
  from[3] = 5.0f;  // 2.5: to even
  from[20] = -2.9f;
  QuantBlock block;
  kernels().quantize(&block, from.data(), 1);
  EXPECT_EQ(block.scale, 2.0f);
  EXPECT_EQ(block.q[0], 127);
  EXPECT_EQ(block.q[1], -127);
  EXPECT_EQ(block.q[2], 2);
  EXPECT_EQ(block.q[3], 2);
  EXPECT_EQ(block.q[20], -1);
  EXPECT_EQ(block.sums[0], 4);
  EXPECT_EQ(block.sums[1], -1);
  EXPECT_EQ(block.sum, 6.0f);
}

TEST_P(Functions, QuantizeGivesTheScalarBits) {
  gguf::RandomBits random(7);
  auto from = random_floats(random, 100 * kQuantElements);
  for (size_t b = 0; b < 100; b++) {
    for (size_t i = 0; i < kQuantElements; i++)
      from[b * kQuantElements + i] *= std::ldexp(1.0f, static_cast<int>(b) - 50);
  }
  std::fill_n(from.begin(), kQuantElements, 0.0f);
  std::fill_n(from.begin() + kQuantElements, kQuantElements, 1e-42f);
  from[2 * kQuantElements] = 3e38f;
  std::vector<QuantBlock> ours(100), scalar(100);
  kernels().quantize(ours.data(), from.data(), 100);
  scalar_kernels().quantize(scalar.data(), from.data(), 100);
  EXPECT_EQ(std::memcmp(ours.data(), scalar.data(), 100 * sizeof(QuantBlock)), 0);
}

TEST_P(Functions, QuantizeKeepsWhatIsNotFiniteToItsBlock) {
  gguf::RandomBits random(9);
  constexpr size_t kBlocks = 7;
  const auto good = random_floats(random, kBlocks * kQuantElements);
  std::vector<QuantBlock> expected(kBlocks), blocks(kBlocks);
  kernels().quantize(expected.data(), good.data(), kBlocks);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (size_t i = 0; i < good.size(); i += 11) {
      auto from = good;
      from[i] = bad;
      kernels().quantize(blocks.data(), from.data(), kBlocks);
      for (size_t b = 0; b < kBlocks; b++) {
        if (b != i / kQuantElements) {
          EXPECT_EQ(std::memcmp(&blocks[b], &expected[b], sizeof(QuantBlock)), 0);
          continue;
        }
        EXPECT_TRUE(std::isnan(blocks[b].scale) && std::isnan(blocks[b].sum));
        EXPECT_TRUE(std::all_of(blocks[b].q, blocks[b].q + kQuantElements, [](int8_t q) { return q == 0; }));
        EXPECT_TRUE(blocks[b].sums[0] == 0 && blocks[b].sums[1] == 0);
      }
    }
  }
}

TEST_P(Functions, WhatIsNotFiniteShowsInTheProduct) {
  gguf::RandomBits random(8);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto from = random_floats(random, 256);
    from[70] = bad;
    std::vector<QuantBlock> blocks(256 / kQuantElements);
    kernels().quantize(blocks.data(), from.data(), blocks.size());
    EXPECT_TRUE(std::isnan(blocks[2].scale));
    EXPECT_FALSE(std::isnan(blocks[1].scale));
    for (size_t i = 0; i < kernels().n_packed; i++) {
      const auto dtype = static_cast<DType>(kernels().packed[i].dtype);
      const auto w = make_weight(kernels(), {dtype, 256, kernels().packed[i].n_rows}, random);
      const FormedInputs inputs(kernels(), kernels().packed[i].input, from);
      FormedRows rows(inputs, 256, kernels().packed[i].n_rows);
      kernels().packed[i].matmul({w->memory.data(), 1, w->weight.n_groups()}, rows.tokens());
      for (const float out : rows.out_values) EXPECT_FALSE(std::isfinite(out)) << dtype_info(dtype).name;
    }
  }
}

TEST_P(Functions, SumsPowersOfWhatIsFinite) {
  gguf::RandomBits random(10);
  for (const size_t n : {1u, 7u, 16u, 37u, 1024u}) {
    auto x = random_floats(random, n);
    for (float& v : x) v *= 40;
    const float largest = *std::max_element(x.begin(), x.end());
    double exact = 0;
    for (const float v : x) exact += std::exp(double{v} - double{largest});
    EXPECT_NEAR(kernels().sum_of_powers(x.data(), n, largest), exact, exact * 1e-5);
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      auto spoilt = x;
      spoilt[n / 2] = bad;
      EXPECT_TRUE(std::isnan(kernels().sum_of_powers(spoilt.data(), n, largest)));
    }
  }
  const float infinite[] = {0.0f, std::numeric_limits<float>::infinity()};
  EXPECT_TRUE(std::isnan(kernels().sum_of_powers(infinite, 2, infinite[1])));
}

TEST_P(Functions, ScoresBecomeAccurateExponentials) {
  std::vector<float> x;
  for (float v = -87.0f; v <= 0.0f; v += 0.0137f) x.push_back(v);
  std::vector<float> e = x;
  RunningSoftmax softmax = {0.0f, 2.0f};
  EXPECT_EQ(kernels().add_scores(softmax, e.data(), e.size(), 1.0f), 1.0f);
  double exact_sum = 2;
  for (size_t i = 0; i < x.size(); i++) {
    const double exact = std::exp(double{x[i]});
    exact_sum += exact;
    ASSERT_NEAR(e[i] / exact, 1.0, 3 * 0x1p-23) << x[i];
  }
  EXPECT_EQ(softmax.largest, 0.0f);
  EXPECT_NEAR(softmax.sum / exact_sum, 1.0, 1e-5);
}

TEST_P(Functions, ScoresAtTheEdges) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float x[] = {0.0f, -kInfinity, -1000.0f, std::numeric_limits<float>::quiet_NaN()};
  RunningSoftmax softmax = {-kInfinity, 0.0f};
  EXPECT_EQ(kernels().add_scores(softmax, x, 3, 1.0f), 0.0f);
  EXPECT_EQ(x[0], 1.0f);
  EXPECT_EQ(x[1], 0.0f);
  EXPECT_EQ(x[2], 0.0f);
  EXPECT_EQ(softmax.sum, 1.0f);
  kernels().add_scores(softmax, x + 3, 1, 1.0f);
  EXPECT_TRUE(std::isnan(x[3]) && std::isnan(softmax.sum));
}

TEST_P(Functions, ARunningSoftmaxFindsTheLargestAnywhere) {
  for (size_t n = 1; n <= 40; n++) {
    for (size_t at = 0; at < n; at++) {
      std::vector<float> values(n, -5.0f);
      values[at] = -2.0f;
      RunningSoftmax softmax = {-4.0f, 3.0f};
      EXPECT_NEAR(kernels().add_scores(softmax, values.data(), n, 0.5f), std::exp(-1.0), 1e-6);
      EXPECT_EQ(softmax.largest, -2.0f);
      EXPECT_NEAR(softmax.sum, 3 * std::exp(-1.0) + 1 + static_cast<double>(n - 1) * std::exp(-1.5), 1e-5);
    }
  }
}

TEST_P(Functions, WeightedSumMatchesAndIsCutAnywhere) {
  gguf::RandomBits random(9);
  for (const size_t n : {1, 8, 20, 64, 96}) {
    for (const bool f16 : {false, true}) {
      constexpr size_t n_rows = 21, n_tokens = 6;
      const auto w = make_weight(kernels(), {f16 ? DType::f16 : DType::f32, n, n_rows}, random);
      const auto shares = random_floats(random, n_tokens * n_rows);
      const auto before = random_floats(random, n_tokens * n);
      const auto keep = random_floats(random, n_tokens);
      const FloatRows rows = {w->file.data(), w->weight.shape.row_bytes(), n_rows, n};
      const auto kernel = f16 ? kernels().weighted_sum_f16 : kernels().weighted_sum_f32;
      TokenRows<float> whole(shares, n_rows, n), single(shares, n_rows, n);
      whole.out_values = single.out_values = before;
      for (size_t t = 0; t < n_tokens; t++) {
        whole.out[t] = whole.out_values.data() + t * n;
        single.out[t] = single.out_values.data() + t * n;
      }
      kernel(rows, whole.tokens(), keep.data(), nullptr);
      for (size_t t = 0; t < n_tokens; t++) kernel(rows, single.one(t), &keep[t], w->memory.data());
      EXPECT_TRUE(same_bits(whole.out_values, single.out_values));
      for (size_t t = 0; t < n_tokens; t++) {
        for (size_t i = 0; i < n; i++) {
          double exact = double{before[t * n + i]} * keep[t];
          for (size_t r = 0; r < n_rows; r++) exact += double{shares[t * n_rows + r]} * w->value(r, i);
          ASSERT_NEAR(whole.out[t][i], exact, 1e-5);
        }
      }
      whole.out_values.assign(before.size(), std::numeric_limits<float>::quiet_NaN());
      single.out_values.assign(before.size(), 0.0f);
      kernel(rows, whole.tokens(), nullptr, nullptr);  // what was there does not count
      kernel(rows, single.tokens(), keep.data(), nullptr);
      EXPECT_TRUE(same_bits(whole.out_values, single.out_values));
    }
  }
}

TEST_P(Functions, ElementWiseFunctionsMatchDoublePrecision) {
  gguf::RandomBits random(10);
  for (const size_t n : {1, 5, 8, 63, 256}) {
    const auto a = random_floats(random, n, 3.0f), b = random_floats(random, n), c = random_floats(random, n);
    std::vector<float> out(n);
    double mean = 0, squares = 0, variance = 0;
    for (const float x : a) mean += x / static_cast<double>(n);
    for (const float x : a) squares += double{x} * x / static_cast<double>(n);
    for (const float x : a) variance += (x - mean) * (x - mean) / static_cast<double>(n);
    const auto expect = [&](const char* what, auto&& exact) {
      for (size_t i = 0; i < n; i++) ASSERT_NEAR(out[i], exact(i), 2e-6 * (1 + std::abs(exact(i)))) << what << " " << i;
    };
    kernels().rms_norm(out.data(), a.data(), b.data(), n, 1e-5f);
    expect("rms", [&](size_t i) { return a[i] / std::sqrt(squares + 1e-5) * b[i]; });
    kernels().layer_norm(out.data(), a.data(), b.data(), c.data(), n, 1e-5f);
    if (n > 1) expect("layer", [&](size_t i) { return (a[i] - mean) / std::sqrt(variance + 1e-5) * b[i] + c[i]; });
    kernels().layer_norm(out.data(), a.data(), b.data(), nullptr, n, 1e-5f);
    if (n > 1) expect("layer", [&](size_t i) { return (a[i] - mean) / std::sqrt(variance + 1e-5) * b[i]; });
    kernels().silu_multiply(out.data(), a.data(), b.data(), n);
    expect("silu", [&](size_t i) { return a[i] / (1 + std::exp(-double{a[i]})) * b[i]; });
    kernels().gelu_multiply(out.data(), a.data(), b.data(), n);
    expect("gelu", [&](size_t i) {
      const double x = a[i];
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) * b[i];
    });
    out = a;
    kernels().add(out.data(), b.data(), n);
    for (size_t i = 0; i < n; i++) EXPECT_EQ(out[i], a[i] + b[i]);
  }
}

TEST_P(Functions, ToF16RoundsLikeTheFormat) {
  gguf::RandomBits random(11);
  for (size_t n = 1; n <= 19; n++) {
    std::vector<float> from(n);
    for (float& x : from) x = bits_to_float(static_cast<uint32_t>(random.next()));
    for (float& x : from) x = std::isnan(x) ? 65519.9f : x;
    std::vector<uint16_t> to(n + 1, 0xABCD);
    kernels().to_f16(to.data(), from.data(), n);
    for (size_t i = 0; i < n; i++) EXPECT_EQ(to[i], to_f16(from[i]).bits);
    EXPECT_EQ(to[n], 0xABCD);
  }
}

TEST_P(Functions, ToBf16RoundsLikeTheFormat) {
  gguf::RandomBits random(12);
  for (size_t n = 1; n <= 19; n++) {
    std::vector<float> from(n);
    for (float& x : from) x = bits_to_float(static_cast<uint32_t>(random.next()));
    from[0] = n % 2 == 0 ? 0x1.01p3f : 0x1.03p3f;  // ties
    from[n / 2] = n % 3 == 0 ? bits_to_float(0x7F800001) : n % 3 == 1 ? 3.4e38f : 1e-40f;
    std::vector<uint16_t> to(n + 1, 0xABCD);
    kernels().to_bf16(to.data(), from.data(), n);
    for (size_t i = 0; i < n; i++) EXPECT_EQ(to[i], to_bf16(from[i]).bits) << from[i];
    EXPECT_EQ(to[n], 0xABCD);
  }
}

RF_FOR_EVERY_ISA(Products);
RF_FOR_EVERY_ISA(Functions);

}  // namespace
}  // namespace rocmforge::cpu
