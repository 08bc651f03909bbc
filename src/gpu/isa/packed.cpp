// Instructions of two values at once: halves of a register, or two registers.

#include <algorithm>

#include "gpu/isa/lanes.h"

namespace rocmforge::gpu::isa {
namespace {

// Which half of source k makes the lower or the upper half of the result.
uint32_t half_of(const Instruction& i, uint32_t k, uint32_t word, bool upper) {
  const uint8_t select = upper ? i.op_sel_hi : i.op_sel;
  return ((select >> k & 1) != 0 ? word >> 16 : word) & 0xFFFF;
}

template <auto kF>
void packed16(Wave& w, const Instruction& i) {
  for (uint32_t h = 0; h < w.n_halves; h++) {
    Lanes ra, rb;
    const uint32_t *a = w.lanes(i.o[1], h, ra), *b = w.lanes(i.o[2], h, rb);
    put(w, h, w.reg(i.o[0].index, h), [&](uint32_t l) {
      const uint32_t low = kF(half_of(i, 0, a[l], false), half_of(i, 1, b[l], false)) & 0xFFFF;
      const uint32_t high = kF(half_of(i, 0, a[l], true), half_of(i, 1, b[l], true)) & 0xFFFF;
      return low | high << 16;
    });
  }
}

// Two halves as floats, rounded once.
template <auto kF, uint32_t kInputs>
void packed_f16(Wave& w, const Instruction& i) {
  for (uint32_t h = 0; h < w.n_halves; h++) {
    Lanes room[3];
    const uint32_t* in[3];
    for (uint32_t k = 0; k < kInputs; k++) in[k] = w.lanes(i.o[k + 1], h, room[k]);
    put(w, h, w.reg(i.o[0].index, h), [&](uint32_t l) {
      uint32_t out = 0;
      for (const bool upper : {false, true}) {
        const auto at = [&](uint32_t k) {
          const double v = f16_to_f32(half_of(i, k, in[k][l], upper));
          return ((upper ? i.neg_hi : i.neg_lo) >> k & 1) != 0 ? -v : v;
        };
        const double exact = [&] {
          if constexpr (kInputs == 2) {
            return kF(at(0), at(1));
          } else {
            return kF(at(0), at(1), at(2));
          }
        }();
        out |= uint32_t{std::bit_cast<uint16_t>(static_cast<_Float16>(exact))} << (upper ? 16 : 0);
      }
      return out;
    });
  }
}

// Two f32 of two registers each.
template <auto kF, uint32_t kInputs>
void packed32(Wave& w, const Instruction& i) {
  for (uint32_t h = 0; h < w.n_halves; h++) {
    Lanes result[2];
    for (uint32_t upper = 0; upper < 2; upper++) {
      Lanes room[kInputs];
      const uint32_t* in[kInputs];
      bool negate[kInputs];
      for (uint32_t k = 0; k < kInputs; k++) {
        const Operand& o = i.o[k + 1];
        const uint32_t word = (upper != 0 ? i.op_sel_hi : i.op_sel) >> k & 1;
        negate[k] = ((upper != 0 ? i.neg_hi : i.neg_lo) >> k & 1) != 0;
        if (o.kind == OperandKind::constant) {
          room[k].fill(o.bits);  // both words
          in[k] = room[k].data();
        } else {
          in[k] = w.lanes(o, h, room[k], 0x80000000u, word);
        }
      }
      const auto at = [&](uint32_t k, uint32_t l) { return negate[k] ? -f32(in[k][l]) : f32(in[k][l]); };
      for (uint32_t l = 0; l < kHalf; l++) {
        if constexpr (kInputs == 2)
          result[upper][l] = b32(kF(at(0, l), at(1, l)));
        else
          result[upper][l] = b32(kF(at(0, l), at(1, l), at(2, l)));
      }
    }
    for (uint32_t upper = 0; upper < 2; upper++) {
      put(w, h, w.reg(i.o[0].index + upper, h), [&](uint32_t l) { return result[upper][l]; });
    }
  }
}

// op_sel names the word of each source, which becomes the word of that number.
void v_pk_mov_b32(Wave& w, const Instruction& i) {
  for (uint32_t h = 0; h < w.n_halves; h++) {
    Lanes room[2], result[2];
    for (uint32_t k = 0; k < 2; k++) {
      const uint32_t* from = w.lanes(i.o[k + 1], h, room[k], 0, i.op_sel >> k & 1);
      std::copy_n(from, kHalf, result[k].begin());
    }
    for (uint32_t k = 0; k < 2; k++) put(w, h, w.reg(i.o[0].index + k, h), [&](uint32_t l) { return result[k][l]; });
  }
}

void v_pack_b32_f16(Wave& w, const Instruction& i) {
  for (uint32_t h = 0; h < w.n_halves; h++) {
    Lanes ra, rb;
    const uint32_t *a = w.lanes(i.o[1], h, ra, 0x8000), *b = w.lanes(i.o[2], h, rb, 0x8000);
    const uint32_t shift_a = (i.op_sel & 1) != 0 ? 16 : 0, shift_b = (i.op_sel & 2) != 0 ? 16 : 0;
    put(w, h, w.reg(i.o[0].index, h),
        [&](uint32_t l) { return (a[l] >> shift_a & 0xFFFF) | (b[l] >> shift_b & 0xFFFF) << 16; });
  }
}

// The destination is the third source: its sum with the product of the lower halves, then with that of the upper ones.
void v_dot2c_f32_f16(Wave& w, const Instruction& i) {
  for (uint32_t h = 0; h < w.n_halves; h++) {
    Lanes ra, rb;
    const uint32_t *a = w.lanes(i.o[1], h, ra), *b = w.lanes(i.o[2], h, rb);
    uint32_t* to = w.reg(i.o[0].index, h);
    put(w, h, to, [&](uint32_t l) {
      const float sum = f32(to[l]) + f16_to_f32(a[l]) * f16_to_f32(b[l]);  // products of halves are exact
      return b32(sum + f16_to_f32(a[l] >> 16) * f16_to_f32(b[l] >> 16));
    });
  }
}

}  // namespace

void add_packed(Table& t) {
  using U = uint32_t;
  t["v_pk_lshrrev_b16"] = {packed16<([](U n, U a) { return a >> (n & 15); })>, kPacked};
  t["v_pk_lshlrev_b16"] = {packed16<([](U n, U a) { return a << (n & 15); })>, kPacked};
  t["v_pk_add_u16"] = {packed16<([](U a, U b) { return a + b; })>, kPacked};
  t["v_pk_sub_i16"] = {packed16<([](U a, U b) { return a - b; })>, kPacked};
  t["v_pk_mul_lo_u16"] = {packed16<([](U a, U b) { return a * b; })>, kPacked};
  t["v_pk_add_f16"] = {packed_f16<([](double a, double b) { return a + b; }), 2>, kPacked};
  t["v_pk_fma_f16"] = {packed_f16<([](double a, double b, double c) { return std::fma(a, b, c); }), 3>, kPacked};
  t["v_pk_add_f32"] = {packed32<([](float a, float b) { return a + b; }), 2>, kPacked};
  t["v_pk_mul_f32"] = {packed32<([](float a, float b) { return a * b; }), 2>, kPacked};
  t["v_pk_fma_f32"] = {packed32<([](float a, float b, float c) { return std::fma(a, b, c); }), 3>, kPacked};
  t["v_dot2c_f32_f16"] = {v_dot2c_f32_f16};
  t["v_pk_mov_b32"] = {v_pk_mov_b32, kPacked};
  t["v_pack_b32_f16"] = {v_pack_b32_f16, kHalves};
}

}  // namespace rocmforge::gpu::isa
