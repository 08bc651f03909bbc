// Vector instructions of integers.

#include <algorithm>

#include "gpu/isa/lanes.h"

namespace rocmforge::gpu::isa {
namespace {

using U = uint32_t;
using D = uint64_t;

U low24(U a) {
  return a & 0xFFFFFF;
}
U signed24(U a) {
  return static_cast<U>(as_signed(a << 8) >> 8);
}
U high_signed(U a, U b) {
  return static_cast<U>(static_cast<D>(int64_t{as_signed(a)} * as_signed(b)) >> 32);
}
template <class T>
U middle(U a, U b, U c) {
  const T x = static_cast<T>(a), y = static_cast<T>(b), z = static_cast<T>(c);
  return static_cast<U>(std::max(std::min(x, y), std::min(std::max(x, y), z)));
}
U leading_zeros(U a) {
  return a == 0 ? ~0u : static_cast<U>(std::countl_zero(a));
}
U trailing_zeros(U a) {
  return a == 0 ? ~0u : static_cast<U>(std::countr_zero(a));
}
U bit_field(U a, U at, U n) {
  return (n & 31) == 0 ? 0 : a >> (at & 31) & ((1u << (n & 31)) - 1);
}
U signed_bit_field(U a, U at, U n) {
  n &= 31;
  return n == 0 ? 0 : static_cast<U>(as_signed(bit_field(a, at, n) << (32 - n)) >> (32 - n));
}
U reversed(U a) {
  U r = 0;
  for (U k = 0; k < 32; k++) r |= (a >> k & 1) << (31 - k);
  return r;
}
U perm(U a, U b, U select) {
  const D data = static_cast<D>(a) << 32 | b;
  U r = 0;
  for (U k = 0; k < 4; k++) {
    const U s = select >> 8 * k & 255;
    D byte = 0;
    if (s >= 13)
      byte = 255;
    else if (s >= 8 && s < 12)
      byte = (data >> (16 * (s - 8) + 15) & 1) != 0 ? 255 : 0;
    else if (s < 8)
      byte = data >> 8 * s & 255;
    r |= static_cast<U>(byte) << 8 * k;
  }
  return r;
}

// Sums and differences of words, which `clamp` keeps from wrapping.
template <auto kF, auto kClamped>
void clamping(Wave& w, const Instruction& i) {
  i.clamp ? words2<kClamped>(w, i) : words2<kF>(w, i);
}
template <auto kF, auto kClamped>
constexpr Entry kClamping2 = {clamping<kF, kClamped>, kOutputModifiers | kSdwa};
U clamped_sum(U a, U b) {
  return a + b < a ? ~0u : a + b;
}
U clamped_difference(U a, U b) {
  return a > b ? a - b : 0;
}

// ---- 64 bits ----

void put64(Wave& w, const Operand& o, U lane, D value) {
  w.at(o.index, lane) = static_cast<U>(value);
  w.at(o.index + 1u, lane) = static_cast<U>(value >> 32);
}
U lane32(const Wave& w, const Operand& o, U lane) {
  return o.kind == OperandKind::vector ? w.at(o.index, lane) : w.scalar(o);
}
template <auto kF>
void shift64(Wave& w, const Instruction& i) {  // by the first source
  each_lane(w, [&](U l) { put64(w, i.o[0], l, kF(w.lane64(i.o[2], l), lane32(w, i.o[1], l) & 63)); });
}
void v_mov_b64(Wave& w, const Instruction& i) {
  each_lane(w, [&](U l) { put64(w, i.o[0], l, w.lane64(i.o[1], l)); });
}
void v_lshl_add_u64(Wave& w, const Instruction& i) {
  each_lane(
      w, [&](U l) { put64(w, i.o[0], l, (w.lane64(i.o[1], l) << (lane32(w, i.o[2], l) & 7)) + w.lane64(i.o[3], l)); });
}
void v_mad_u64_u32(Wave& w, const Instruction& i) {  // dst, carry, a, b, c
  D carry = 0;
  each_lane(w, [&](U l) {
    const D product = static_cast<D>(lane32(w, i.o[2], l)) * lane32(w, i.o[3], l);
    const D sum = product + w.lane64(i.o[4], l);
    if (sum < product) carry |= D{1} << l;
    put64(w, i.o[0], l, sum);
  });
  w.set_mask(i.o[1].index, carry);
}

// dst, carry out, a, b[, carry in]
template <bool kSubtracts, bool kReversed, bool kTakesCarry>
void with_carry(Wave& w, const Instruction& i) {
  const D in = kTakesCarry ? w.mask(i.o[4]) : 0;
  D out = 0;
  for (U h = 0; h < w.n_halves; h++) {
    Lanes ra, rb, r;
    const U *a = w.lanes(i.o[2], h, ra), *b = w.lanes(i.o[3], h, rb);
    U carries = 0;
    for (U l = 0; l < kHalf; l++) {
      const D x = kReversed ? b[l] : a[l], y = kReversed ? a[l] : b[l], c = in >> (h * kHalf + l) & 1;
      const D t = kSubtracts ? x - y - c : x + y + c;
      r[l] = static_cast<U>(t);
      carries |= static_cast<U>(t >> 32 & 1) << l;
    }
    put(w, h, w.reg(i.o[0].index, h), [&](U l) { return r[l]; });
    out |= static_cast<D>(carries & w.exec(h)) << h * kHalf;
  }
  w.set_mask(i.o[1].index, out);
}
void v_swap_b32(Wave& w, const Instruction& i) {
  each_lane(w, [&](U l) { std::swap(w.at(i.o[0].index, l), w.at(i.o[1].index, l)); });
}
void v_cndmask_b32(Wave& w, const Instruction& i) {  // dst, a, b[, mask]
  const D mask = i.n_operands > 3 ? w.mask(i.o[3]) : w.mask(kVcc);
  for (U h = 0; h < w.n_halves; h++) {
    Lanes ra, rb;
    const U *a = w.lanes(i.o[1], h, ra), *b = w.lanes(i.o[2], h, rb);
    const U of_half = static_cast<U>(mask >> h * kHalf);
    put(w, h, w.reg(i.o[0].index, h), [&](U l) { return (of_half >> l & 1) != 0 ? b[l] : a[l]; });
  }
}

// ---- 16 bits ----

U mad16(U a, U b, U c) {
  return a * b + c;
}
template <bool kClears>
void v_mad_u16(Wave& w, const Instruction& i) {
  for (U h = 0; h < w.n_halves; h++) {
    Lanes ra, rb, rc;
    const U *a = w.lanes(i.o[1], h, ra), *b = w.lanes(i.o[2], h, rb), *c = w.lanes(i.o[3], h, rc);
    U* to = w.reg(i.o[0].index, h);
    put(w, h, to, [&](U l) { return (kClears ? 0 : to[l] & 0xFFFF0000u) | (mad16(a[l], b[l], c[l]) & 0xFFFF); });
  }
}

// Four products of bytes; neg_lo says which source's are signed.
void v_dot4_i32_iu8(Wave& w, const Instruction& i) {
  const bool a_signed = (i.neg_lo & 1) != 0, b_signed = (i.neg_lo & 2) != 0;
  const auto widen = [](U v, U k, bool is_signed) {
    const U byte = v >> 8 * k & 255;
    return is_signed ? static_cast<int32_t>(static_cast<int8_t>(byte)) : static_cast<int32_t>(byte);
  };
  for (U h = 0; h < w.n_halves; h++) {
    Lanes ra, rb, rc;
    const U *a = w.lanes(i.o[1], h, ra), *b = w.lanes(i.o[2], h, rb), *c = w.lanes(i.o[3], h, rc);
    put(w, h, w.reg(i.o[0].index, h), [&](U l) {
      U sum = c[l];
      for (U k = 0; k < 4; k++) sum += static_cast<U>(widen(a[l], k, a_signed) * widen(b[l], k, b_signed));
      return sum;
    });
  }
}
U dot4_signed(U a, U b, U c) {
  for (U k = 0; k < 4; k++) c += static_cast<U>(static_cast<int8_t>(a >> 8 * k) * static_cast<int8_t>(b >> 8 * k));
  return c;
}
void v_dot4c_i32_i8(Wave& w, const Instruction& i) {  // the destination is the third source
  for (U h = 0; h < w.n_halves; h++) {
    Lanes ra, rb;
    const U *a = w.lanes(i.o[1], h, ra), *b = w.lanes(i.o[2], h, rb);
    U* to = w.reg(i.o[0].index, h);
    put(w, h, to, [&](U l) { return dot4_signed(a[l], b[l], to[l]); });
  }
}

// Half words, double words, carries and dot products.
void add_other_widths(Table& t) {
  t["v_add_u16"] = t["v_add_nc_u16"] = kHalf2<([](U a, U b) { return a + b; })>;
  t["v_sub_u16"] = t["v_sub_nc_u16"] = kHalf2<([](U a, U b) { return a - b; })>;
  t["v_mul_lo_u16"] = kHalf2<([](U a, U b) { return a * b; })>;
  t["v_lshrrev_b16"] = kHalf2<([](U a, U b) { return b >> (a & 15); })>;
  t["v_lshlrev_b16"] = kHalf2<([](U a, U b) { return b << (a & 15); })>;
  t["v_ashrrev_i16"] = kHalf2<([](U a, U b) { return static_cast<U>(static_cast<int16_t>(b) >> (a & 15)); })>;
  t["v_mad_u16"] = {v_mad_u16<false>};
  t["v_mad_legacy_u16"] = {v_mad_u16<true>};
  t["v_lshlrev_b64"] = {shift64<([](D a, U n) { return a << n; })>};
  t["v_lshrrev_b64"] = {shift64<([](D a, U n) { return a >> n; })>};
  t["v_ashrrev_i64"] = {shift64<([](D a, U n) { return static_cast<D>(static_cast<int64_t>(a) >> n); })>};
  t["v_mov_b64"] = {v_mov_b64};
  t["v_lshl_add_u64"] = {v_lshl_add_u64};
  t["v_mad_u64_u32"] = t["v_mad_co_u64_u32"] = {v_mad_u64_u32};
  t["v_add_co_u32"] = {with_carry<false, false, false>};
  t["v_add_co_ci_u32"] = t["v_addc_co_u32"] = {with_carry<false, false, true>};
  t["v_sub_co_u32"] = {with_carry<true, false, false>};
  t["v_sub_co_ci_u32"] = t["v_subb_co_u32"] = {with_carry<true, false, true>};
  t["v_subrev_co_u32"] = {with_carry<true, true, false>};
  t["v_subrev_co_ci_u32"] = t["v_subbrev_co_u32"] = {with_carry<true, true, true>};
  t["v_cndmask_b32"] = {v_cndmask_b32, kSdwa};
  t["v_dot4_i32_iu8"] = {v_dot4_i32_iu8, kPacked};
  t["v_dot4_i32_i8"] = kWord3<dot4_signed>;
  t["v_dot4c_i32_i8"] = {v_dot4c_i32_i8};
}

}  // namespace

void add_integers(Table& t) {
  t["v_mov_b32"] = t["v_accvgpr_read_b32"] = t["v_accvgpr_write_b32"] = t["v_accvgpr_mov_b32"] =
      kWord1<([](U a) { return a; })>;
  t["v_not_b32"] = kWord1<([](U a) { return ~a; })>;
  t["v_bfrev_b32"] = kWord1<reversed>;
  t["v_and_b32"] = kWord2<([](U a, U b) { return a & b; })>;
  t["v_or_b32"] = kWord2<([](U a, U b) { return a | b; })>;
  t["v_xor_b32"] = kWord2<([](U a, U b) { return a ^ b; })>;
  t["v_xnor_b32"] = kWord2<([](U a, U b) { return ~(a ^ b); })>;
  t["v_lshlrev_b32"] = kWord2<([](U a, U b) { return b << (a & 31); })>;
  t["v_lshrrev_b32"] = kWord2<([](U a, U b) { return b >> (a & 31); })>;
  t["v_ashrrev_i32"] = kWord2<([](U a, U b) { return static_cast<U>(as_signed(b) >> (a & 31)); })>;
  t["v_add_nc_u32"] = t["v_add_u32"] = kClamping2<([](U a, U b) { return a + b; }), clamped_sum>;
  t["v_sub_nc_u32"] = t["v_sub_u32"] = kClamping2<([](U a, U b) { return a - b; }), clamped_difference>;
  t["v_subrev_nc_u32"] = t["v_subrev_u32"] =
      kClamping2<([](U a, U b) { return b - a; }), ([](U a, U b) { return clamped_difference(b, a); })>;
  t["v_mul_lo_u32"] = kWord2<([](U a, U b) { return a * b; })>;
  t["v_mul_hi_u32"] = kWord2<([](U a, U b) { return static_cast<U>(static_cast<D>(a) * b >> 32); })>;
  t["v_mul_u32_u24"] = kWord2<([](U a, U b) { return low24(a) * low24(b); })>;
  t["v_mul_hi_u32_u24"] = kWord2<([](U a, U b) { return static_cast<U>(static_cast<D>(low24(a)) * low24(b) >> 32); })>;
  t["v_bcnt_u32_b32"] = kWord2<([](U a, U b) { return static_cast<U>(std::popcount(a)) + b; })>;
  t["v_max_u32"] = kWord2<([](U a, U b) { return a > b ? a : b; })>;
  t["v_min_u32"] = kWord2<([](U a, U b) { return a < b ? a : b; })>;
  t["v_max_i32"] = kWord2<([](U a, U b) { return as_signed(a) > as_signed(b) ? a : b; })>;
  t["v_min_i32"] = kWord2<([](U a, U b) { return as_signed(a) < as_signed(b) ? a : b; })>;
  t["v_max3_u32"] = kWord3<([](U a, U b, U c) { return std::max({a, b, c}); })>;
  t["v_min3_u32"] = kWord3<([](U a, U b, U c) { return std::min({a, b, c}); })>;
  t["v_max3_i32"] =
      kWord3<([](U a, U b, U c) { return static_cast<U>(std::max({as_signed(a), as_signed(b), as_signed(c)})); })>;
  t["v_min3_i32"] =
      kWord3<([](U a, U b, U c) { return static_cast<U>(std::min({as_signed(a), as_signed(b), as_signed(c)})); })>;
  t["v_and_or_b32"] = kWord3<([](U a, U b, U c) { return (a & b) | c; })>;
  t["v_or3_b32"] = kWord3<([](U a, U b, U c) { return a | b | c; })>;
  t["v_xor3_b32"] = kWord3<([](U a, U b, U c) { return a ^ b ^ c; })>;
  t["v_xad_u32"] = kWord3<([](U a, U b, U c) { return (a ^ b) + c; })>;
  t["v_add3_u32"] = kWord3<([](U a, U b, U c) { return a + b + c; })>;
  t["v_lshl_or_b32"] = kWord3<([](U a, U b, U c) { return a << (b & 31) | c; })>;
  t["v_lshl_add_u32"] = kWord3<([](U a, U b, U c) { return (a << (b & 31)) + c; })>;
  t["v_add_lshl_u32"] = kWord3<([](U a, U b, U c) { return (a + b) << (c & 31); })>;
  t["v_mul_i32_i24"] = kWord2<([](U a, U b) { return signed24(a) * signed24(b); })>;
  t["v_mul_hi_i32"] = kWord2<high_signed>;
  t["v_mad_i32_i24"] = kWord3<([](U a, U b, U c) { return signed24(a) * signed24(b) + c; })>;
  t["v_med3_i32"] = kWord3<middle<int32_t>>;
  t["v_med3_u32"] = kWord3<middle<U>>;
  t["v_clz_i32_u32"] = t["v_ffbh_u32"] = kWord1<leading_zeros>;
  t["v_ctz_i32_b32"] = t["v_ffbl_b32"] = kWord1<trailing_zeros>;
  t["v_alignbyte_b32"] =
      kWord3<([](U a, U b, U c) { return static_cast<U>((static_cast<D>(a) << 32 | b) >> 8 * (c & 3)); })>;
  t["v_swap_b32"] = {v_swap_b32};
  t["v_mad_u32_u24"] = kWord3<([](U a, U b, U c) { return low24(a) * low24(b) + c; })>;
  t["v_bfe_u32"] = kWord3<bit_field>;
  t["v_bfe_i32"] = kWord3<signed_bit_field>;
  t["v_bfi_b32"] = kWord3<([](U a, U b, U c) { return (a & b) | (~a & c); })>;
  t["v_perm_b32"] = kWord3<perm>;
  t["v_alignbit_b32"] =
      kWord3<([](U a, U b, U c) { return static_cast<U>((static_cast<D>(a) << 32 | b) >> (c & 31)); })>;
  add_other_widths(t);
}

}  // namespace rocmforge::gpu::isa
