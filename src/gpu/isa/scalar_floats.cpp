// Scalar instructions of f32, and vector units' functions of a scalar: gfx12 has both.

#include "gpu/isa/float_rules.h"
#include "gpu/isa/lanes.h"

namespace rocmforge::gpu::isa {
namespace {

using U = uint32_t;

// A scalar operand with the signs that v_s_exp_f32 and its like may have.
float source(const Wave& w, const Operand& o) {
  float v = f32(w.scalar(o));
  if (o.abs) v = std::fabs(v);
  return o.neg ? -v : v;
}

template <auto kF>
void floats1(Wave& w, const Instruction& i) {
  w.set(i.o[0], b32(finish(i, kF(source(w, i.o[1])))));
}
template <auto kF>
void floats2(Wave& w, const Instruction& i) {
  w.set(i.o[0], b32(kF(source(w, i.o[1]), source(w, i.o[2]))));
}
template <auto kF>
void words1(Wave& w, const Instruction& i) {
  w.set(i.o[0], kF(w.scalar(i.o[1])));
}
void s_fmac_f32(Wave& w, const Instruction& i) {
  w.set(i.o[0], b32(std::fma(source(w, i.o[1]), source(w, i.o[2]), source(w, i.o[0]))));
}
// Where a literal is a factor or the sum, it is printed in its place.
void s_fma(Wave& w, const Instruction& i) {
  w.set(i.o[0], b32(std::fma(source(w, i.o[1]), source(w, i.o[2]), source(w, i.o[3]))));
}
template <auto kF>
void compare(Wave& w, const Instruction& i) {
  w.scc = kF(source(w, i.o[0]), source(w, i.o[1]));
}

void add_arithmetic(Table& t) {
  t["s_add_f32"] = {floats2<([](float a, float b) { return a + b; })>};
  t["s_sub_f32"] = {floats2<([](float a, float b) { return a - b; })>};
  t["s_mul_f32"] = {floats2<([](float a, float b) { return a * b; })>};
  t["s_max_num_f32"] = {floats2<largest>};
  t["s_min_num_f32"] = {floats2<smallest>};
  t["s_fmac_f32"] = {s_fmac_f32};
  t["s_fmamk_f32"] = t["s_fmaak_f32"] = {s_fma};
  t["s_trunc_f32"] = {floats1<([](float a) { return std::trunc(a); })>};
  t["s_floor_f32"] = {floats1<([](float a) { return std::floor(a); })>};
  t["s_ceil_f32"] = {floats1<([](float a) { return std::ceil(a); })>};
  t["s_rndne_f32"] = {floats1<([](float a) { return std::nearbyint(a); })>};
  t["s_cvt_f32_i32"] = {words1<([](U a) { return b32(static_cast<float>(as_signed(a))); })>};
  t["s_cvt_f32_u32"] = {words1<([](U a) { return b32(static_cast<float>(a)); })>};
  t["s_cvt_i32_f32"] = {words1<([](U a) { return to_i32(f32(a)); })>};
  t["s_cvt_u32_f32"] = {words1<([](U a) { return to_u32(f32(a)); })>};
  t["s_cvt_f32_f16"] = {words1<([](U a) { return b32(f16_to_f32(a)); })>};
  t["s_cvt_hi_f32_f16"] = {words1<([](U a) { return b32(f16_to_f32(a >> 16)); })>};
  t["s_cvt_f16_f32"] = {words1<([](U a) { return f32_to_f16(f32(a)); })>};
}

void add_functions(Table& t) {
  t["v_s_rcp_f32"] = {floats1<([](float a) { return 1.0f / a; })>, kOutputModifiers};
  t["v_s_rsq_f32"] = {floats1<([](float a) { return 1.0f / std::sqrt(a); })>, kOutputModifiers};
  t["v_s_sqrt_f32"] = {floats1<([](float a) { return std::sqrt(a); })>, kOutputModifiers};
  t["v_s_exp_f32"] = {floats1<([](float a) { return std::exp2(a); })>, kOutputModifiers};
  t["v_s_log_f32"] = {floats1<([](float a) { return std::log2(a); })>, kOutputModifiers};
}

void add_compares_of_floats(Table& t) {
  t["s_cmp_lt_f32"] = {compare<([](float a, float b) { return a < b; })>};
  t["s_cmp_eq_f32"] = {compare<([](float a, float b) { return a == b; })>};
  t["s_cmp_le_f32"] = {compare<([](float a, float b) { return a <= b; })>};
  t["s_cmp_gt_f32"] = {compare<([](float a, float b) { return a > b; })>};
  t["s_cmp_lg_f32"] = {compare<([](float a, float b) { return a < b || a > b; })>};
  t["s_cmp_ge_f32"] = {compare<([](float a, float b) { return a >= b; })>};
  t["s_cmp_o_f32"] = {compare<([](float a, float b) { return !std::isunordered(a, b); })>};
  t["s_cmp_u_f32"] = {compare<([](float a, float b) { return std::isunordered(a, b); })>};
  t["s_cmp_nge_f32"] = {compare<([](float a, float b) { return !(a >= b); })>};
  t["s_cmp_nlg_f32"] = {compare<([](float a, float b) { return !(a < b || a > b); })>};
  t["s_cmp_ngt_f32"] = {compare<([](float a, float b) { return !(a > b); })>};
  t["s_cmp_nle_f32"] = {compare<([](float a, float b) { return !(a <= b); })>};
  t["s_cmp_neq_f32"] = {compare<([](float a, float b) { return a != b; })>};
  t["s_cmp_nlt_f32"] = {compare<([](float a, float b) { return !(a < b); })>};
}

}  // namespace

void add_scalar_floats(Table& t) {
  add_arithmetic(t);
  add_functions(t);
  add_compares_of_floats(t);
}

}  // namespace rocmforge::gpu::isa
