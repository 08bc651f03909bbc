#pragma once
// NVIDIA's mma.sync.m16n8k16, twice for sixteen columns. With g = lane / 4 and t = lane % 4:
//
//   A: four registers of two elements   (g, 2t) (g + 8, 2t) (g, 2t + 8) (g + 8, 2t + 8)
//   B: two registers for each half of the columns   (k 2t, column g) (k 2t + 8, column g)
//   C: four floats for each half                    (g, 2t) (g, 2t + 1) (g + 8, 2t) (g + 8, 2t + 1)

#include "gpu/fragment/emulated.h"
#include "gpu/fragment/packed_tile.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

template <class T>
struct MmaFragment {
  using Element = T;
  static constexpr bool kHasMatrixUnit = true;
  static constexpr uint32_t kPerLane = 8;

  struct A {
    uint32_t r[4];
  };
  struct B {
    uint32_t r[4];  // columns 0 .. 7, then 8 .. 15
  };
  struct C {
    float v[8];
  };

  RF_DEVICE static uint32_t row(uint32_t i) { return lane() / 4 + i % 4 / 2 * 8; }
  RF_DEVICE static uint32_t column(uint32_t i) { return i / 4 * 8 + lane() % 4 * 2 + i % 2; }

  RF_DEVICE static uint32_t pair(const T* at) { return *reinterpret_cast<const uint32_t*>(at); }
  RF_DEVICE static void load_a(A& a, const T* tile, uint32_t stride) {
    const T* at = tile + lane() / 4 * stride + lane() % 4 * 2;
    a.r[0] = pair(at);
    a.r[1] = pair(at + 8 * stride);
    a.r[2] = pair(at + 8);
    a.r[3] = pair(at + 8 * stride + 8);
  }
  RF_DEVICE static void load_b(B& b, const T* tile, uint32_t stride) {
    const T* at = tile + lane() / 4 * stride + lane() % 4 * 2;
    b.r[0] = pair(at);
    b.r[1] = pair(at + 8);
    b.r[2] = pair(at + 8 * stride);
    b.r[3] = pair(at + 8 * stride + 8);
  }

  // Of rows g and g + 8: columns 8t .. 8t + 7.
  static constexpr TileOrder kOrder = TileOrder::by_row;
  struct Operand {
    Word4 chunks[2];
  };
  RF_DEVICE static void load(Operand& o, const Word4* tile) {
    o.chunks[0] = tile[lane()];
    o.chunks[1] = tile[lane() + 32];
  }
  // A column of the instruction is another of the tile, the same one in both operands.
  RF_DEVICE static void multiply(C& c, const Operand& a, const Operand& b) {
    RF_UNROLL
    for (uint32_t s = 0; s < 4; s += 2) {
      const auto &a0 = a.chunks[0].v, &a1 = a.chunks[1].v, &b0 = b.chunks[0].v, &b1 = b.chunks[1].v;
      multiply(c, A{{a0[s], a1[s], a0[s + 1], a1[s + 1]}}, B{{b0[s], b0[s + 1], b1[s], b1[s + 1]}});
    }
  }

  static constexpr uint32_t kRowLanes = 4, kLaneRows = 2;
  using Held = Operand;
  RF_DEVICE static uint32_t row_lane() { return lane() % 4; }
  RF_DEVICE static uint32_t lane_row(uint32_t i) { return lane() / 4 + 8 * i; }
  RF_DEVICE static void hold(Held& h, uint32_t i, uint32_t, const Word4& chunk) { h.chunks[i] = chunk; }
  RF_DEVICE static uint32_t held_row(uint32_t i) { return row(i); }
  RF_DEVICE static uint32_t held_column(uint32_t i) { return column(i); }

#if defined(__CUDACC__)
  RF_DEVICE static void multiply(C& c, const A& a, const B& b) {
    for (int half = 0; half < 2; half++) {
      float* v = c.v + 4 * half;
      const uint32_t* r = b.r + 2 * half;
      if constexpr (__is_same(T, F16)) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(v[0]), "+f"(v[1]), "+f"(v[2]), "+f"(v[3])
            : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(r[0]), "r"(r[1]));
      } else {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(v[0]), "+f"(v[1]), "+f"(v[2]), "+f"(v[3])
            : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(r[0]), "r"(r[1]));
      }
    }
  }
#else
  static void multiply(C& c, const A& a, const B& b) {
    emulate_multiply<MmaFragment>(
        c, a, b, [](uint32_t m, uint32_t k) { return Place{m % 8 * 4 + k % 8 / 2, (k / 8 * 2 + m / 8) * 2 + k % 2}; },
        [](uint32_t n, uint32_t k) { return Place{n % 8 * 4 + k % 8 / 2, (n / 8 * 2 + k / 8) * 2 + k % 2}; });
  }
#endif
};

}  // namespace rocmforge::gpu::RF_KERNELS
