// Recurrent steps: each run of a batch goes through its sequence's state row by row, heads and parts of rows on threads
// of their own.

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "cpu/pass.h"

namespace rocmforge {
namespace {

// Elements of a convolution, and of a scan by element, that are one task.
constexpr uint32_t kPartElements = 256;

uint32_t n_parts(uint32_t n) {
  return (n + kPartElements - 1) / kPartElements;
}

float softplus(float x) {
  return x > 20 ? x : std::log1p(std::exp(x));
}

float sigmoid(float x) {
  return 1.0f / (1.0f + std::exp(-x));
}

// One over the length, which counts as epsilon at least.
float one_over_length(const float* x, uint32_t n, float epsilon) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += double{x[i]} * x[i];
  return 1.0f / std::max(static_cast<float>(std::sqrt(sum)), epsilon);
}

}  // namespace

CpuBackend::Pass::States CpuBackend::Pass::states_of(const BatchSequence& sequence, uint32_t layer,
                                                     uint32_t state_at) const {
  CHECK(sequence.state_after.has_value());
  const auto at = [&](StateId id) { return self_.states_.at(id, layer) + state_at; };
  return {sequence.state_before ? at(*sequence.state_before) : nullptr, at(*sequence.state_after)};
}

void CpuBackend::Pass::operator()(const Convolve& step) const {
  const uint32_t width = slot(step.in).width, n_taps = step.n_taps, n_kept = n_taps - 1;
  const cpu::Vector weight = vector_of(step.weight), bias = vector_of(step.bias);
  CHECK(weight.values.size() == uint64_t{width} * n_taps && slot(step.out).width == width && step.in != step.out);
  CHECK(bias.values.empty() || bias.values.size() == width);
  const std::vector<float> ones(kPartElements, 1.0f);
  const uint32_t parts = n_parts(width);
  self_.workers_.run(batch_.sequences.size() * parts, [&](size_t task, size_t) {
    const BatchSequence& sequence = batch_.sequences[task / parts];
    const uint32_t first = static_cast<uint32_t>(task % parts) * kPartElements;
    const uint32_t n = std::min(kPartElements, width - first);
    const States states = states_of(sequence, step.layer, step.state_at);
    // The last inputs before the run, then those of its rows.
    std::vector<float> kept(size_t{n_kept} * n, 0.0f);
    for (uint32_t j = 0; j < n_kept && states.before != nullptr; j++) {
      std::copy_n(states.before + size_t{j} * width + first, n, kept.data() + size_t{j} * n);
    }
    const auto input = [&](uint32_t i) -> const float* {
      return i < n_kept ? kept.data() + size_t{i} * n : row(step.in, sequence.first_row + i - n_kept) + first;
    };
    std::vector<const float*> in(n_taps);
    for (uint32_t r = 0; r < sequence.n_rows; r++) {
      for (uint32_t j = 0; j < n_taps; j++) in[j] = input(r + j);
      float* out = row(step.out, sequence.first_row + r) + first;
      const float* taps = weight.values.data() + size_t{first} * n_taps;
      for (uint32_t c = 0; c < n; c++, taps += n_taps) {
        float sum = bias.values.empty() ? 0.0f : bias.values[first + c];
        for (uint32_t j = 0; j < n_taps; j++) sum += taps[j] * in[j][c];
        out[c] = sum;
      }
      if (step.silu) kernels().silu_multiply(out, out, ones.data(), n);
    }
    for (uint32_t j = 0; j < n_kept; j++) {
      std::copy_n(input(sequence.n_rows + j), n, states.after + size_t{j} * width + first);
    }
  });
}

