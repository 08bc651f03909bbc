#pragma once
// Emulates a matrix instruction: every lane exchanges its registers with its wave and computes its own elements of C.
// The positions of A's and B's elements are written down here a second time, from the hardware documents, and not
// derived from the fragments' own loads: a wrong load gives wrong products.

#include "gpu/runtime.h"

#if !defined(__CUDACC__) && !defined(__HIP__)

namespace rocmforge::gpu::RF_KERNELS {

struct Place {
  uint32_t lane;
  uint32_t element;  // index in the lane's registers
};

// PlaceA(row, k) and PlaceB(column, k) give an element's Place; c.v[i] is at (row(i), column(i)).
template <class F, class A, class B, class C, class PlaceA, class PlaceB>
void emulate_multiply(C& c, const A& a, const B& b, PlaceA place_a, PlaceB place_b, int line = __builtin_LINE()) {
  static_assert(sizeof(A) + sizeof(B) <= emu::kExchangeBytes);
  std::byte mine[emu::kExchangeBytes];
  std::memcpy(mine, &a, sizeof a);
  std::memcpy(mine + sizeof a, &b, sizeof b);
  const std::byte* all = emu::exchange_bytes(mine, sizeof a + sizeof b, line);
  using T = typename F::Element;
  const auto element = [&](Place at, size_t offset) {
    if (!emu::takes_part(at.lane)) emu::fail("a matrix instruction without all lanes", line);
    T out;
    std::memcpy(&out, all + at.lane * emu::kExchangeBytes + offset + at.element * sizeof(T), sizeof out);
    return to_float(out);
  };
  for (uint32_t i = 0; i < F::kPerLane; i++) {
    float sum = c.v[i];
    for (uint32_t k = 0; k < 16; k++) {
      sum += element(place_a(F::row(i), k), 0) * element(place_b(F::column(i), k), sizeof a);
    }
    c.v[i] = sum;
  }
}

}  // namespace rocmforge::gpu::RF_KERNELS

#endif
