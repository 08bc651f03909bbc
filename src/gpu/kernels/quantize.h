#pragma once
// Activations as 8-bit integers for the integer products: 32 per scale, with the sums for offsets and minima.

#include <cstdint>

#include "gpu/api.h"

namespace rocmforge::gpu {

struct ActivationScale {
  float scale;      // value = scale * q
  int16_t sums[2];  // of the first and the last 16 q
};

struct QuantizeArgs {
  int8_t* q;                // n_rows x width
  ActivationScale* scales;  // n_rows x width / 32
  const float* x;           // n_rows x width
  uint32_t width;           // a multiple of 32
};

inline constexpr uint32_t kQuantizeThreads = 256;

inline Grid quantize_grid(uint32_t width, uint32_t n_rows) {
  return {n_rows, (width + kQuantizeThreads - 1) / kQuantizeThreads};
}

}  // namespace rocmforge::gpu
