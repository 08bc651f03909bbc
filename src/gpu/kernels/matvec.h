#pragma once
// Products of a weight with few rows of activations. Kernels by format: matvec_FORMAT_1 and matvec_FORMAT_8 for one and
// up to eight rows, experts_FORMAT_8 for up to eight rows of one expert.

#include <cstdint>

#include "gpu/kernels/experts.h"
#include "gpu/kernels/quantize.h"
#include "gpu/packed/planes.h"

namespace rocmforge::gpu {

// out[r] = w * x[r] + bias. With a routing (matvec_FORMAT_1 only): products with experts' matrices, each laid out like
// w and at a given offset from w. Pairs (row, expert) are numbered row by row:
//
//   weighed = 0   "row r" is pair r, and pairs_per_input neighbouring pairs have one input
//   weighed = 1   out[r] = the sum over n_summed pairs, each with its own input, times their routing weights
//
// experts_FORMAT_8 takes pairs from `groups` instead of `routing`: out[pair] = the product of its expert and its input.
struct MatvecPart {
  Planes w;
  float* out;
  const float* bias;
  uint32_t n_out;
};
struct MatvecArgs {
  Planes w;
  float* out;         // n_rows x n_out
  const float* bias;  // n_out (with a routing, for each expert), or null
  const float* x;     // input of float formats
  const int8_t* q;    // input of the others
  const ActivationScale* scales;
  const float* routing;      // pairs (expert, routing weight), or null
  uint32_t pairs_per_input;  // 1 without routing
  uint32_t n_summed;         // 1 unless weighed
  uint32_t weighed;
  uint32_t n_out;
  uint32_t n_rows;
  uint32_t width;
  ExpertPlace experts;
  // Further weights of the same format with the same input, computed by the following blocks.
  uint32_t n_more = 0;
  MatvecPart more[2] = {};
  ExpertPlace experts_of_more[2] = {};
  ExpertGroups groups = {};
};

inline constexpr uint32_t kMatvecThreads = 128;
inline constexpr uint32_t kMatvecMaxRows = 8;
inline constexpr uint32_t kMatvecOutputs = 2;  // per wave

inline uint32_t matvec_blocks(uint32_t n_out, uint32_t wave) {
  const uint32_t per_block = kMatvecThreads / wave * kMatvecOutputs;
  return (n_out + per_block - 1) / per_block;
}
// n_at_once: the kernel's rows per launch, 1 or 8.
inline Grid matvec_grid(uint32_t n_out, uint32_t n_rows, uint32_t n_at_once, uint32_t wave) {
  return {matvec_blocks(n_out, wave), (n_rows + n_at_once - 1) / n_at_once};
}
// Of experts_FORMAT_8. A tile of more than eight rows takes several blocks.
inline Grid experts_few_grid(uint32_t n_out, uint32_t max_tiles, uint32_t tile_rows, uint32_t wave) {
  return {matvec_blocks(n_out, wave), max_tiles, (tile_rows + kMatvecMaxRows - 1) / kMatvecMaxRows};
}

}  // namespace rocmforge::gpu
