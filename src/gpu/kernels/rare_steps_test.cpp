// Kernels that few families use, each against a plain loop in f64.

#include "gpu/kernels/rare_steps.h"

#include <algorithm>
#include <cmath>

#include "support/kernel_device.h"

namespace rocmforge::gpu {
namespace {

using testing::KernelTest;
using testing::nmse;

constexpr size_t kN = 2500;  // the last block is not full

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

class RareSteps : public KernelTest {
 protected:
  template <class Args>
  void run_rare(const char* kernel, const Args& args) {
    run("rare_steps", kernel, rare_grid(args.n), kElementThreads, args);
  }
};

TEST_P(RareSteps, Activations) {
  const auto a = noise(kN, 4.0f), b = noise(kN, 4.0f);
  const auto on_a = put(a), on_b = put(b);
  const auto check = [&](const char* kernel, bool has_b, auto&& f) {
    const auto out = space(kN);
    run_rare(kernel, RareActivateArgs{
                         out.data(), on_a.data(), has_b ? on_b.data() : nullptr, kN, 2.5f, {0.8f, 0.6f, 0.5f, -1e-6f}});
    std::vector<float> expected(kN);
    for (size_t i = 0; i < kN; i++) expected[i] = static_cast<float>(f(double{a[i]}, has_b ? double{b[i]} : 1.0));
    EXPECT_LE(nmse(out.values(), expected), 1e-12) << kernel;
  };
  for (const bool has_b : {true, false}) {
    check("relu_multiply", has_b, [](double x, double y) { return std::max(x, 0.0) * y; });
    check("relu_squared_multiply", has_b, [](double x, double y) { return x > 0 ? x * x * y : 0; });
    check("xielu_multiply", has_b, [](double x, double y) {
      const double of_x = x > 0 ? 0.6 * x * x + 0.5 * x : 0.8 * (std::expm1(std::min(x, -1e-6)) - x) + 0.5 * x;
      return of_x * y;
    });
  }
  check("clamped_silu_multiply", true,
        [](double x, double y) { return std::min(x * sigmoid(x), 2.5) * std::clamp(y, -2.5, 2.5); });
}

TEST_P(RareSteps, ClampsBothWays) {
  const auto x = noise(kN, 4.0f);
  const auto on_x = put(x);
  run_rare("clamp", ClampArgs{on_x.data(), kN, 1.5f});
  std::vector<float> expected = x;
  for (float& one : expected) one = std::clamp(one, -1.5f, 1.5f);
  EXPECT_EQ(on_x.values(), expected);
}

TEST_P(RareSteps, GatesGroups) {
  constexpr uint32_t kGroup = 20;
  const auto in = noise(kN), gate = noise(kN / kGroup, 30.0f);
  const auto on_in = put(in), on_gate = put(gate);
  for (const bool is_softplus : {false, true}) {
    const auto out = space(kN);
    run_rare("gate", GateArgs{out.data(), on_in.data(), on_gate.data(), kN, kGroup, is_softplus});
    std::vector<float> expected(kN);
    for (size_t i = 0; i < kN; i++) {
      const double x = gate[i / kGroup];
      expected[i] = static_cast<float>(in[i] * (is_softplus ? std::log1p(std::exp(x)) : sigmoid(x)));
    }
    EXPECT_LE(nmse(out.values(), expected), 1e-12);
  }
}

TEST_P(RareSteps, TempersRowsByTheirPositions) {
  constexpr uint32_t kWidth = 100, kLength = 8, kOffset = 1;
  const std::vector<uint32_t> positions = {0, 6, 7, 8, 100, 70'000};
  const auto x = noise(positions.size() * kWidth);
  const auto on_x = put(x);
  const auto on_positions = put(positions);
  run_rare("temper", TemperArgs{on_x.data(), on_positions.data(), x.size(), kWidth, 0.1f, kLength, kOffset});
  std::vector<float> expected(x.size());
  for (size_t i = 0; i < x.size(); i++) {
    const double n_blocks = std::floor((positions[i / kWidth] + double{kOffset}) / kLength);
    expected[i] = static_cast<float>(x[i] * (1 + 0.1 * std::log(n_blocks + 1)));
  }
  EXPECT_LE(nmse(on_x.values(), expected), 1e-12);
}

TEST_P(RareSteps, ScalesByANumberInMemory) {
  const auto x = noise(kN);
  const auto on_x = put(x), on_by = put(std::vector<float>{-0.75f});
  run_rare("scale_by", ScaleByArgs{on_x.data(), on_by.data(), kN});
  std::vector<float> expected = x;
  for (float& one : expected) one *= -0.75f;
  EXPECT_EQ(on_x.values(), expected);
}

TEST_P(RareSteps, TakesColumns) {
  constexpr uint32_t kRows = 7, kInWidth = 90, kWidth = 32, kFirst = 41;
  const auto in = noise(kRows * kInWidth);
  const auto on_in = put(in), out = space(kRows * kWidth);
  run_rare("take_columns",
           TakeColumnsArgs{out.data(), on_in.data(), uint64_t{kRows} * kWidth, kWidth, kInWidth, kFirst});
  std::vector<float> expected;
  for (uint32_t r = 0; r < kRows; r++) {
    const auto row = in.begin() + r * kInWidth + kFirst;
    expected.insert(expected.end(), row, row + kWidth);
  }
  EXPECT_EQ(out.values(), expected);
}

TEST_P(RareSteps, WeighsInputsOfExpertsAndForgetsTheWeights) {
  constexpr uint32_t kPairs = 9, kWidth = 33;
  const auto x = noise(kPairs * kWidth), routing = noise(kPairs * 2);
  const auto on_x = put(x), on_routing = put(routing);
  run_rare("weigh", WeighArgs{on_x.data(), on_routing.data(), uint64_t{kPairs} * kWidth, kWidth});
  run_rare("forget_weights", WeighArgs{on_x.data(), on_routing.data(), kPairs, kWidth});
  std::vector<float> expected = x, forgotten = routing;
  for (size_t i = 0; i < expected.size(); i++) expected[i] *= routing[i / kWidth * 2 + 1];
  for (size_t i = 0; i < kPairs; i++) forgotten[i * 2 + 1] = 1.0f;
  EXPECT_EQ(on_x.values(), expected);
  EXPECT_EQ(on_routing.values(), forgotten);
}

INSTANTIATE_TEST_SUITE_P(, RareSteps, testing::both_waves());

}  // namespace
}  // namespace rocmforge::gpu
