// Plain C++ for any machine, and the reference that every other table is tested against. Weights are never packed here:
// all but floats are decoded row by row.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cpu/isa/kernels.h"
#include "cpu/isa/recurrent_rows.h"
#include "tensor/half.h"

namespace rocmforge::cpu {
namespace {

constexpr size_t kLanes = 8;

struct Lanes {
  float at[kLanes] = {};

  float sum() const {
    const float a = (at[0] + at[4]) + (at[2] + at[6]);
    const float b = (at[1] + at[5]) + (at[3] + at[7]);
    return a + b;
  }
};

float load(const float& value) {
  return value;
}
float load(const F16& value) {
  return to_float(value);
}
float load(const Bf16& value) {
  return to_float(value);
}

template <class T>
const T* row_of(const FloatRows& rows, size_t r) {
  return reinterpret_cast<const T*>(static_cast<const std::byte*>(rows.data) + r * rows.row_bytes);
}

template <class T>
float dot(const T* a, const float* b, size_t n) {
  Lanes lanes;
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t l = 0; l < kLanes; l++) lanes.at[l] += load(a[i + l]) * b[i + l];
  }
  for (size_t l = 0; i + l < n; l++) lanes.at[l] += load(a[i + l]) * b[i + l];
  return lanes.sum();
}

template <class T>
void matmul(const FloatRows& rows, const Tokens<float>& tokens) {
  for (size_t r = 0; r < rows.n_rows; r++) {
    const T* row = row_of<T>(rows, r);
    for (size_t t = 0; t < tokens.n; t++) {
      tokens.out[t][tokens.first_row + r] = dot(row, tokens.in[t], rows.n_elements);
    }
  }
}

template <class T>
void weighted_sum(const FloatRows& rows, const Tokens<float>& tokens, const float* keep, const void*) {
  for (size_t t = 0; t < tokens.n; t++) {
    float* out = tokens.out[t] + tokens.first_row;
    for (size_t i = 0; i < rows.n_elements; i++) out[i] = keep ? out[i] * keep[t] : 0.0f;
    for (size_t r = 0; r < rows.n_rows; r++) {
      const T* row = row_of<T>(rows, r);
      const float weight = tokens.in[t][r];
      for (size_t i = 0; i < rows.n_elements; i++) out[i] += weight * load(row[i]);
    }
  }
}

void quantize(QuantBlock* to, const float* from, size_t n_blocks) {
  for (size_t b = 0; b < n_blocks; b++, from += kQuantElements) {
    QuantBlock& block = to[b] = {};
    uint32_t largest = 0;  // as bits: NaN above infinity above every number
    for (size_t i = 0; i < kQuantElements; i++) largest = std::max(largest, float_to_bits(from[i]) & 0x7FFFFFFFu);
    if (largest >= 0x7F800000u) {
      block.scale = block.sum = std::numeric_limits<float>::quiet_NaN();
      continue;
    }
    const float scale = bits_to_float(largest) / 127.0f;
    if (scale < 0x1p-100f) continue;  // nothing, as far as any product can tell
    const float inverse = 1.0f / scale;
    int sums[2] = {};
    for (size_t i = 0; i < kQuantElements; i++) {
      const int q = static_cast<int>(std::nearbyint(from[i] * inverse));
      block.q[i] = static_cast<int8_t>(q);
      sums[i / 16] += q;
    }
    block.scale = scale;
    block.sum = scale * static_cast<float>(sums[0] + sums[1]);
    for (int h = 0; h < 2; h++) {
      block.sums[h] = static_cast<int16_t>(sums[h]);
      block.negative_sums[h] = -sums[h];
    }
  }
}

// e^x to about one unit in the last place: 2^n * p(x - n ln 2). Below the smallest normal number it gives zero, above
// e^88 it stays there; a NaN passes through.
float exponential(float x) {
  constexpr float kRound = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  if (x < -87.3f) return 0.0f;
  x = 88.0f < x ? 88.0f : x;
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return p * bits_to_float((float_to_bits(shifted) + 127u) << 23);
}

