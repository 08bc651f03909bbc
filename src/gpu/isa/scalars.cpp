// Scalar instructions.

#include "gpu/isa/lanes.h"

namespace rocmforge::gpu::isa {
namespace {

using U = uint32_t;
using D = uint64_t;

// F(a, b, scc) changes scc where the instruction does.
template <auto kF>
void words1(Wave& w, const Instruction& i) {
  w.set(i.o[0], kF(w.scalar(i.o[1]), w.scc));
}
template <auto kF>
void words2(Wave& w, const Instruction& i) {
  w.set(i.o[0], kF(w.scalar(i.o[1]), w.scalar(i.o[2]), w.scc));
}
template <auto kF>
void words_k(Wave& w, const Instruction& i) {  // the destination is the first source
  w.set(i.o[0], kF(w.scalar(i.o[0]), w.scalar(i.o[1]), w.scc));
}
template <auto kF>
void doubles1(Wave& w, const Instruction& i) {
  w.set64(i.o[0], kF(w.scalar64(i.o[1]), w.scc));
}
template <auto kF>
void doubles2(Wave& w, const Instruction& i) {
  w.set64(i.o[0], kF(w.scalar64(i.o[1]), w.scalar64(i.o[2]), w.scc));
}
template <auto kF>
void shifts64(Wave& w, const Instruction& i) {
  w.set64(i.o[0], kF(w.scalar64(i.o[1]), w.scalar(i.o[2]) & 63, w.scc));
}
template <auto kF>
void narrowing(Wave& w, const Instruction& i) {
  w.set(i.o[0], kF(w.scalar64(i.o[1]), w.scc));
}
template <auto kF>
void compare32(Wave& w, const Instruction& i) {
  w.scc = kF(w.scalar(i.o[0]), w.scalar(i.o[1]));
}
template <auto kF>
void compare64(Wave& w, const Instruction& i) {
  w.scc = kF(w.scalar64(i.o[0]), w.scalar64(i.o[1]));
}
// EXEC becomes F(source, EXEC), the destination what EXEC was; both have the size that the name says.
template <auto kF>
void save_exec(Wave& w, const Instruction& i) {
  const D source = w.mask(i.o[1]), old = w.exec();
  w.set_mask(kExec, kF(source, old));
  w.set_mask(i.o[0].index, old);
  w.scc = w.exec() != 0;
}
template <auto kF>
void branch(Wave& w, const Instruction& i) {
  if (kF(w)) w.pc = i.target;
}

void s_cmovk(Wave& w, const Instruction& i) {
  if (w.scc) w.set(i.o[0], w.scalar(i.o[1]));
}
void s_bitset1_b32(Wave& w, const Instruction& i) {
  w.set(i.o[0], w.scalar(i.o[0]) | 1u << (w.scalar(i.o[1]) & 31));
}
void s_bitset0_b32(Wave& w, const Instruction& i) {
  w.set(i.o[0], w.scalar(i.o[0]) & ~(1u << (w.scalar(i.o[1]) & 31)));
}
void s_getpc_b64(Wave& w, const Instruction& i) {  // of the instruction behind this one, which has 4 bytes
  w.set64(i.o[0], reinterpret_cast<uint64_t>(w.kernel->image) + i.address + 4);
}

U reversed(U a) {
  U r = 0;
  for (U k = 0; k < 32; k++) r |= (a >> k & 1) << (31 - k);
  return r;
}
U bit_field(U a, U b, bool& c) {
  const U n = b >> 16 & 127, shifted = a >> (b & 31), r = n >= 32 ? shifted : shifted & ((1u << n) - 1);
  c = r != 0;
  return r;
}

U signed_bit_field(U a, U b, bool& c) {
  const U n = b >> 16 & 127;
  U r = static_cast<U>(as_signed(a) >> (b & 31));
  if (n == 0)
    r = 0;
  else if (n < 32)
    r = static_cast<U>(as_signed(r << (32 - n)) >> (32 - n));
  c = r != 0;
  return r;
}
template <U kShift>
U shifted_sum(U a, U b, bool& c) {
  const D r = (static_cast<D>(a) << kShift) + b;
  c = r >> 32 != 0;
  return static_cast<U>(r);
}

void add_moves(Table& t) {
  t["s_mov_b32"] = t["s_movk_i32"] = {words1<([](U a, bool&) { return a; })>};
  t["s_mov_b64"] = {doubles1<([](D a, bool&) { return a; })>};
  t["s_cmovk_i32"] = t["s_cmov_b32"] = {s_cmovk};
  t["s_cselect_b32"] = {words2<([](U a, U b, bool& c) { return c ? a : b; })>};
  t["s_cselect_b64"] = {doubles2<([](D a, D b, bool& c) { return c ? a : b; })>};
  t["s_brev_b32"] = {words1<([](U a, bool&) { return reversed(a); })>};
  t["s_not_b32"] = {words1<([](U a, bool& c) { return c = ~a != 0, ~a; })>};
  t["s_not_b64"] = {doubles1<([](D a, bool& c) { return c = ~a != 0, ~a; })>};
  t["s_ctz_i32_b32"] =
      t["s_ff1_i32_b32"] = {words1<([](U a, bool&) { return a != 0 ? static_cast<U>(std::countr_zero(a)) : ~0u; })>};
  t["s_ctz_i32_b64"] =
      t["s_ff1_i32_b64"] = {narrowing<([](D a, bool&) { return a != 0 ? static_cast<U>(std::countr_zero(a)) : ~0u; })>};
  t["s_bcnt1_i32_b32"] = {words1<([](U a, bool& c) { return c = a != 0, static_cast<U>(std::popcount(a)); })>};
  t["s_bcnt1_i32_b64"] = {narrowing<([](D a, bool& c) { return c = a != 0, static_cast<U>(std::popcount(a)); })>};
  t["s_sext_i32_i8"] = {words1<([](U a, bool&) { return static_cast<U>(static_cast<int8_t>(a)); })>};
  t["s_sext_i32_i16"] = {words1<([](U a, bool&) { return static_cast<U>(static_cast<int16_t>(a)); })>};
  t["s_bitset1_b32"] = {s_bitset1_b32};
  t["s_bitset0_b32"] = {s_bitset0_b32};
}

void add_arithmetic(Table& t) {
  constexpr auto add_u32 = [](U a, U b, bool& c) { return c = a + b < a, a + b; };
  constexpr auto add_with_carry = [](U a, U b, bool& c) {
    const D r = static_cast<D>(a) + b + (c ? 1 : 0);
    return c = (r >> 32) != 0, static_cast<U>(r);
  };
  constexpr auto sub_u32 = [](U a, U b, bool& c) { return c = b > a, a - b; };
  constexpr auto sub_with_borrow = [](U a, U b, bool& c) {
    const D y = static_cast<D>(b) + (c ? 1 : 0);
    return c = y > a, static_cast<U>(a - y);
  };
  constexpr auto add_i32 = [](U a, U b, bool& c) { return c = (((a ^ ~b) & (a ^ (a + b))) >> 31) != 0, a + b; };
  constexpr auto sub_i32 = [](U a, U b, bool& c) { return c = (((a ^ b) & (a ^ (a - b))) >> 31) != 0, a - b; };
  constexpr auto mul = [](U a, U b, bool&) { return a * b; };
  t["s_add_u32"] = t["s_add_co_u32"] = {words2<add_u32>};
  t["s_addc_u32"] = t["s_add_co_ci_u32"] = {words2<add_with_carry>};
  t["s_sub_u32"] = t["s_sub_co_u32"] = {words2<sub_u32>};
  t["s_subb_u32"] = t["s_sub_co_ci_u32"] = {words2<sub_with_borrow>};
  t["s_add_i32"] = t["s_add_co_i32"] = {words2<add_i32>};
  t["s_sub_i32"] = t["s_sub_co_i32"] = {words2<sub_i32>};
  t["s_addk_i32"] = t["s_addk_co_i32"] = {words_k<add_i32>};
  t["s_mul_i32"] = {words2<mul>};
  t["s_mulk_i32"] = {words_k<mul>};
  t["s_mul_hi_u32"] = {words2<([](U a, U b, bool&) { return static_cast<U>(static_cast<D>(a) * b >> 32); })>};
  t["s_mul_u64"] = {doubles2<([](D a, D b, bool&) { return a * b; })>};
  t["s_add_nc_u64"] = {doubles2<([](D a, D b, bool&) { return a + b; })>};
  t["s_sub_nc_u64"] = {doubles2<([](D a, D b, bool&) { return a - b; })>};
  t["s_min_u32"] = {words2<([](U a, U b, bool& c) { return c = a < b, a < b ? a : b; })>};
  t["s_max_u32"] = {words2<([](U a, U b, bool& c) { return c = a >= b, a >= b ? a : b; })>};
  t["s_min_i32"] = {words2<([](U a, U b, bool& c) { return c = as_signed(a) < as_signed(b), c ? a : b; })>};
  t["s_max_i32"] = {words2<([](U a, U b, bool& c) { return c = as_signed(a) >= as_signed(b), c ? a : b; })>};
  t["s_lshl_b32"] = {words2<([](U a, U b, bool& c) { return c = (a << (b & 31)) != 0, a << (b & 31); })>};
  t["s_lshr_b32"] = {words2<([](U a, U b, bool& c) { return c = (a >> (b & 31)) != 0, a >> (b & 31); })>};
  t["s_ashr_i32"] = {words2<([](U a, U b, bool& c) {
    const auto r = static_cast<U>(as_signed(a) >> (b & 31));
    return c = r != 0, r;
  })>};
  t["s_lshl_b64"] = {shifts64<([](D a, U n, bool& c) { return c = (a << n) != 0, a << n; })>};
  t["s_lshr_b64"] = {shifts64<([](D a, U n, bool& c) { return c = (a >> n) != 0, a >> n; })>};
  t["s_ashr_i64"] = {shifts64<([](D a, U n, bool& c) {
    const auto r = static_cast<D>(static_cast<int64_t>(a) >> n);
    return c = r != 0, r;
  })>};
  t["s_lshl1_add_u32"] = {words2<shifted_sum<1>>};
  t["s_lshl2_add_u32"] = {words2<shifted_sum<2>>};
  t["s_lshl3_add_u32"] = {words2<shifted_sum<3>>};
  t["s_lshl4_add_u32"] = {words2<shifted_sum<4>>};
  t["s_mul_hi_i32"] = {words2<(
      [](U a, U b, bool&) { return static_cast<U>(static_cast<D>(int64_t{as_signed(a)} * as_signed(b)) >> 32); })>};
  t["s_abs_i32"] = {words1<([](U a, bool& c) {
    const U r = as_signed(a) < 0 ? 0 - a : a;
    return c = r != 0, r;
  })>};
  t["s_pack_ll_b32_b16"] = {words2<([](U a, U b, bool&) { return (a & 0xFFFF) | b << 16; })>};
  t["s_pack_lh_b32_b16"] = {words2<([](U a, U b, bool&) { return (a & 0xFFFF) | (b & 0xFFFF0000u); })>};
  t["s_pack_hl_b32_b16"] = {words2<([](U a, U b, bool&) { return a >> 16 | b << 16; })>};
  t["s_pack_hh_b32_b16"] = {words2<([](U a, U b, bool&) { return a >> 16 | (b & 0xFFFF0000u); })>};
  t["s_bfm_b32"] = {words2<([](U a, U b, bool&) { return ((1u << (a & 31)) - 1) << (b & 31); })>};
  t["s_bfe_i32"] = {words2<signed_bit_field>};
  t["s_clz_i32_u32"] =
      t["s_flbit_i32_b32"] = {words1<([](U a, bool&) { return a != 0 ? static_cast<U>(std::countl_zero(a)) : ~0u; })>};
  t["s_bfe_u32"] = {words2<bit_field>};
}

template <auto kF>
void add_bitwise(Table& t, const std::string& name) {
  t["s_" + name + "_b32"] = {words2<([](U a, U b, bool& c) {
    const auto r = static_cast<U>(kF(a, b));
    return c = r != 0, r;
  })>};
  t["s_" + name + "_b64"] = {doubles2<([](D a, D b, bool& c) {
    const D r = kF(a, b);
    return c = r != 0, r;
  })>};
  t["s_" + name + "_saveexec_b32"] =
      t["s_" + name + "_saveexec_b64"] = {save_exec<([](D source, D exec) { return kF(source, exec); })>};
}
void add_bitwise(Table& t) {
  add_bitwise<([](D a, D b) { return a & b; })>(t, "and");
  add_bitwise<([](D a, D b) { return a | b; })>(t, "or");
  add_bitwise<([](D a, D b) { return a ^ b; })>(t, "xor");
  for (const char* name : {"and_not1", "andn2"}) add_bitwise<([](D a, D b) { return a & ~b; })>(t, name);
  for (const char* name : {"or_not1", "orn2"}) add_bitwise<([](D a, D b) { return a | ~b; })>(t, name);
  add_bitwise<([](D a, D b) { return ~(a & b); })>(t, "nand");
  add_bitwise<([](D a, D b) { return ~(a ^ b); })>(t, "xnor");
}

void add_compares32(Table& t) {
  for (const std::string k : {"s_cmp_", "s_cmpk_"}) {
    t[k + "eq_u32"] = t[k + "eq_i32"] = {compare32<([](U a, U b) { return a == b; })>};
    t[k + "lg_u32"] = t[k + "lg_i32"] = {compare32<([](U a, U b) { return a != b; })>};
    t[k + "lt_u32"] = {compare32<([](U a, U b) { return a < b; })>};
    t[k + "le_u32"] = {compare32<([](U a, U b) { return a <= b; })>};
    t[k + "gt_u32"] = {compare32<([](U a, U b) { return a > b; })>};
    t[k + "ge_u32"] = {compare32<([](U a, U b) { return a >= b; })>};
    t[k + "lt_i32"] = {compare32<([](U a, U b) { return as_signed(a) < as_signed(b); })>};
    t[k + "le_i32"] = {compare32<([](U a, U b) { return as_signed(a) <= as_signed(b); })>};
    t[k + "gt_i32"] = {compare32<([](U a, U b) { return as_signed(a) > as_signed(b); })>};
    t[k + "ge_i32"] = {compare32<([](U a, U b) { return as_signed(a) >= as_signed(b); })>};
  }
  t["s_cmp_eq_u64"] = {compare64<([](D a, D b) { return a == b; })>};
  t["s_cmp_lg_u64"] = {compare64<([](D a, D b) { return a != b; })>};
  t["s_bitcmp0_b32"] = {compare32<([](U a, U b) { return (a >> (b & 31) & 1) == 0; })>};
  t["s_bitcmp1_b32"] = {compare32<([](U a, U b) { return (a >> (b & 31) & 1) == 1; })>};
}

void add_branches(Table& t) {
  t["s_branch"] = {branch<([](const Wave&) { return true; })>};
  t["s_cbranch_scc0"] = {branch<([](const Wave& w) { return !w.scc; })>};
  t["s_cbranch_scc1"] = {branch<([](const Wave& w) { return w.scc; })>};
  t["s_cbranch_vccz"] = {branch<([](const Wave& w) { return w.mask(kVcc) == 0; })>};
  t["s_cbranch_vccnz"] = {branch<([](const Wave& w) { return w.mask(kVcc) != 0; })>};
  t["s_cbranch_execz"] = {branch<([](const Wave& w) { return w.exec() == 0; })>};
  t["s_cbranch_execnz"] = {branch<([](const Wave& w) { return w.exec() != 0; })>};
  t["s_getpc_b64"] = {s_getpc_b64};
}

}  // namespace

void add_scalars(Table& t) {
  add_moves(t);
  add_arithmetic(t);
  add_bitwise(t);
  add_compares32(t);
  add_branches(t);
}

}  // namespace rocmforge::gpu::isa
