#pragma once
// AMD's WMMA of gfx11 (waves of 32): lane l holds the whole row l % 16 of A and of B, so each row is held twice.
// Element i of C is at row 2 i + l / 16, column l % 16.

#include "gpu/fragment/emulated.h"
#include "gpu/fragment/packed_tile.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

template <class T>
struct Gfx11Fragment {
  using Element = T;
  static constexpr bool kHasMatrixUnit = true;
  static constexpr uint32_t kPerLane = 8;

  struct A {
    uint32_t r[8];
  };
  using B = A;
  struct C {
    float v[8];
  };

  RF_DEVICE static uint32_t row(uint32_t i) { return 2 * i + lane() / 16; }
  RF_DEVICE static uint32_t column(uint32_t) { return lane() % 16; }

  RF_DEVICE static void load_a(A& a, const T* tile, uint32_t stride) {
    const auto* at = reinterpret_cast<const uint32_t*>(tile + lane() % 16 * stride);
    for (int i = 0; i < 8; i++) a.r[i] = at[i];
  }
  RF_DEVICE static void load_b(B& b, const T* tile, uint32_t stride) { load_a(b, tile, stride); }

  static constexpr TileOrder kOrder = TileOrder::by_column;
  struct Operand {
    Word4 chunks[4];
  };
  RF_DEVICE static void load(Operand& o, const Word4* tile) {
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) o.chunks[i] = tile[16 * i + lane() % 16];
  }
  RF_DEVICE static void multiply(C& c, const Operand& a, const Operand& b) {
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i += 2) multiply(c, sixteen(a, i), sixteen(b, i));
  }
  RF_DEVICE static A sixteen(const Operand& o, uint32_t i) {
    const auto &first = o.chunks[i].v, &second = o.chunks[i + 1].v;
    return {{first[0], first[1], first[2], first[3], second[0], second[1], second[2], second[3]}};
  }

  static constexpr uint32_t kRowLanes = 1, kLaneRows = 1;
  using Held = Operand;
  RF_DEVICE static uint32_t row_lane() { return 0; }
  RF_DEVICE static uint32_t lane_row(uint32_t) { return lane() % 16; }
  RF_DEVICE static void hold(Held& h, uint32_t, uint32_t j, const Word4& chunk) { h.chunks[j] = chunk; }
  RF_DEVICE static uint32_t held_row(uint32_t i) { return row(i); }
  RF_DEVICE static uint32_t held_column(uint32_t i) { return column(i); }

#if defined(__HIP__)
  RF_DEVICE static void multiply(C& c, const A& a, const B& b) {
    typedef float Float8 __attribute__((ext_vector_type(8)));
    Float8 sum = __builtin_bit_cast(Float8, c);
    if constexpr (__is_same(T, F16)) {
      typedef _Float16 Half16 __attribute__((ext_vector_type(16)));
      sum =
          __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(__builtin_bit_cast(Half16, a), __builtin_bit_cast(Half16, b), sum);
    } else {
      typedef short Short16 __attribute__((ext_vector_type(16)));
      sum = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(__builtin_bit_cast(Short16, a), __builtin_bit_cast(Short16, b),
                                                        sum);
    }
    c = __builtin_bit_cast(C, sum);
  }
#else
  static void multiply(C& c, const A& a, const B& b) {
    const auto place = [](uint32_t m, uint32_t k) { return Place{m, k}; };
    emulate_multiply<Gfx11Fragment>(c, a, b, place, place);
  }
#endif
};

}  // namespace rocmforge::gpu::RF_KERNELS
