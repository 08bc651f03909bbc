#pragma once
// AMD's WMMA of gfx12 (waves of 32): lane l holds k = 8 (l / 16) .. + 7 of row l % 16 of A and of B.
// Element i of C is at row 8 (l / 16) + i, column l % 16.

#include "gpu/fragment/emulated.h"
#include "gpu/fragment/packed_tile.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

template <class T>
struct Gfx12Fragment {
  using Element = T;
  static constexpr bool kHasMatrixUnit = true;
  static constexpr uint32_t kPerLane = 8;

  struct A {
    uint32_t r[4];
  };
  using B = A;
  struct C {
    float v[8];
  };

  RF_DEVICE static uint32_t row(uint32_t i) { return lane() / 16 * 8 + i; }
  RF_DEVICE static uint32_t column(uint32_t) { return lane() % 16; }

  RF_DEVICE static void load_a(A& a, const T* tile, uint32_t stride) {
    const auto* at = reinterpret_cast<const uint32_t*>(tile + lane() % 16 * stride + lane() / 16 * 8);
    for (int i = 0; i < 4; i++) a.r[i] = at[i];
  }
  RF_DEVICE static void load_b(B& b, const T* tile, uint32_t stride) { load_a(b, tile, stride); }

  static constexpr TileOrder kOrder = TileOrder::by_column;
  struct Operand {
    Word4 chunks[2];
  };
  RF_DEVICE static void load(Operand& o, const Word4* tile) {
    o.chunks[0] = tile[lane()];
    o.chunks[1] = tile[lane() + 32];
  }
  RF_DEVICE static void multiply(C& c, const Operand& a, const Operand& b) {
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
      const auto &x = a.chunks[i].v, &y = b.chunks[i].v;
      multiply(c, A{{x[0], x[1], x[2], x[3]}}, B{{y[0], y[1], y[2], y[3]}});
    }
  }

  static constexpr uint32_t kRowLanes = 2, kLaneRows = 1;
  using Held = Operand;
  RF_DEVICE static uint32_t row_lane() { return lane() / 16; }
  RF_DEVICE static uint32_t lane_row(uint32_t) { return lane() % 16; }
  RF_DEVICE static void hold(Held& h, uint32_t, uint32_t j, const Word4& chunk) { h.chunks[j] = chunk; }
  RF_DEVICE static uint32_t held_row(uint32_t i) { return row(i); }
  RF_DEVICE static uint32_t held_column(uint32_t i) { return column(i); }

#if defined(__HIP__)
  RF_DEVICE static void multiply(C& c, const A& a, const B& b) {
    typedef float Float8 __attribute__((ext_vector_type(8)));
    Float8 sum = __builtin_bit_cast(Float8, c);
    if constexpr (__is_same(T, F16)) {
      typedef _Float16 Half8 __attribute__((ext_vector_type(8)));
      sum = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(__builtin_bit_cast(Half8, a), __builtin_bit_cast(Half8, b),
                                                             sum);
    } else {
      typedef short Short8 __attribute__((ext_vector_type(8)));
      sum = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(__builtin_bit_cast(Short8, a),
                                                              __builtin_bit_cast(Short8, b), sum);
    }
    c = __builtin_bit_cast(C, sum);
  }
#else
  static void multiply(C& c, const A& a, const B& b) {
    const auto place = [](uint32_t m, uint32_t k) { return Place{m + k / 8 * 16, k % 8}; };
    emulate_multiply<Gfx12Fragment>(c, a, b, place, place);
  }
#endif
};

}  // namespace rocmforge::gpu::RF_KERNELS
