#pragma once
// Root-mean-square and layer normalisation. Optionally adds the residual before, applies a gate, and quantizes the
// result to 8-bit integers.

#include <cstdint>

#include "gpu/api.h"
#include "gpu/kernels/quantize.h"

namespace rocmforge::gpu {

// Normalises each `group` of consecutive elements by itself: a whole row, or a head.
struct NormArgs {
  float* out;  // n_rows x n_groups x group; may be in
  const float* in;
  const float* weight;  // or null: 1
  const float* bias;    // or null
  uint32_t group;
  uint32_t n_groups;     // per row
  uint32_t weight_step;  // offset from one group's weights and biases to the next one's; 0: all groups use the same
  float epsilon;
  uint32_t n_rows = 0;  // for the kernels of heads
  // Not null: computes in + added_scale * added, normalises that, and stores it in `in`.
  const float* added = nullptr;
  float added_scale = 1;
  // Not null: multiplies by silu(gate), before the norm or after it.
  const float* gate = nullptr;
  uint32_t gate_comes_first = 0;
  // Not null: also quantizes the result. Groups must be multiples of 32.
  int8_t* q = nullptr;
  ActivationScale* scales = nullptr;
};

inline constexpr uint32_t kNormThreads = 256;
inline constexpr uint32_t kNormPerThread = 16;
// Kernels: rms_norm_wide, layer_norm_wide. The same with more threads for wide groups: a thread's part is less.
inline constexpr uint32_t kWideNormThreads = 1024;
inline constexpr uint32_t kWideNorm = 1024;  // from so many elements on

inline Grid norm_grid(uint32_t n_rows, uint32_t n_groups) {
  return {n_rows, n_groups};
}

// Kernels: rms_norm_heads, layer_norm_heads. The same for small groups, a wave each; without residual and quants.
inline constexpr uint32_t kMaxNormedHead = 512;  // elements of a group

inline Grid norm_heads_grid(uint32_t n_rows, uint32_t n_groups, uint32_t wave) {
  const uint32_t at_once = kNormThreads / wave;
  return {static_cast<uint32_t>((uint64_t{n_rows} * n_groups + at_once - 1) / at_once)};
}

}  // namespace rocmforge::gpu
