#include "cpu/matmul.h"

#include <gtest/gtest.h>

#include "cpu/test_weights.h"

namespace rocmforge::cpu {
namespace {

class MultiplierOf : public EveryIsa {};

struct Problem {
  std::unique_ptr<TestWeight> w;
  std::vector<float> inputs, bias;
  size_t n_tokens;

  const WeightShape& shape() const { return w->weight.shape; }
};

Problem make_problem(const Kernels& kernels, DType dtype, uint64_t n_rows, uint64_t n_blocks, size_t n_tokens,
                     gguf::RandomBits& random) {
  const uint64_t block = dtype_info(dtype).block_elements;
  // Floats: rows of a packed block's elements, or, as the third, of some more, which are not packed.
  const uint64_t n = block > 1 ? n_blocks * block : n_blocks == 3 ? 37 : 32 * n_blocks;
  return {make_weight(kernels, {dtype, n, n_rows}, random), random_floats(random, n_tokens * n),
          random_floats(random, n_rows), n_tokens};
}

std::vector<float> multiply(const Kernels& kernels, size_t n_threads, const Problem& p, bool with_bias) {
  Workers workers(n_threads);
  Multiplier multiplier(kernels, workers);
  const auto width = static_cast<uint32_t>(p.shape().row_elements);
  multiplier.reserve(width, static_cast<uint32_t>(p.n_tokens));
  std::vector<float> out(p.n_tokens * p.shape().n_rows);
  std::vector<const float*> in;
  std::vector<float*> to;
  for (size_t t = 0; t < p.n_tokens; t++) {
    in.push_back(p.inputs.data() + t * width);
    to.push_back(out.data() + t * p.shape().n_rows);
  }
  multiplier.prepare(in, width);
  const Product product = {p.w->weight, with_bias ? p.bias.data() : nullptr, {}, to};
  multiplier.multiply(std::span(&product, 1));
  return out;
}

// How far rounding may carry an input of a packed weight: half a level of eight bits, 1 / 254 of the largest of its
// block, or half a unit of bf16.
double input_error(InputForm form, const float* in, uint64_t i) {
  switch (form) {
    case InputForm::floats:
      return 0;
    case InputForm::bf16:
      return std::abs(in[i]) * 0x1p-8;
    case InputForm::blocks: {
      float largest = 0;
      for (uint64_t j = i / 32 * 32; j < i / 32 * 32 + 32; j++) largest = std::max(largest, std::abs(in[j]));
      return largest / 254;
    }
  }
  return 0;
}

// Every type, ragged in every direction.
TEST_P(MultiplierOf, MatchesDoublePrecisionForEveryType) {
  gguf::RandomBits random(1);
  for (const DType dtype : weight_dtypes()) {
    for (const uint64_t n_rows : {1, 2, 3, 5, 7, 8, 9, 12, 15, 16, 17}) {
      for (uint64_t n_blocks = 1; n_blocks <= 3; n_blocks++) {
        for (const size_t n_tokens : {1, 2, 4, 5, 9}) {
          const Problem p = make_problem(kernels(), dtype, n_rows, n_blocks, n_tokens, random);
          const uint64_t n = p.shape().row_elements;
          const auto out = multiply(kernels(), 1, p, true);
          for (size_t t = 0; t < n_tokens; t++) {
            for (uint64_t r = 0; r < n_rows; r++) {
              const float* in = &p.inputs[t * n];
              const Exact exact = exact_dot(&p.w->values[r * n], in, n);
              double tolerance = 1e-5 * (exact.magnitude + std::abs(p.bias[r]));
              if (r < p.w->weight.n_packed_rows()) {
                double squares = 0;
                for (uint64_t i = 0; i < n; i++) {
                  squares += std::pow(p.w->values[r * n + i] * input_error(p.w->weight.format->input, in, i), 2);
                }
                tolerance += 4 * std::sqrt(squares);  // rounding errors are uniform: deviation 1 / sqrt(3) of the bound
              }
              ASSERT_NEAR(out[t * n_rows + r], exact.value + p.bias[r], tolerance)
                  << dtype_info(dtype).name << " rows " << n_rows << " blocks " << n_blocks << " token " << t << " row "
                  << r;
            }
          }
        }
      }
    }
  }
}

TEST_P(MultiplierOf, ThreadsAndBatchesDoNotShowInTheBits) {
  gguf::RandomBits random(2);
  for (const DType dtype : weight_dtypes()) {
    const Problem p = make_problem(kernels(), dtype, 203, 2, 13, random);
    const uint64_t n = p.shape().row_elements;
    const auto expected = multiply(kernels(), 1, p, true);
    for (const size_t n_threads : {2, 3}) {
      EXPECT_TRUE(same_bits(multiply(kernels(), n_threads, p, true), expected)) << dtype_info(dtype).name;
    }
    for (size_t t = 0; t < p.n_tokens; t++) {
      const auto begin = p.inputs.begin() + static_cast<ptrdiff_t>(t * n);
      Problem one = make_problem(kernels(), dtype, 203, 2, 1, random);
      one.w->memory = p.w->memory;
      one.inputs.assign(begin, begin + static_cast<ptrdiff_t>(n));
      one.bias = p.bias;
      const std::vector<float> row(expected.begin() + static_cast<ptrdiff_t>(t * 203),
                                   expected.begin() + static_cast<ptrdiff_t>((t + 1) * 203));
      std::copy(p.w->memory.begin(), p.w->memory.end(), one.w->memory.begin());
      one.w->weight.data = one.w->memory.data();
      EXPECT_TRUE(same_bits(multiply(kernels(), 1, one, true), row)) << dtype_info(dtype).name << " token " << t;
    }
  }
}

TEST_P(MultiplierOf, ProductsOfChosenInputs) {
  gguf::RandomBits random(3);
  for (const DType dtype : {DType::f32, DType::q4_k, DType::iq3_s}) {
    const Problem p = make_problem(kernels(), dtype, 19, 1, 6, random);
    const auto all = multiply(kernels(), 1, p, false);
    Workers workers(2);
    Multiplier multiplier(kernels(), workers);
    const auto width = static_cast<uint32_t>(p.shape().row_elements);
    multiplier.reserve(width, 6);
    std::vector<const float*> in;
    for (size_t t = 0; t < 6; t++) in.push_back(p.inputs.data() + t * width);
    multiplier.prepare(in, width);
    const std::vector<uint32_t> rows = {4, 1, 5};
    std::vector<float> out(3 * 19);
    const std::vector<float*> to = {out.data(), out.data() + 19, out.data() + 38};
    const Product product = {p.w->weight, nullptr, rows, to};
    multiplier.multiply(std::span(&product, 1));
    for (size_t i = 0; i < rows.size(); i++) {
      EXPECT_EQ(std::memcmp(to[i], &all[rows[i] * 19], 19 * sizeof(float)), 0) << dtype_info(dtype).name;
    }
  }
}

TEST(Multiplier, CountsInputsByWidth) {
  Workers workers(1);
  Multiplier multiplier(scalar_kernels(), workers);
  multiplier.reserve(256, 10);
  EXPECT_EQ(multiplier.max_inputs(256), 10u);
  EXPECT_EQ(multiplier.max_inputs(64), 40u);
  EXPECT_EQ(multiplier.max_inputs(1), 80u);
}

RF_FOR_EVERY_ISA(MultiplierOf);

}  // namespace
}  // namespace rocmforge::cpu
