#pragma once
// AMD's MFMA 16x16x16 of gfx90a and gfx942 (waves of 64): lane l holds k = 4 (l / 16) .. + 3 of row l % 16 of A and of
// B. Element i of C is at row 4 (l / 16) + i, column l % 16.

#include "gpu/fragment/emulated.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

template <class T>
struct MfmaFragment {
  using Element = T;
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

#if defined(__HIP__)
  RF_DEVICE static void multiply(C& c, const A& a, const B& b) {
    typedef float Float4 __attribute__((ext_vector_type(4)));
    Float4 sum = __builtin_bit_cast(Float4, c);
    if constexpr (__is_same(T, F16)) {
      typedef _Float16 Half4 __attribute__((ext_vector_type(4)));
      sum = __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(Half4, a), __builtin_bit_cast(Half4, b), sum, 0, 0,
                                                  0);
    } else {
      typedef short Short4 __attribute__((ext_vector_type(4)));
      sum = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(Short4, a), __builtin_bit_cast(Short4, b), sum,
                                                      0, 0, 0);
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
