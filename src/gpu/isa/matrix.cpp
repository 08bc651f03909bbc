// Products of matrices: D = A * B + C, 16 x 16 each. EXEC is ignored. How the hardware rounds between the products is
// not documented; here the sum is exact as far as a double goes, and rounded once.

#include <utility>

#include "gpu/isa/float_rules.h"
#include "gpu/isa/lanes.h"

namespace rocmforge::gpu::isa {
namespace {

constexpr uint32_t kSide = 16;
using Matrix = std::array<std::array<float, kSide>, kSide>;
using Widen = float (*)(uint32_t);

// gfx90a takes denormals for zeros, and makes zeros of them; no other target does.
float as_product(const Wave& w, float v) {
  return w.kernel->target.flushes_products ? flushed(v) : v;
}
template <Widen kWiden>
float element(const Wave& w, uint32_t half) {
  const bool is_denormal = (half & 0x7FFF) < (kWiden == bf16_to_f32 ? 0x80u : 0x400u);
  return is_denormal && w.kernel->target.flushes_products ? 0 : kWiden(half);
}
float added(const Wave& w, const Operand& c, uint32_t r, uint32_t lane) {
  return as_product(w, f32(c.kind == OperandKind::vector ? w.at(c.index + r, lane) : w.scalar(c)));
}

// place(register, lane) is a row and a column of C and D.
template <class Place>
void multiply(Wave& w, const Instruction& i, const Matrix& a, const Matrix& b, uint32_t n_registers, Place place) {
  double sums[kSide][kSide];
  double of_k[kSide][kSide];  // b, by rows of k
  for (uint32_t k = 0; k < kSide; k++) {
    for (uint32_t column = 0; column < kSide; column++) of_k[k][column] = b[column][k];
  }
  for (uint32_t r = 0; r < n_registers; r++) {
    for (uint32_t l = 0; l < w.n_lanes(); l++) {
      const auto [row, column] = place(r, l);
      sums[row][column] = added(w, i.o[3], r, l);
    }
  }
  for (uint32_t row = 0; row < kSide; row++) {
    for (uint32_t k = 0; k < kSide; k++) {
      const double factor = a[row][k];
      for (uint32_t column = 0; column < kSide; column++) sums[row][column] += factor * of_k[k][column];
    }
  }
  std::array<std::array<float, 2 * kHalf>, 8> d;
  for (uint32_t r = 0; r < n_registers; r++) {
    for (uint32_t l = 0; l < w.n_lanes(); l++) {
      const auto [row, column] = place(r, l);
      d[r][l] = as_product(w, static_cast<float>(sums[row][column]));
    }
  }
  for (uint32_t r = 0; r < n_registers; r++) {
    for (uint32_t l = 0; l < w.n_lanes(); l++) w.at(i.o[0].index + r, l) = b32(d[r][l]);
  }
}

// Lane l holds row l of A and column l of B, two elements a register. gfx11: lanes 16 .. 31 have the same again, and a
// register of C holds rows 2 r and 2 r + 1. gfx12: lanes 16 .. 31 hold the odd groups of 8 elements, and the rows
// from 8.
template <Widen kWiden>
void v_wmma(Wave& w, const Instruction& i) {
  const bool is_split = w.generation() >= 12;
  const auto take = [&](const Operand& from) {
    Matrix m;
    for (uint32_t l = 0; l < kSide; l++) {
      for (uint32_t k = 0; k < kSide; k++) {
        const uint32_t lane = is_split && k >= 8 ? l + 16 : l, element = is_split ? k % 8 : k;
        m[l][k] = kWiden(w.at(from.index + element / 2, lane) >> 16 * (element % 2) & 0xFFFF);
      }
    }
    return m;
  };
  const Matrix a = take(i.o[1]), b = take(i.o[2]);
  if (is_split) {
    multiply(w, i, a, b, 8, [](uint32_t r, uint32_t l) { return std::pair(r + 8 * (l / 16), l % 16); });
    return;
  }
  for (uint32_t l = 0; l < kSide; l++) {
    for (uint32_t r = 0; r < 8; r++) {
      for (const uint32_t k : {1, 2}) {
        if (w.at(i.o[k].index + r, l) != w.at(i.o[k].index + r, l + 16)) {
          return w.fail(i, "lanes 16 to 31 hold another matrix than lanes 0 to 15");
        }
      }
    }
  }
  multiply(w, i, a, b, 8, [](uint32_t r, uint32_t l) { return std::pair(2 * r + l / 16, l % 16); });
}

// Lane l holds elements 4 (l / 16) .. 4 (l / 16) + 3 of row l % 16 of A, and of that column of B; register r of C and D
// row 4 (l / 16) + r.
template <Widen kWiden>
void v_mfma(Wave& w, const Instruction& i) {
  const auto take = [&](const Operand& from) {
    Matrix m;
    for (uint32_t l = 0; l < 64; l++) {
      for (uint32_t e = 0; e < 4; e++) {
        m[l % 16][4 * (l / 16) + e] = element<kWiden>(w, w.at(from.index + e / 2, l) >> 16 * (e % 2) & 0xFFFF);
      }
    }
    return m;
  };
  const Matrix a = take(i.o[1]), b = take(i.o[2]);
  multiply(w, i, a, b, 4, [](uint32_t r, uint32_t l) { return std::pair(4 * (l / 16) + r, l % 16); });
}

}  // namespace

void add_matrix(Table& t) {
  t["v_wmma_f32_16x16x16_f16"] = {v_wmma<f16_to_f32>};
  t["v_wmma_f32_16x16x16_bf16"] = {v_wmma<bf16_to_f32>};
  t["v_mfma_f32_16x16x16_f16"] = {v_mfma<f16_to_f32>};
  t["v_mfma_f32_16x16x16f16"] = t["v_mfma_f32_16x16x16_f16"];
  t["v_mfma_f32_16x16x16_bf16"] = t["v_mfma_f32_16x16x16bf16_1k"] = {v_mfma<bf16_to_f32>};
}

}  // namespace rocmforge::gpu::isa
