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
  for (const GateKind kind : {GateKind::sigmoid, GateKind::softplus, GateKind::plain}) {
    const auto out = space(kN);
    run_rare("gate", GateArgs{out.data(), on_in.data(), on_gate.data(), kN, kGroup, kind});
    std::vector<float> expected(kN);
    for (size_t i = 0; i < kN; i++) {
      const double x = gate[i / kGroup];
      const double by = kind == GateKind::plain ? x : kind == GateKind::softplus ? std::log1p(std::exp(x)) : sigmoid(x);
      expected[i] = static_cast<float>(in[i] * by);
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
  run_rare("take_columns", TakeColumnsArgs{out.data(), on_in.data(), uint64_t{kRows} * kWidth, kWidth, kInWidth, kFirst,
                                           kWidth, 0, kWidth, 0});
  std::vector<float> expected;
  for (uint32_t r = 0; r < kRows; r++) {
    const auto row = in.begin() + r * kInWidth + kFirst;
    expected.insert(expected.end(), row, row + kWidth);
  }
  EXPECT_EQ(out.values(), expected);
}

// Elements 3 and 4 of every 5, behind what is there already.
TEST_P(RareSteps, TakesColumnsByPeriod) {
  constexpr uint32_t kRows = 7, kPeriod = 5, kPeriods = 9, kEach = 2, kOutWidth = 23, kOutFirst = 4;
  const auto in = noise(kRows * kPeriod * kPeriods), before = noise(kRows * kOutWidth);
  const auto on_in = put(in), out = put(before);
  constexpr uint32_t kWidth = kPeriods * kEach;
  run_rare("take_columns", TakeColumnsArgs{out.data(), on_in.data(), uint64_t{kRows} * kWidth, kWidth,
                                           kPeriod * kPeriods, 3, kEach, kPeriod, kOutWidth, kOutFirst});
  std::vector<float> expected = before;
  for (uint32_t r = 0; r < kRows; r++) {
    for (uint32_t i = 0; i < kWidth; i++) {
      expected[r * kOutWidth + kOutFirst + i] = in[(r * kPeriods + i / kEach) * kPeriod + 3 + i % kEach];
    }
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

TEST_P(RareSteps, ScalesColumns) {
  constexpr uint32_t kWidth = 100;
  const auto x = noise(kN), by = noise(kWidth);
  const auto on_x = put(x), on_by = put(by);
  run_rare("scale_columns", ScaleColumnsArgs{on_x.data(), on_by.data(), kN, kWidth});
  std::vector<float> expected = x;
  for (size_t i = 0; i < kN; i++) expected[i] *= by[i % kWidth];
  EXPECT_EQ(on_x.values(), expected);
}

TEST_P(RareSteps, MixesStreams) {
  constexpr uint32_t kRows = 5, kWidth = 70;
  struct Case {
    uint32_t n_in, n_out, first;
    bool has_coefficients;
  };
  for (const Case& c : {Case{4, 4, 0, true}, Case{1, 4, 0, true}, Case{1, 4, 1, false}, Case{3, 1, 0, false}}) {
    const auto in = noise(kRows * c.n_in * kWidth), by = noise(kRows * c.n_in * c.n_out);
    const auto on_in = put(in), on_by = put(by), out = space(kRows * c.n_out * kWidth);
    const float offset = 0.5f, scale = 0.25f;
    run_rare("mix_streams",
             MixStreamsArgs{out.data(), on_in.data(), c.has_coefficients ? on_by.data() : nullptr,
                            uint64_t{kRows} * c.n_out * kWidth, kWidth, c.n_in, c.n_out, c.first, offset, scale});
    std::vector<float> expected;
    for (uint32_t r = 0; r < kRows; r++) {
      for (uint32_t j = 0; j < c.n_out; j++) {
        for (uint32_t i = 0; i < kWidth; i++) {
          double sum = 0;
          for (uint32_t k = 0; j >= c.first && k < c.n_in; k++) {
            const double factor = c.has_coefficients ? double{by[(r * c.n_out + j) * c.n_in + k]} + offset : 1.0;
            sum += factor * in[(r * c.n_in + k) * kWidth + i];
          }
          expected.push_back(static_cast<float>(sum * scale));
        }
      }
    }
    EXPECT_LE(nmse(out.values(), expected), 1e-12);
  }
}

TEST_P(RareSteps, MatchesLengthsAndLeavesZeros) {
  constexpr uint32_t kRows = 3, kGroups = 3, kWidth = 700;
  auto x = noise(kRows * kGroups * kWidth, 5.0f);
  std::fill_n(x.begin() + 2 * kWidth, kWidth, 0.0f);
  const auto like = noise(kRows * kWidth);
  const auto on_x = put(x), on_like = put(like);
  run("rare_steps", "match_length", {kRows * kGroups}, kElementThreads,
      MatchLengthArgs{on_x.data(), on_like.data(), kWidth, kGroups});
  const auto length = [](const float* v) {
    double sum = 0;
    for (uint32_t i = 0; i < kWidth; i++) sum += double{v[i]} * v[i];
    return std::sqrt(sum);
  };
  std::vector<float> expected = x;
  for (uint32_t g = 0; g < kRows * kGroups; g++) {
    const double is = length(&x[g * kWidth]), wanted = length(&like[g / kGroups * kWidth]);
    for (uint32_t i = 0; is > 0 && i < kWidth; i++) {
      expected[g * kWidth + i] = static_cast<float>(x[g * kWidth + i] * wanted / is);
    }
  }
  EXPECT_LE(nmse(on_x.values(), expected), 1e-12);
}

TEST_P(RareSteps, CutsRows) {
  constexpr uint32_t kRows = 4, kWidth = 900;
  const auto x = noise(kRows * kWidth, 2.0f);
  const auto on_x = put(x);
  run("rare_steps", "cut_row", {kRows}, kElementThreads, CutRowArgs{on_x.data(), kWidth, 1.2f});
  std::vector<float> expected(x.size());
  uint32_t n_left = 0;
  for (uint32_t r = 0; r < kRows; r++) {
    double mean = 0, squares = 0;
    for (uint32_t i = 0; i < kWidth; i++) mean += double{x[r * kWidth + i]} / kWidth;
    for (uint32_t i = 0; i < kWidth; i++) squares += (x[r * kWidth + i] - mean) * (x[r * kWidth + i] - mean);
    const double cut = mean + 1.2 * std::sqrt(squares / (kWidth - 1));
    for (uint32_t i = 0; i < kWidth; i++) {
      expected[r * kWidth + i] = static_cast<float>(std::max(x[r * kWidth + i] - cut, 0.0));
      n_left += expected[r * kWidth + i] > 0;
    }
  }
  EXPECT_GT(n_left, 0u);
  EXPECT_LE(nmse(on_x.values(), expected), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(, RareSteps, testing::both_waves());

}  // namespace
}  // namespace rocmforge::gpu
