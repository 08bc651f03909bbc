#include "cpu/experts.h"

#include <gtest/gtest.h>

#include <set>

#include "cpu/test_weights.h"

namespace rocmforge::cpu {
namespace {

class ExpertsOf : public EveryIsa {};

Route chosen(uint32_t n_used, bool normalise, Gating gating = Gating::softmax) {
  Route step;
  step.n_used = n_used;
  step.normalise = normalise;
  step.gating = gating;
  return step;
}

TEST(RouteRow, ABiasChangesTheChoiceAndNotTheWeights) {
  const std::vector<float> logits = {0.0f, 2.0f, 1.0f}, bias = {5.0f, 0.0f, 0.0f};
  float out[4];
  Route step = chosen(2, false, Gating::sigmoid);
  step.scale = 1.5f;
  route_row(out, logits, bias, step);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[2], 1);
  EXPECT_NEAR(out[1], 1.5 * 0.5, 1e-6);
  EXPECT_NEAR(out[3], 1.5 / (1 + std::exp(-2.0)), 1e-6);
  step.normalise = true;
  route_row(out, logits, bias, step);
  EXPECT_NEAR(out[1] + out[3], 1.5, 1e-6);
}

TEST(RouteRow, ABiasIsAddedToTheProbabilityOfASoftmax) {
  // By probability plus bias: 0.665 + 0, 0.245 + 0.5, 0.090 + 0. By logit plus bias expert 0 would come first.
  const std::vector<float> logits = {2.0f, 1.0f, 0.0f}, bias = {0.0f, 0.5f, 0.0f};
  const double whole = 1 + std::exp(-1.0) + std::exp(-2.0);
  float out[4];
  route_row(out, logits, bias, chosen(2, false));
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[2], 0);
  EXPECT_NEAR(out[1], std::exp(-1.0) / whole, 1e-6);
  EXPECT_NEAR(out[3], 1 / whole, 1e-6);
  route_row(out, logits, bias, chosen(2, true));
  EXPECT_NEAR(out[1], std::exp(-1.0) / (1 + std::exp(-1.0)), 1e-6);
}

TEST(RouteRow, WeightsOfUnlikelyExpertsDoNotGrowWithoutBound) {
  const std::vector<float> logits = {0.0f, -14.0f, -12.0f}, bias = {0.0f, 9.0f, 8.0f};
  const double whole = 1 + std::exp(-14.0) + std::exp(-12.0);
  float out[4];
  route_row(out, logits, bias, chosen(2, true));
  EXPECT_EQ(out[0], 1);
  EXPECT_NEAR(out[1], std::exp(-14.0) / whole * 0x1p14, 1e-6);
  EXPECT_NEAR(out[3], std::exp(-12.0) / whole * 0x1p14, 1e-6);
  const std::vector<float> low = {-20.0f, -14.0f, -12.0f};
  route_row(out, low, {}, chosen(2, true, Gating::sigmoid));
  EXPECT_EQ(out[0], 2);
  EXPECT_NEAR(out[1], 0x1p14 / (1 + std::exp(12.0)), 1e-6);
  // Those of the chosen alone sum to one, whatever was not chosen.
  route_row(out, logits, bias, chosen(2, true, Gating::softmax_of_chosen));
  EXPECT_NEAR(out[1] + out[3], 1.0, 1e-6);
}

TEST(RouteRow, TheChosenOnesAloneShareTheSoftmax) {
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f};
  float out[4];
  route_row(out, logits, {}, chosen(2, false, Gating::softmax_of_chosen));
  EXPECT_EQ(out[0], 1);
  EXPECT_NEAR(out[1], 1 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(out[1] + out[3], 1.0, 1e-6);
}

TEST(RouteRow, TakesTheLargestAndLowerIdsFirst) {
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f, 3.0f};
  float out[6];
  route_row(out, logits, {}, chosen(3, true));
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[2], 3);
  EXPECT_EQ(out[4], 2);
  EXPECT_NEAR(out[1] + out[3] + out[5], 1.0, 1e-6);
  EXPECT_EQ(out[1], out[3]);
  EXPECT_NEAR(out[5] / out[1], std::exp(-1.0), 1e-6);
  route_row(out, logits, {}, chosen(1, false));
  EXPECT_EQ(out[0], 1);
  EXPECT_NEAR(out[1], 1 / (2 + std::exp(-1.0) + std::exp(-2.0)), 1e-6);
}

TEST(RouteRow, GivesDistinctIdsWhateverTheLogits) {
  gguf::RandomBits random(1);
  const float odd[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1.0f};
  for (int round = 0; round < 500; round++) {
    std::vector<float> logits(1 + random.below(9));
    for (float& x : logits) x = odd[random.below(6)];
    const auto n_used = static_cast<uint32_t>(1 + random.below(logits.size()));
    std::vector<float> out(2 * n_used);
    route_row(out.data(), logits, {}, chosen(n_used, round % 2 == 0));
    std::set<float> ids;
    for (uint32_t j = 0; j < n_used; j++) ids.insert(out[2 * j]);
    EXPECT_EQ(ids.size(), n_used);
    EXPECT_LT(*ids.rbegin(), static_cast<float>(logits.size()));
    EXPECT_GE(*ids.begin(), 0.0f);
  }
}

