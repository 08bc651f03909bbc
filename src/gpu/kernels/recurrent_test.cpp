// Recurrent steps against plain loops in f64: runs of a ragged batch, with states out of slots and into slots.

#include "gpu/kernels/recurrent.h"

#include <cmath>
#include <functional>
#include <numeric>

#include "gpu/kernels/norm.h"
#include "support/kernel_device.h"

namespace rocmforge::gpu {
namespace {

using testing::KernelTest;
using testing::nmse;
using testing::OnDevice;

constexpr uint32_t kSlots = 5, kStateAt = 7, kRest = 3;  // a slot holds other things before and behind

double softplus(double x) {
  return std::log1p(std::exp(x));
}
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double silu(double x) {
  return x * sigmoid(x);
}

// A text that begins, one that goes on in place, one behind a checkpoint, and a run of no rows.
const std::vector<RunStates> kRuns = {{0, 19, kNoState, 2}, {19, 1, 3, 3}, {20, 9, 0, 1}, {0, 0, 0, 0}};
constexpr uint32_t kRows = 29;

using Doubles = std::vector<double>;

class Recurrent : public KernelTest {
 protected:
  // Launches a kernel on these runs, over n_states numbers of each slot.
  using Launch = std::function<void(const StatesView&, uint32_t n_runs, float* out)>;
  struct Results {
    std::vector<float> out, states;
  };
  Results run_on(const std::vector<RunStates>& runs, const std::vector<float>& states, uint32_t n_states,
                 uint32_t out_width, const Launch& launch) {
    const auto on_runs = put(runs);
    const auto on_states = put(states);
    const auto out = put(std::vector<float>(kRows * out_width, 77.0f));
    launch({on_states.data() + kStateAt, slot_elements(n_states), on_runs.data()}, static_cast<uint32_t>(runs.size()),
           out.data());
    return {out.values(), on_states.values()};
  }
  static uint32_t slot_elements(uint32_t n_states) { return kStateAt + n_states + kRest; }

  // A row's results, from the state that it changes.
  using Advance = std::function<Doubles(Doubles& state, uint32_t row)>;
  void check(uint32_t n_states, uint32_t out_width, const Launch& launch, const Advance& advance) {
    const std::vector<float> before = noise(kSlots * slot_elements(n_states));
    const Results got = run_on(kRuns, before, n_states, out_width, launch);
    std::vector<float> out(kRows * out_width, 77.0f), states = before;
    for (const RunStates& run : kRuns) {
      Doubles state(n_states);
      const auto at = [&](std::vector<float>& in, uint32_t slot) {
        return in.begin() + slot * slot_elements(n_states) + kStateAt;
      };
      if (run.before != kNoState) std::copy_n(at(states, run.before), n_states, state.begin());
      for (uint32_t r = run.first_row; r < run.first_row + run.n_rows; r++) {
        const Doubles row = advance(state, r);
        std::copy(row.begin(), row.end(), out.begin() + r * out_width);
      }
      if (run.n_rows > 0) std::copy(state.begin(), state.end(), at(states, run.after));
    }
    EXPECT_LE(nmse(got.out, out), 1e-11);
    EXPECT_LE(nmse(got.states, states), 1e-11);
    for (size_t i = 0; i < states.size(); i++) {
      if (states[i] != before[i]) continue;
      ASSERT_EQ(got.states[i], before[i]) << "element " << i << " is not the run's";
    }
    expect_same_bits_in_pieces(before, got, n_states, out_width, launch);
  }

