#pragma once
// Without matrix instructions: lane l holds row l % 16 of A and computes kPerLane neighbouring columns of C. B is not
// copied: its tile must not change before multiply.

#include "gpu/fragment/packed_tile.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

template <class T>
struct PlainFragment {
  using Element = T;
  static constexpr bool kHasMatrixUnit = false;
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

  // Not copied: the tiles must not change before multiply.
  static constexpr TileOrder kOrder = TileOrder::by_column;
  struct Operand {
    const Word4* tile;
  };
  RF_DEVICE static void load(Operand& o, const Word4* tile) { o.tile = tile; }
  RF_DEVICE static void multiply(C& c, const Operand& a, const Operand& b) {
    RF_UNROLL
    for (uint32_t k = 0; k < 4; k++) {
      const Word4 x = a.tile[16 * k + row(0)];
      RF_UNROLL
      for (uint32_t i = 0; i < kPerLane; i++) {
        const Word4 y = b.tile[16 * k + column(i)];
        RF_UNROLL
        for (uint32_t w = 0; w < 4; w++) c.v[i] = add_products(x.v[w], y.v[w], c.v[i]);
      }
    }
  }

  static constexpr uint32_t kRowLanes = 1, kLaneRows = 1;
  struct Held {
    Word4 chunks[4];
  };
  RF_DEVICE static uint32_t row_lane() { return 0; }
  RF_DEVICE static uint32_t lane_row(uint32_t) { return lane() % 16; }
  RF_DEVICE static void hold(Held& h, uint32_t, uint32_t j, const Word4& chunk) { h.chunks[j] = chunk; }
  // The lane's sums are those of the row that it holds.
  RF_DEVICE static uint32_t held_row(uint32_t i) { return column(i); }
  RF_DEVICE static uint32_t held_column(uint32_t i) { return row(i); }
  RF_DEVICE static void multiply(C& c, const Operand& a, const Held& b) {
    RF_UNROLL
    for (uint32_t k = 0; k < 4; k++) {
      RF_UNROLL
      for (uint32_t i = 0; i < kPerLane; i++) {
        const Word4 x = a.tile[16 * k + held_row(i)];
        RF_UNROLL
        for (uint32_t w = 0; w < 4; w++) c.v[i] = add_products(x.v[w], b.chunks[k].v[w], c.v[i]);
      }
    }
  }

  RF_DEVICE static T half_of(uint32_t word, uint32_t i) { return {static_cast<uint16_t>(word >> 16 * i)}; }
  // sum + the products of two elements each.
  RF_DEVICE static float add_products(uint32_t x, uint32_t y, float sum) {
#if defined(__HIP__)
    if constexpr (__is_same(T, F16)) {
      typedef _Float16 Half2 __attribute__((ext_vector_type(2)));
      return __builtin_amdgcn_fdot2(__builtin_bit_cast(Half2, x), __builtin_bit_cast(Half2, y), sum, false);
    }
#endif
    for (uint32_t i = 0; i < 2; i++) sum += to_f32(half_of(x, i)) * to_f32(half_of(y, i));
    return sum;
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
