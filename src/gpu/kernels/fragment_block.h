#pragma once
// What a block multiplies by matrix fragments: kRows rows by kWeightPanelRows outputs, in steps of 32 columns, from
// packed tiles in shared memory. A wave multiplies half of the rows by its part of the outputs. The order of a sum
// depends on neither the number of rows nor the grid.

#include "gpu/fragment/fragment.h"
#include "gpu/kernels/panels.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

inline constexpr uint32_t kFragmentThreads = 256;

template <uint32_t kRows>
struct FragmentBlock {
  using F = Fragment<F16>;
  // Tiles of a step: the inputs' first, then the weights'.
  static constexpr uint32_t kInputTiles = kRows / kPackedRows, kWeightTiles = kWeightPanelRows / kPackedRows;
  using Step = Word4[kInputTiles + kWeightTiles][kPackedChunks];
  struct Shared {
    Step steps[kCopyBuffers];
    RF_DEVICE Step& at(uint32_t step) { return steps[step % kCopyBuffers]; }
  };

  // A wave's tiles.
  static constexpr uint32_t kAcross = kFragmentThreads / kWave / 2;
  static constexpr uint32_t kInputs = kInputTiles / 2, kWeights = kWeightTiles / kAcross;
  RF_DEVICE static uint32_t first_input() { return wave() / kAcross * kInputs; }
  RF_DEVICE static uint32_t first_weight() { return wave() % kAcross * kWeights; }

  typename F::C sums[kInputs][kWeights] = {};

  RF_DEVICE void add(const Step& tiles) {
    typename F::Operand inputs[kInputs];
    RF_UNROLL
    for (uint32_t i = 0; i < kInputs; i++) F::load(inputs[i], tiles[first_input() + i]);
    RF_UNROLL
    for (uint32_t w = 0; w < kWeights; w++) {
      typename F::Operand weights;
      F::load(weights, tiles[kInputTiles + first_weight() + w]);
      RF_UNROLL
      for (uint32_t i = 0; i < kInputs; i++) F::multiply(sums[i][w], inputs[i], weights);
    }
  }

  // store(row, output, sum) for each sum of this lane; rows and outputs counted within the block.
  template <class Store>
  RF_DEVICE void each(const Store& store) const {
    RF_UNROLL
    for (uint32_t i = 0; i < kInputs; i++) {
      RF_UNROLL
      for (uint32_t e = 0; e < F::kPerLane; e++) {
        const uint32_t row = (first_input() + i) * kPackedRows + F::row(e);
        RF_UNROLL
        for (uint32_t w = 0; w < kWeights; w++) {
          store(row, (first_weight() + w) * kPackedRows + F::column(e), sums[i][w].v[e]);
        }
      }
    }
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