float add_scores(RunningSoftmax& softmax, float* scores, size_t n, float scale) {
  const float largest = std::max(softmax.largest, *std::max_element(scores, scores + n));
  const float keep = exponential(scale * (softmax.largest - largest));
  Lanes lanes;
  for (size_t i = 0; i < n; i++) {
    scores[i] = exponential(scale * (scores[i] - largest));
    lanes.at[i % kLanes] += scores[i];
  }
  softmax = {largest, softmax.sum * keep + lanes.sum()};
  return keep;
}

void to_f16_row(uint16_t* to, const float* from, size_t n) {
  for (size_t i = 0; i < n; i++) to[i] = to_f16(from[i]).bits;
}

void to_bf16_row(uint16_t* to, const float* from, size_t n) {
  for (size_t i = 0; i < n; i++) to[i] = to_bf16(from[i]).bits;
}

void rms_norm(float* to, const float* from, const float* weight, size_t n, float epsilon) {
  const float mean = dot(from, from, n) / static_cast<float>(n);
  const float scale = 1.0f / std::sqrt(mean + epsilon);
  for (size_t i = 0; i < n; i++) to[i] = from[i] * scale * weight[i];
}

void layer_norm(float* to, const float* from, const float* weight, const float* bias, size_t n, float epsilon) {
  Lanes sum;
  for (size_t i = 0; i < n; i++) sum.at[i % kLanes] += from[i];
  const float mean = sum.sum() / static_cast<float>(n);
  Lanes squares;
  for (size_t i = 0; i < n; i++) squares.at[i % kLanes] += (from[i] - mean) * (from[i] - mean);
  const float scale = 1.0f / std::sqrt(squares.sum() / static_cast<float>(n) + epsilon);
  for (size_t i = 0; i < n; i++) to[i] = (from[i] - mean) * scale * weight[i] + (bias ? bias[i] : 0.0f);
}

void add(float* to, const float* from, size_t n) {
  for (size_t i = 0; i < n; i++) to[i] += from[i];
}

void silu_multiply(float* to, const float* gate, const float* up, size_t n) {
  for (size_t i = 0; i < n; i++) to[i] = gate[i] / (1.0f + exponential(-gate[i])) * up[i];
}

// x / 2 * (1 + tanh(u)) = x / (1 + e^-2u), with u = sqrt(2 / pi) (x + 0.044715 x^3)
void gelu_multiply(float* to, const float* gate, const float* up, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const float x = gate[i];
    const float u = 0.79788456f * x * (1.0f + 0.044715f * x * x);
    to[i] = x / (1.0f + exponential(-2.0f * u)) * up[i];
  }
}

float sum_of_powers(const float* x, size_t n, float largest) {
  Lanes lanes;
  for (size_t i = 0; i < n; i++) lanes.at[i % kLanes] += exponential(x[i] - largest) + (x[i] - x[i]);
  return lanes.sum();
}

}  // namespace

const Kernels& scalar_kernels() {
  static constexpr Kernels kernels = {
      .name = "scalar",
      .matmul_f32 = matmul<float>,
      .matmul_f16 = matmul<F16>,
      .matmul_bf16 = matmul<Bf16>,
      .packed = nullptr,
      .n_packed = 0,
      .quantize = quantize,
      .to_bf16 = to_bf16_row,
      .weighted_sum_f32 = weighted_sum<float>,
      .weighted_sum_f16 = weighted_sum<F16>,
      .add_scores = add_scores,
      .to_f16 = to_f16_row,
      .rms_norm = rms_norm,
      .layer_norm = layer_norm,
      .add = add,
      .silu_multiply = silu_multiply,
      .gelu_multiply = gelu_multiply,
      .delta_rows = delta_rows<4>,
      .scan_by_head = scan_rows<4, false>,
      .scan_by_element = scan_rows<4, true>,
      .sum_of_powers = sum_of_powers,
  };
  return kernels;
}

}  // namespace rocmforge::cpu
