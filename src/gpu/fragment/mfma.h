#pragma once
// AMD's MFMA 16x16x16 of gfx908, gfx90a and gfx942 (waves of 64): lane l holds k = 4 (l / 16) .. + 3 of row l % 16 of A
// and of B. Element i of C is at row 4 (l / 16) + i, column l % 16. On gfx908 bf16 takes two instructions of half the
// depth; both operands are cut alike, so the sum is the same.
//
// gfx90a flushes subnormal inputs and outputs to zero (MIOpen's documentation, "MI200 MFMA behavior specifics"). The
// emulation does not; gpu/isa, which executes gfx90a's machine code, does.

#include "gpu/fragment/emulated.h"
#include "gpu/fragment/packed_tile.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

template <class T>
struct MfmaFragment {
  using Element = T;
  static constexpr bool kHasMatrixUnit = true;
  static constexpr uint32_t kPerLane = 4;

  struct A {
    uint32_t r[2];
  };
  using B = A;
  struct C {
    float v[4];
  };

  RF_DEVICE static uint32_t row(uint32_t i) { return lane() / 16 * 4 + i; }
  RF_DEVICE static uint32_t column(uint32_t) { return lane() % 16; }

  RF_DEVICE static void load_a(A& a, const T* tile, uint32_t stride) {
    const auto* at = reinterpret_cast<const uint32_t*>(tile + lane() % 16 * stride + lane() / 16 * 4);
    a.r[0] = at[0];
    a.r[1] = at[1];
  }
  RF_DEVICE static void load_b(B& b, const T* tile, uint32_t stride) { load_a(b, tile, stride); }

  // Columns 8 (l / 16) .. + 7 of row l % 16.
  static constexpr TileOrder kOrder = TileOrder::by_column;
  struct Operand {
    Word4 chunk;
  };
  RF_DEVICE static void load(Operand& o, const Word4* tile) { o.chunk = tile[lane()]; }
  // A column of the instruction is another of the tile, the same one in both operands.
  RF_DEVICE static void multiply(C& c, const Operand& a, const Operand& b) {
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i += 2) {
      multiply(c, A{{a.chunk.v[i], a.chunk.v[i + 1]}}, B{{b.chunk.v[i], b.chunk.v[i + 1]}});
    }
  }

  static constexpr uint32_t kRowLanes = 4, kLaneRows = 1;
  using Held = Operand;
  RF_DEVICE static uint32_t row_lane() { return lane() / 16; }
  RF_DEVICE static uint32_t lane_row(uint32_t) { return lane() % 16; }
  RF_DEVICE static void hold(Held& h, uint32_t, uint32_t, const Word4& chunk) { h.chunk = chunk; }
  RF_DEVICE static uint32_t held_row(uint32_t i) { return row(i); }
  RF_DEVICE static uint32_t held_column(uint32_t i) { return column(i); }

#if defined(__HIP__)
  RF_DEVICE static void multiply(C& c, const A& a, const B& b) {
    typedef float Float4 __attribute__((ext_vector_type(4)));
    Float4 sum = __builtin_bit_cast(Float4, c);
    if constexpr (__is_same(T, F16)) {
      typedef _Float16 Half4 __attribute__((ext_vector_type(4)));
      sum = __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(Half4, a), __builtin_bit_cast(Half4, b), sum, 0, 0,
                                                  0);
    } else {
#if defined(__gfx908__)
      typedef short Short2 __attribute__((ext_vector_type(2)));
      RF_UNROLL
      for (int half = 0; half < 2; half++) {
        sum = __builtin_amdgcn_mfma_f32_16x16x8bf16(__builtin_bit_cast(Short2, a.r[half]),
                                                    __builtin_bit_cast(Short2, b.r[half]), sum, 0, 0, 0);
      }
#else
      typedef short Short4 __attribute__((ext_vector_type(4)));
      sum = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(Short4, a), __builtin_bit_cast(Short4, b), sum,
                                                      0, 0, 0);
#endif
    }
    c = __builtin_bit_cast(C, sum);
  }
#else
  static void multiply(C& c, const A& a, const B& b) {
    const auto place = [](uint32_t m, uint32_t k) { return Place{m + k / 4 * 16, k % 4}; };
    emulate_multiply<MfmaFragment>(c, a, b, place, place);
  }
#endif
};

}  // namespace rocmforge::gpu::RF_KERNELS