using Stack = std::vector<std::unique_ptr<TestWeight>>;  // the same matrix of every expert

Stack make_stack(const Kernels& kernels, const WeightShape& shape, uint32_t n, gguf::RandomBits& random) {
  Stack stack;
  for (uint32_t i = 0; i < n; i++) stack.push_back(make_weight(kernels, shape, random));
  return stack;
}

ExpertWeights matrices(const Stack& stack) {
  return {static_cast<uint32_t>(stack.size()), [&stack](uint32_t expert) { return stack[expert]->weight; }};
}

struct ExpertResult {
  std::vector<float> products, combined;
};

// A layer's experts on `inputs` (n x width), rows cut into batches of `chunk`.
ExpertResult run(const Kernels& kernels, const Stack& up, const Stack& down, const std::vector<float>& routing,
                 const std::vector<float>& inputs, uint32_t n_used, size_t chunk, size_t n_threads) {
  const auto width = static_cast<uint32_t>(up[0]->weight.shape.row_elements);
  const uint64_t hidden = up[0]->weight.shape.n_rows;
  const size_t n = inputs.size() / width;
  Workers workers(n_threads);
  Multiplier multiplier(kernels, workers);
  multiplier.reserve(static_cast<uint32_t>(n_used * hidden), 5);  // less than a batch: it must go in several goes
  Experts experts(multiplier, workers);
  ExpertResult result = {std::vector<float>(n * n_used * hidden), std::vector<float>(n * width)};
  for (size_t first = 0; first < n; first += chunk) {
    const size_t n_now = std::min(chunk, n - first);
    const Routing routed = {routing.data() + first * 2 * n_used, n_used};
    float* products = result.products.data() + first * n_used * hidden;
    const ExpertPart part = {matrices(up), products, static_cast<uint32_t>(hidden), {}};
    experts.multiply(std::span(&part, 1), routed, inputs.data() + first * width, n_now, width);
    const ExpertPart back = {matrices(down), result.combined.data() + first * width, width, {}};
    experts.combine(back, routed, products, n_now, static_cast<uint32_t>(hidden));
  }
  return result;
}

TEST_P(ExpertsOf, MatchTheDefinitionInAnyBatch) {
  gguf::RandomBits random(2);
  constexpr uint32_t n_used = 2, n_experts = 5;
  constexpr size_t n = 17;
  for (const DType dtype : {DType::f32, DType::q4_k, DType::q8_0, DType::iq2_xs}) {
    const uint64_t width = 256, hidden = 512;
    const auto up = make_stack(kernels(), {dtype, width, hidden}, n_experts, random);
    const auto down = make_stack(kernels(), {dtype, hidden, width}, n_experts, random);
    const auto inputs = random_floats(random, n * width);
    std::vector<float> routing(n * 2 * n_used);
    for (size_t r = 0; r < n; r++) {
      route_row(&routing[r * 2 * n_used], random_floats(random, n_experts), {}, chosen(n_used, true));
    }
    const ExpertResult whole = run(kernels(), up, down, routing, inputs, n_used, n, 1);
    for (size_t r = 0; r < n; r++) {
      for (uint32_t j = 0; j < n_used; j++) {
        const auto expert = static_cast<uint64_t>(routing[(r * n_used + j) * 2]);
        for (uint64_t i = 0; i < hidden; i += 37) {
          const Exact exact = exact_dot(&up[expert]->values[i * width], &inputs[r * width], width);
          ASSERT_NEAR(whole.products[(r * n_used + j) * hidden + i], exact.value, 0.01 * exact.magnitude);
        }
      }
      for (uint64_t i = 0; i < width; i += 29) {
        Exact exact;
        for (uint32_t j = 0; j < n_used; j++) {
          const auto expert = static_cast<uint64_t>(routing[(r * n_used + j) * 2]);
          const float share = routing[(r * n_used + j) * 2 + 1];
          const Exact one =
              exact_dot(&down[expert]->values[i * hidden], &whole.products[(r * n_used + j) * hidden], hidden);
          exact.value += share * one.value;
          exact.magnitude += share * one.magnitude;
        }
        ASSERT_NEAR(whole.combined[r * width + i], exact.value, 0.01 * exact.magnitude);
      }
    }
    for (const size_t chunk : {1, 7}) {
      const ExpertResult cut = run(kernels(), up, down, routing, inputs, n_used, chunk, chunk == 7 ? 2 : 1);
      EXPECT_TRUE(same_bits(cut.products, whole.products)) << dtype_info(dtype).name;
      EXPECT_TRUE(same_bits(cut.combined, whole.combined)) << dtype_info(dtype).name;
    }
  }
}

RF_FOR_EVERY_ISA(ExpertsOf);

}  // namespace
}  // namespace rocmforge::cpu