  // The first run in four pieces, through another slot, without neighbours.
  void expect_same_bits_in_pieces(std::vector<float> states, const Results& whole, uint32_t n_states,
                                  uint32_t out_width, const Launch& launch) {
    const std::vector<RunStates> pieces = {{0, 1, kNoState, 4}, {1, 2, 4, 4}, {3, 9, 4, 1}, {12, 7, 1, 2}};
    for (const RunStates& piece : pieces) {
      Results got = run_on({piece}, states, n_states, out_width, launch);
      states = std::move(got.states);
      const auto first = ptrdiff_t{piece.first_row} * out_width, n = ptrdiff_t{piece.n_rows} * out_width;
      EXPECT_TRUE(std::equal(got.out.begin() + first, got.out.begin() + first + n, whole.out.begin() + first));
    }
    const auto slot = ptrdiff_t{2} * slot_elements(n_states);
    EXPECT_TRUE(std::equal(states.begin() + slot, states.begin() + slot + slot_elements(n_states),
                           whole.states.begin() + slot));
  }
};

TEST_P(Recurrent, ConvolutionsKeepTheirLastInputs) {
  constexpr uint32_t kWidth = 300;  // the last block is not full
  for (const uint32_t n_taps : {2, 3, 4}) {
    for (const bool plain : {true, false}) {
      const uint32_t n_kept = n_taps - 1;
      const auto in = noise(kRows * kWidth), weight = noise(kWidth * n_taps), bias = noise(kWidth);
      const auto gate_in = noise(kRows * kWidth), gate_out = noise(kRows * kWidth);
      const auto on_in = put(in), on_weight = put(weight), on_bias = put(bias), on_gate_in = put(gate_in),
                 on_gate_out = put(gate_out);
      const auto launch = [&](uint32_t most_rows) {
        return [&, most_rows](const StatesView& states, uint32_t n_runs, float* out) {
          const Grid grid = convolve_grid(kWidth, n_runs, most_rows);
          run("convolve", "convolve", grid, kConvolveThreads,
              ConvolveArgs{.out = out,
                           .in = on_in.data(),
                           .gate_in = plain ? nullptr : on_gate_in.data(),
                           .gate_out = plain ? nullptr : on_gate_out.data(),
                           .weight = on_weight.data(),
                           .bias = plain ? nullptr : on_bias.data(),
                           .states = states,
                           .width = kWidth,
                           .n_taps = n_taps,
                           .has_silu = plain ? 1u : 0u,
                           .rows_of_a_block = grid.z == 1 ? kRows : kConvolveRows});
        };
      };
      const auto advance = [&](Doubles& state, uint32_t r) {
        Doubles row(kWidth);
        for (uint32_t c = 0; c < kWidth; c++) {
          const uint32_t at = r * kWidth + c;
          // The product is rounded before it is kept.
          const double newest = plain ? in[at] : in[at] * gate_in[at];
          double sum = plain ? 0 : bias[c];
          for (uint32_t j = 0; j < n_kept; j++) sum += double{weight[c * n_taps + j]} * state[j * kWidth + c];
          sum += weight[c * n_taps + n_kept] * newest;
          row[c] = plain ? silu(sum) : sum * gate_out[at];
          for (uint32_t j = 0; j + 1 < n_kept; j++) state[j * kWidth + c] = state[(j + 1) * kWidth + c];
          state[(n_kept - 1) * kWidth + c] = newest;
        }
        return row;
      };
      check(n_kept * kWidth, kWidth, launch(0), advance);
      check(n_kept * kWidth, kWidth, launch(19), advance);
    }
  }
}

struct ScanCase {
  const char* kernel;
  bool by_element;
  uint32_t n_heads, head_size, state_size, n_groups;
};

TEST_P(Recurrent, ScansAdvanceTheirStatesRowByRow) {
  const ScanCase cases[] = {{"scan_head_128", false, 4, 40, 20, 2},  {"scan_head_128", false, 2, 64, 128, 1},
                            {"scan_head_256", false, 2, 33, 200, 2}, {"scan_element_16", true, 1, 75, 16, 1},
                            {"scan_element_16", true, 1, 32, 5, 1},  {"scan_element_64", true, 1, 40, 50, 1}};
  for (const ScanCase& of : cases) {
    SCOPED_TRACE(std::string(of.kernel) + " " + std::to_string(of.state_size));
    const uint32_t inner = of.n_heads * of.head_size, n = of.state_size;
    const uint32_t n_steps = of.by_element ? inner : of.n_heads, width = inner + 2 * of.n_groups * n + 3;
    const auto in = noise(kRows * width), step = noise(kRows * n_steps), bias = noise(n_steps), skip = noise(n_steps);
    auto decay = noise(of.by_element ? inner * n : n_steps);
    for (float& v : decay) v = -std::fabs(v);
    const auto on_in = put(in), on_step = put(step), on_bias = put(bias), on_decay = put(decay), on_skip = put(skip);
    const auto launch = [&](const StatesView& states, uint32_t n_runs, float* out) {
      run("scan", of.kernel, walk_grid(of.n_heads, of.head_size, n_runs), kWalkThreads,
          ScanArgs{.out = out,
                   .x = {on_in.data(), width},
                   .b = {on_in.data() + inner, width},
                   .c = {on_in.data() + inner + of.n_groups * n, width},
                   .step = {on_step.data(), n_steps},
                   .step_bias = on_bias.data(),
                   .decay = on_decay.data(),
                   .skip = on_skip.data(),
                   .states = states,
                   .n_heads = of.n_heads,
                   .head_size = of.head_size,
                   .state_size = n,
                   .n_groups = of.n_groups});
    };
    check(inner * n, inner, launch, [&](Doubles& state, uint32_t r) {
      Doubles row(inner);
      for (uint32_t i = 0; i < inner; i++) {
        const uint32_t head = i / of.head_size, at = of.by_element ? i : head;
        const float* x = &in[r * width];
        const float* b = x + inner + head / (of.n_heads / of.n_groups) * n;
        const float* c = b + of.n_groups * n;
        const double size = softplus(double{step[r * n_steps + at]} + bias[at]);
        row[i] = double{skip[at]} * x[i];
        for (uint32_t e = 0; e < n; e++) {
          double& s = state[(head * n + e) * of.head_size + i % of.head_size];
          s = s * std::exp(size * decay[of.by_element ? i * n + e : at]) + double{b[e]} * x[i] * size;
          row[i] += s * c[e];
        }
      }
      return row;
    });
  }
}

// ln(1 + e^x) of a very negative x is e^x, not 0 and not a multiple of 2^-23.
TEST_P(Recurrent, SmallStepsAreNotRoundedToTheNextOfOne) {
  constexpr uint32_t kWidth = 32;
  const std::vector<float> ones(kRows * kWidth, 1.0f), zeros(kRows * kWidth, 0.0f), step(kRows, -13.0f);
  const auto on_ones = put(ones), on_zeros = put(zeros), on_step = put(step);
  const auto launch = [&](const StatesView& states, uint32_t n_runs, float* out) {
    run("scan", "scan_head_128", walk_grid(1, kWidth, n_runs), kWalkThreads,
        ScanArgs{.out = out,
                 .x = {on_ones.data(), kWidth},
                 .b = {on_ones.data(), 1},
                 .c = {on_ones.data(), 1},
                 .step = {on_step.data(), 1},
                 .step_bias = on_zeros.data(),
                 .decay = on_zeros.data(),
                 .skip = on_zeros.data(),
                 .states = states,
                 .n_heads = 1,
                 .head_size = kWidth,
                 .state_size = 1,
                 .n_groups = 1});
  };
  const Results got =
      run_on({{0, 1, kNoState, 0}}, std::vector<float>(kSlots * slot_elements(kWidth)), kWidth, kWidth, launch);
  EXPECT_NEAR(got.out[0], softplus(-13.0), 1e-6 * softplus(-13.0));
}

struct DeltaCase {
  const char* kernel;
  uint32_t n_heads, head_size, n_key_heads, key_size;
  bool alternates;
};

TEST_P(Recurrent, TheDeltaRuleReplacesWhatAKeyFinds) {
  const DeltaCase cases[] = {{"delta_rule_128", 4, 40, 2, 24, true},
                             {"delta_rule_128", 4, 32, 2, 128, false},
                             {"delta_rule_256", 1, 33, 1, 200, false}};
  constexpr float kEpsilon = 1e-6f;
  for (const DeltaCase& of : cases) {
    SCOPED_TRACE(std::string(of.kernel) + " " + std::to_string(of.key_size));
    const uint32_t keys = of.n_key_heads * of.key_size, values = of.n_heads * of.head_size, width = 2 * keys + values;
    auto in = noise(kRows * width);
    std::fill_n(in.begin() + 5 * width, 2 * keys, 0.0f);  // a key of length 0
    const auto beta = noise(kRows * of.n_heads), alpha = noise(kRows * of.n_heads), bias = noise(of.n_heads);
    auto decay = noise(of.n_heads);
    for (float& v : decay) v = -std::fabs(v);
    const auto on_in = put(in), on_beta = put(beta), on_alpha = put(alpha), on_bias = put(bias), on_decay = put(decay);
    const auto launch = [&](const StatesView& states, uint32_t n_runs, float* out) {
      run("delta_rule", of.kernel, walk_grid(of.n_heads, of.head_size, n_runs), kWalkThreads,
          DeltaRuleArgs{.out = out,
                        .in = {on_in.data(), width},
                        .beta = {on_beta.data(), of.n_heads},
                        .alpha = {on_alpha.data(), of.n_heads},
                        .step_bias = on_bias.data(),
                        .decay = on_decay.data(),
                        .states = states,
                        .n_heads = of.n_heads,
                        .head_size = of.head_size,
                        .n_key_heads = of.n_key_heads,
                        .key_size = of.key_size,
                        .alternates = of.alternates ? 1u : 0u,
                        .epsilon = kEpsilon});
    };
    check(values * of.key_size, values, launch, [&](Doubles& state, uint32_t r) {
      Doubles row(values);
      for (uint32_t h = 0; h < of.n_heads; h++) {
        const uint32_t key_head = of.alternates ? h % of.n_key_heads : h / (of.n_heads / of.n_key_heads);
        const auto unit = [&](const float* from) {
          Doubles out(from, from + of.key_size);
          const double length = std::sqrt(std::inner_product(out.begin(), out.end(), out.begin(), 0.0));
          for (double& v : out) v /= std::max(length, double{kEpsilon});
          return out;
        };
        const float* q_at = &in[r * width + key_head * of.key_size];
        const Doubles q = unit(q_at), k = unit(q_at + keys);
        const double by = std::exp(decay[h] * softplus(double{alpha[r * of.n_heads + h]} + bias[h]));
        for (uint32_t i = 0; i < of.head_size; i++) {
          const auto s = [&](uint32_t e) -> double& { return state[(h * of.key_size + e) * of.head_size + i]; };
          double found = 0;
          for (uint32_t e = 0; e < of.key_size; e++) found += (s(e) *= by) * k[e];
          const double v = in[r * width + 2 * keys + h * of.head_size + i];
          const double u = sigmoid(beta[r * of.n_heads + h]) * (v - found);
          for (uint32_t e = 0; e < of.key_size; e++) {
            s(e) += k[e] * u;
            row[h * of.head_size + i] += s(e) * q[e] / std::sqrt(double{1} * of.key_size);
          }
        }
      }
      return row;
    });
  }
}

// What follows a mixer: the gate before the norm or behind it, the result as bytes, too.
TEST_P(Recurrent, NormsOfGatedGroups) {
  constexpr uint32_t kGroup = 96, kGroups = 3, kWidth = kGroup * kGroups;
  const auto in = noise(kRows * kWidth, 3.0f), weight = noise(kGroup), gate = noise(kRows * kWidth, 3.0f);
  const auto on_in = put(in), on_weight = put(weight), on_gate = put(gate);
  for (const bool comes_first : {false, true}) {
    const auto out = space(in.size());
    const auto q = put(std::vector<int8_t>(in.size()));
    const auto scales = put(std::vector<ActivationScale>(in.size() / 32));
    run("norm", "rms_norm", norm_grid(kRows, kGroups), kNormThreads,
        NormArgs{.out = out.data(),
                 .in = on_in.data(),
                 .weight = on_weight.data(),
                 .bias = nullptr,
                 .group = kGroup,
                 .n_groups = kGroups,
                 .weight_step = 0,
                 .epsilon = 1e-5f,
                 .gate = on_gate.data(),
                 .gate_comes_first = comes_first ? 1u : 0u,
                 .q = q.data(),
                 .scales = scales.data()});
    std::vector<float> expected(in.size());
    for (size_t g = 0; g < kRows * kGroups; g++) {
      const auto gated = [&](size_t i, double x) { return x * gate[i] / (1 + std::exp(-double{gate[i]})); };
      std::vector<double> group(kGroup);
      for (size_t i = 0; i < kGroup; i++) {
        const size_t at = g * kGroup + i;
        group[i] = comes_first ? gated(at, in[at]) : in[at];
      }
      const double scale =
          1 / std::sqrt(std::inner_product(group.begin(), group.end(), group.begin(), 0.0) / kGroup + 1e-5);
      for (size_t i = 0; i < kGroup; i++) {
        const double normed = group[i] * scale * weight[i];
        expected[g * kGroup + i] = static_cast<float>(comes_first ? normed : gated(g * kGroup + i, normed));
      }
    }
    const auto values = out.values();
    EXPECT_LE(nmse(values, expected), 1e-12);
    const auto by_waves = space(in.size());
    run("norm", "rms_norm_heads", norm_heads_grid(kRows, kGroups, device_->wave()), kNormThreads,
        NormArgs{.out = by_waves.data(),
                 .in = on_in.data(),
                 .weight = on_weight.data(),
                 .bias = nullptr,
                 .group = kGroup,
                 .n_groups = kGroups,
                 .weight_step = 0,
                 .epsilon = 1e-5f,
                 .n_rows = kRows,
                 .gate = on_gate.data(),
                 .gate_comes_first = comes_first ? 1u : 0u});
    EXPECT_LE(nmse(by_waves.values(), expected), 1e-12);
    const auto bytes = q.values();
    const auto by = scales.values();
    for (size_t i = 0; i < values.size(); i++) {
      ASSERT_NEAR(bytes[i] * by[i / 32].scale, values[i], 0.51f * by[i / 32].scale) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Recurrent, testing::both_waves());

}  // namespace
}  // namespace rocmforge::gpu
