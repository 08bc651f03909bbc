#pragma once
// The outputs and rows that a wave of a matrix-vector kernel computes, and how it stores them.

#include "gpu/kernels/expert_rows.h"
#include "gpu/kernels/matvec.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

template <uint32_t kRows, uint32_t kOutputs>
struct MatvecRows {
  const MatvecArgs& args;
  uint32_t first_out;
  uint32_t first_row;
  // For the part this block belongs to:
  float* out;
  const float* bias;
  uint32_t n_out;
  ExpertPlace experts;
  Planes all_w;
  // For the pair that is being added:
  Planes w;
  uint64_t first_input = 0;
  float share = 1.0f;

  RF_DEVICE explicit MatvecRows(const MatvecArgs& a)
      : args(a),
        first_out((block_x() * (kMatvecThreads / kWave) + wave()) * kOutputs),
        first_row(block_y() * kRows),
        out(a.out),
        bias(a.bias),
        n_out(a.n_out),
        experts(a.experts),
        all_w(a.w) {
    constexpr uint32_t kPerBlock = kMatvecThreads / kWave * kOutputs;
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
      const uint32_t before = (n_out + kPerBlock - 1) / kPerBlock * kPerBlock;
      if (i >= a.n_more || first_out < before) break;
      first_out -= before;
      out = a.more[i].out;
      bias = a.more[i].bias;
      n_out = a.more[i].n_out;
      experts = a.experts_of_more[i];
      all_w = a.more[i].w;
    }
    w = all_w;
  }

  // Selects the n-th of the products that make up the outputs, n < args.n_summed.
  RF_DEVICE void begin(uint32_t n) {
    if (args.routing == nullptr) return;
    const uint64_t pair = static_cast<uint64_t>(block_y()) * args.n_summed + n;
    const uint64_t expert = static_cast<uint64_t>(args.routing[2 * pair]);
    w = planes_of_expert(all_w, experts, expert);
    first_input = pair / args.pairs_per_input;
    if (args.weighed) share = args.routing[2 * pair + 1];
  }

  // Outputs and rows past the end repeat the last one; their results are not stored.
  RF_DEVICE uint64_t weight_row(uint32_t o) const {
    const uint32_t row = first_out + o;
    return row < n_out ? row : n_out - 1;
  }
  RF_DEVICE uint64_t input_row(uint32_t r) const {
    if (args.routing != nullptr) return first_input;
    const uint32_t row = first_row + r;
    return row < args.n_rows ? row : args.n_rows - 1;
  }
  RF_DEVICE static constexpr bool has_row(uint32_t) { return true; }

  // Adds the pair's products times its routing weight.
  RF_DEVICE void add(float (&sums)[kOutputs][kRows], const float (&of_pair)[kOutputs][kRows]) const {
    RF_UNROLL
    for (uint32_t o = 0; o < kOutputs; o++) {
      RF_UNROLL
      for (uint32_t r = 0; r < kRows; r++) sums[o][r] += share * of_pair[o][r];
    }
  }

  // With a routing: the sum of the added experts' biases times their routing weights.
  RF_DEVICE float bias_of(uint32_t output) const {
    if (bias == nullptr) return 0.0f;
    if (args.routing == nullptr) return bias[output];
    float sum = 0;
    for (uint32_t n = 0; n < args.n_summed; n++) {
      const uint64_t pair = static_cast<uint64_t>(block_y()) * args.n_summed + n;
      const float of_expert = bias[static_cast<uint64_t>(args.routing[2 * pair]) * n_out + output];
      sum += args.weighed ? args.routing[2 * pair + 1] * of_expert : of_expert;
    }
    return sum;
  }

  // Reduces the lanes' partial sums and stores; every lane of the wave takes part.
  RF_DEVICE void store(const float (&sums)[kOutputs][kRows]) const {
    RF_UNROLL
    for (uint32_t o = 0; o < kOutputs; o++) {
      RF_UNROLL
      for (uint32_t r = 0; r < kRows; r++) {
        const float sum = wave_sum(sums[o][r]);
        const uint32_t output = first_out + o, row = first_row + r;
        if (lane() != 0 || output >= n_out || row >= args.n_rows) continue;
        out[static_cast<uint64_t>(row) * n_out + output] = sum + bias_of(output);
      }
    }
  }
};

// The same for rows of one expert. Absent rows cost nothing.
template <uint32_t kRows, uint32_t kOutputs>
struct MatvecExpertRows {
  const MatvecArgs& args;
  ExpertRows rows;
  uint32_t first_out;
  uint32_t n_out;
  Planes w;
  uint32_t inputs[kRows];

  RF_DEVICE explicit MatvecExpertRows(const MatvecArgs& a)
      : args(a),
        rows(a.groups, kRows),
        first_out((block_x() * (kMatvecThreads / kWave) + wave()) * kOutputs),
        n_out(rows.n != 0 ? a.n_out : 0) {
    if (rows.n == 0) return;
    w = planes_of_expert(a.w, a.experts, rows.expert);
    RF_UNROLL
    for (uint32_t r = 0; r < kRows; r++) inputs[r] = has_row(r) ? pair(r) / a.pairs_per_input : 0;
  }

  RF_DEVICE uint32_t pair(uint32_t r) const { return args.groups.order[rows.first + r]; }
  RF_DEVICE bool has_row(uint32_t r) const { return r < rows.n; }
  RF_DEVICE uint64_t weight_row(uint32_t o) const {
    const uint32_t row = first_out + o;
    return row < n_out ? row : n_out - 1;
  }
  RF_DEVICE uint64_t input_row(uint32_t r) const { return inputs[r]; }

  RF_DEVICE void store(const float (&sums)[kOutputs][kRows]) const {
    RF_UNROLL
    for (uint32_t r = 0; r < kRows; r++) {
      if (!has_row(r)) break;
      RF_UNROLL
      for (uint32_t o = 0; o < kOutputs; o++) {
        const float sum = wave_sum(sums[o][r]);
        const uint32_t output = first_out + o;
        if (lane() != 0 || output >= n_out) continue;
        const float bias = args.bias != nullptr ? args.bias[static_cast<uint64_t>(rows.expert) * n_out + output] : 0.0f;
        args.out[static_cast<uint64_t>(pair(r)) * n_out + output] = sum + bias;
      }
    }
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
