#pragma once
// Without matrix instructions: lane l holds row l % 16 of A and computes kPerLane neighbouring columns of C. B is not
// copied: its tile must not change before multiply.

#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

template <class T>
struct PlainFragment {
  using Element = T;
  static constexpr uint32_t kPerLane = 256 / kWave;

  struct A {
    float k[16];
  };
  struct B {
    const T* rows;
    uint32_t stride;
  };
  struct C {
    float v[kPerLane];
  };

  RF_DEVICE static float to_f32(F16 v) { return widen(v); }
  RF_DEVICE static float to_f32(Bf16 v) { return to_float(v); }

  RF_DEVICE static uint32_t row(uint32_t) { return lane() % 16; }
  RF_DEVICE static uint32_t column(uint32_t i) { return lane() / 16 * kPerLane + i; }

  RF_DEVICE static void load_a(A& a, const T* tile, uint32_t stride) {
    for (int k = 0; k < 16; k++) a.k[k] = to_f32(tile[lane() % 16 * stride + k]);
  }
  RF_DEVICE static void load_b(B& b, const T* tile, uint32_t stride) {
    b = {tile + lane() / 16 * kPerLane * stride, stride};
  }
  RF_DEVICE static void multiply(C& c, const A& a, const B& b) {
    RF_UNROLL
    for (uint32_t i = 0; i < kPerLane; i++) {
      RF_UNROLL
      for (int k = 0; k < 16; k++) c.v[i] += a.k[k] * to_f32(b.rows[i * b.stride + k]);
    }
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
