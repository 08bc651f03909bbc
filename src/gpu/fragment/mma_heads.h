#pragma once
// Attention of up to eight query heads by NVIDIA's mma.sync.m16n8k16, straight from cached halves in registers: heads
// are the columns; sixteen positions at a time are the rows (for scores) or the k dimension (for sums).
//
// With g = lane / 4 and t = lane % 4 the instruction holds
//
//   A   (g, 2t) (g + 8, 2t) (g, 2t + 8) (g + 8, 2t + 8), two neighbours along k each
//   B   (k 2t, column g) (k 2t + 8, column g), likewise
//   C   (g, 2t) (g, 2t + 1) (g + 8, 2t) (g + 8, 2t + 1)
//
// The order of a sum's terms and the order of the result's rows are free. So a lane reads eight neighbouring halves and
// uses them as the elements that the instruction assigns to the lane; the other factor is read with the same
// permutation:
//
//   scores  rows: positions. k: elements 32 b + 8 t + 4 s + (0 1 | 2 3) for k = 2t, 2t + 1 | 2t + 8, 2t + 9 of step s
//   sums    k: positions. Rows g and g + 8 of tile m: elements 64 b + 8 g + 2 m and the next

#include "gpu/fragment/emulated.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

struct MmaHeads {
  using Element = F16;
  static constexpr uint32_t kHeads = 8;
  static constexpr uint32_t kPositions = 16;
  static constexpr uint32_t kPerLane = 4;

  struct A {
    uint32_t r[4];
  };
  struct B {
    uint32_t r[2];
  };
  struct C {
    float v[4];
  };
  RF_DEVICE static uint32_t row(uint32_t i) { return lane() / 4 + i / 2 * 8; }
  RF_DEVICE static uint32_t column(uint32_t i) { return lane() % 4 * 2 + i % 2; }

  // First of the eight elements (of 32) that a lane reads of each position, and of each query.
  RF_DEVICE static uint32_t key_element() { return lane() % 4 * 8; }
  RF_DEVICE static uint32_t key_position(uint32_t i) { return lane() / 4 + i * 8; }  // i < 2
  RF_DEVICE static uint32_t query_head() { return lane() / 4; }
  // Two k steps; `keys` are the lane's two positions.
  RF_DEVICE static void multiply_keys(C& c, const Word4 keys[2], const Word4& query) {
    RF_UNROLL
    for (uint32_t s = 0; s < 2; s++) {
      multiply(c, {{keys[0].v[2 * s], keys[1].v[2 * s], keys[0].v[2 * s + 1], keys[1].v[2 * s + 1]}},
               {{query.v[2 * s], query.v[2 * s + 1]}});
    }
  }

  // First of the eight elements (of 64) that a lane reads of each of four positions.
  RF_DEVICE static uint32_t value_element() { return lane() / 4 * 8; }
  RF_DEVICE static uint32_t value_position(uint32_t i) { return lane() % 4 * 2 + i % 2 + i / 2 * 8; }  // i < 4
  // Four tiles of sixteen elements.
  RF_DEVICE static void multiply_values(C sums[4], const Word4 values[4], const B& weights) {
    RF_UNROLL
    for (uint32_t m = 0; m < 4; m++) {
      multiply(sums[m],
               {{low_halves(values[0].v[m], values[1].v[m]), high_halves(values[0].v[m], values[1].v[m]),
                 low_halves(values[2].v[m], values[3].v[m]), high_halves(values[2].v[m], values[3].v[m])}},
               weights);
    }
  }
  // Which of a lane's eight elements sums[m].v[i] belongs to, for the head column(i).
  RF_DEVICE static uint32_t element(uint32_t m, uint32_t i) { return 2 * m + i / 2; }

  // Two halves in a register, as queries hold them.
  RF_DEVICE static uint32_t both(float a, float b) {
    return narrow(a).bits | static_cast<uint32_t>(narrow(b).bits) << 16;
  }

  // Softmax weights in the layout of scores, transposed so that positions run along k.
  RF_DEVICE static B turned(const C& weights) {
    return {{turn(both(weights.v[0], weights.v[1])), turn(both(weights.v[2], weights.v[3]))}};
  }

 private:
  RF_DEVICE static uint32_t low_halves(uint32_t a, uint32_t b) { return (a & 0xFFFF) | b << 16; }
  RF_DEVICE static uint32_t high_halves(uint32_t a, uint32_t b) { return a >> 16 | (b & 0xFFFF0000); }

#if defined(__CUDACC__)
  RF_DEVICE static void multiply(C& c, const A& a, const B& b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c.v[0]), "+f"(c.v[1]), "+f"(c.v[2]), "+f"(c.v[3])
        : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[0]), "r"(b.r[1]));
  }
  // Transposes an 8 x 8 matrix of halves; each lane holds two elements, of row g at 2t.
  RF_DEVICE static uint32_t turn(uint32_t v) {
    uint32_t out;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(v));
    return out;
  }
#else
  static void multiply(C& c, const A& a, const B& b) {
    emulate_multiply<MmaHeads>(
        c, a, b, [](uint32_t m, uint32_t k) { return Place{m % 8 * 4 + k % 8 / 2, (k / 8 * 2 + m / 8) * 2 + k % 2}; },
        [](uint32_t n, uint32_t k) { return Place{n * 4 + k % 8 / 2, k / 8 * 2 + k % 2}; });
  }
  static uint32_t turn(uint32_t v) {
    const uint32_t g = lane() / 4, t = lane() % 4, shift = g % 2 * 16;
    const uint32_t first = shuffle(v, 2 * t * 4 + g / 2), second = shuffle(v, (2 * t + 1) * 4 + g / 2);
    return (first >> shift & 0xFFFF) | (second >> shift & 0xFFFF) << 16;
  }
#endif
};

}  // namespace rocmforge::gpu::RF_KERNELS