void CpuBackend::Pass::operator()(const Scan& step) const {
  const uint32_t inner = step.inner(), n_states = step.state_size, n_steps = step.n_steps();
  const cpu::Vector bias = vector_of(step.step_bias), decay = vector_of(step.decay), skip = vector_of(step.skip);
  CHECK(slot(step.out).width == inner && slot(step.step).width == n_steps);
  CHECK(bias.values.size() == n_steps && skip.values.size() == n_steps);
  CHECK(decay.values.size() == (step.by_element ? uint64_t{inner} * n_states : n_steps));
  const uint32_t n_lanes = step.by_element ? kPartElements : step.head_size;
  const uint32_t parts = step.by_element ? n_parts(inner) : step.n_heads;
  self_.workers_.run(batch_.sequences.size() * parts, [&](size_t task, size_t) {
    const BatchSequence& sequence = batch_.sequences[task / parts];
    const auto part = static_cast<uint32_t>(task % parts);
    const uint32_t first = part * n_lanes, n = std::min(n_lanes, inner - first);
    const uint32_t group = step.by_element ? 0 : part / (step.n_heads / step.n_groups);
    const States states = states_of(sequence, step.layer, step.state_at);
    const size_t at = step.by_element ? first : size_t{first} * n_states;
    const auto row_of = [&](const Columns& of) { return row(of.slot, sequence.first_row) + of.first; };
    std::vector<float> steps, decays;
    for (uint32_t r = 0; r < sequence.n_rows; r++) {
      const float* given = row(step.step, sequence.first_row + r);
      if (step.by_element) {
        for (uint32_t c = first; c < first + n; c++) steps.push_back(softplus(given[c] + bias.values[c]));
      } else {
        const float size = softplus(given[part] + bias.values[part]);
        steps.push_back(std::exp(size * decay.values[part]));
        steps.push_back(size);
      }
    }
    if (step.by_element) {  // as the state lies
      decays.resize(size_t{n_states} * n);
      for (uint32_t c = 0; c < n; c++) {
        for (uint32_t s = 0; s < n_states; s++)
          decays[size_t{s} * n + c] = decay.values[size_t{first + c} * n_states + s];
      }
    }
    cpu::ScanRows rows{.before = states.before != nullptr ? states.before + at : nullptr,
                       .after = states.after + at,
                       .x = row_of(step.x) + first,
                       .b = row_of(step.b) + size_t{group} * n_states,
                       .c = row_of(step.c) + size_t{group} * n_states,
                       .steps = steps.data(),
                       .decay = decays.data(),
                       .skip = skip.values.data() + (step.by_element ? first : part),
                       .out = row(step.out, sequence.first_row) + first,
                       .n_rows = sequence.n_rows,
                       .x_step = slot(step.x.slot).width,
                       .b_step = slot(step.b.slot).width,
                       .c_step = slot(step.c.slot).width,
                       .steps_step = step.by_element ? n : 2u,
                       .out_step = inner,
                       .state_size = n_states,
                       .n_lanes = n,
                       .lane_step = step.by_element ? inner : step.head_size,
                       .decay_step = n};
    step.by_element ? kernels().scan_by_element(rows) : kernels().scan_by_head(rows);
  });
}

void CpuBackend::Pass::operator()(const DeltaRule& step) const {
  const cpu::Vector bias = vector_of(step.step_bias), decay = vector_of(step.decay);
  const uint32_t keys = step.n_key_heads * step.key_size, values = step.n_heads * step.head_size;
  CHECK(slot(step.in).width == 2 * keys + values && slot(step.out).width == values);
  CHECK(slot(step.beta).width == step.n_heads && slot(step.alpha).width == step.n_heads);
  CHECK(bias.values.size() == step.n_heads && decay.values.size() == step.n_heads);
  const float root = std::sqrt(static_cast<float>(step.key_size));
  self_.workers_.run(batch_.sequences.size() * step.n_heads, [&](size_t task, size_t) {
    const BatchSequence& sequence = batch_.sequences[task / step.n_heads];
    const auto head = static_cast<uint32_t>(task % step.n_heads);
    const uint32_t key_at = step.key_head(head) * step.key_size;
    const States states = states_of(sequence, step.layer, step.state_at);
    const size_t at = size_t{head} * step.key_size * step.head_size;
    std::vector<float> factors;
    for (uint32_t r = 0; r < sequence.n_rows; r++) {
      const uint32_t batch_row = sequence.first_row + r;
      const float *q = row(step.in, batch_row) + key_at, *k = q + keys;
      const float size = softplus(row(step.alpha, batch_row)[head] + bias.values[head]);
      factors.push_back(std::exp(decay.values[head] * size));
      factors.push_back(sigmoid(row(step.beta, batch_row)[head]));
      factors.push_back(one_over_length(k, step.key_size, step.epsilon));
      factors.push_back(one_over_length(q, step.key_size, step.epsilon) / root);
    }
    const float* in = row(step.in, sequence.first_row);
    kernels().delta_rows({.before = states.before != nullptr ? states.before + at : nullptr,
                          .after = states.after + at,
                          .q = in + key_at,
                          .k = in + keys + key_at,
                          .v = in + 2 * keys + size_t{head} * step.head_size,
                          .factors = factors.data(),
                          .out = row(step.out, sequence.first_row) + size_t{head} * step.head_size,
                          .n_rows = sequence.n_rows,
                          .in_step = slot(step.in).width,
                          .out_step = values,
                          .key_size = step.key_size,
                          .n_lanes = step.head_size,
                          .lane_step = step.head_size});
  });
}

}  // namespace rocmforge
