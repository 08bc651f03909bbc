// Vector instructions of 64-bit floats.

#include "gpu/isa/lanes.h"

namespace rocmforge::gpu::isa {
namespace {

double get(const Wave& w, const Operand& o, uint32_t lane) {
  uint64_t bits = w.lane64(o, lane);
  if (o.kind == OperandKind::constant && o.is_literal) bits <<= 32;  // a literal is the upper half
  double v = std::bit_cast<double>(bits);
  if (o.abs) v = std::fabs(v);
  return o.neg ? -v : v;
}
void set(Wave& w, const Operand& o, uint32_t lane, double v) {
  const auto bits = std::bit_cast<uint64_t>(v);
  w.at(o.index, lane) = static_cast<uint32_t>(bits);
  w.at(o.index + 1u, lane) = static_cast<uint32_t>(bits >> 32);
}
uint32_t get_word(const Wave& w, const Operand& o, uint32_t lane) {
  return o.kind == OperandKind::vector ? w.at(o.index, lane) : w.scalar(o);
}
float get_float(const Wave& w, const Operand& o, uint32_t lane) {
  float v = f32(get_word(w, o, lane));
  if (o.abs) v = std::fabs(v);
  return o.neg ? -v : v;
}

template <auto kF>
void doubles1(Wave& w, const Instruction& i) {
  each_lane(w, [&](uint32_t l) { set(w, i.o[0], l, kF(get(w, i.o[1], l))); });
}
template <auto kF>
void doubles2(Wave& w, const Instruction& i) {
  each_lane(w, [&](uint32_t l) { set(w, i.o[0], l, kF(get(w, i.o[1], l), get(w, i.o[2], l))); });
}
void v_fma_f64(Wave& w, const Instruction& i) {
  each_lane(w,
            [&](uint32_t l) { set(w, i.o[0], l, std::fma(get(w, i.o[1], l), get(w, i.o[2], l), get(w, i.o[3], l))); });
}
void v_fmac_f64(Wave& w, const Instruction& i) {
  each_lane(w,
            [&](uint32_t l) { set(w, i.o[0], l, std::fma(get(w, i.o[1], l), get(w, i.o[2], l), get(w, i.o[0], l))); });
}
void v_ldexp_f64(Wave& w, const Instruction& i) {
  each_lane(w, [&](uint32_t l) {
    set(w, i.o[0], l, std::ldexp(get(w, i.o[1], l), static_cast<int32_t>(get_word(w, i.o[2], l))));
  });
}
template <class T>
void from_word(Wave& w, const Instruction& i) {
  each_lane(w, [&](uint32_t l) { set(w, i.o[0], l, static_cast<double>(static_cast<T>(get_word(w, i.o[1], l)))); });
}
void v_cvt_f64_f32(Wave& w, const Instruction& i) {
  each_lane(w, [&](uint32_t l) { set(w, i.o[0], l, static_cast<double>(get_float(w, i.o[1], l))); });
}
template <auto kF>
void to_word(Wave& w, const Instruction& i) {
  each_lane(w, [&](uint32_t l) { w.at(i.o[0].index, l) = kF(get(w, i.o[1], l)); });
}
uint32_t to_u32(double v) {
  return !(v > 0) ? 0 : v >= 0x1p32 ? ~0u : static_cast<uint32_t>(v);
}
uint32_t to_i32(double v) {
  if (std::isnan(v)) return 0;
  return v >= 0x1p31 ? 0x7FFFFFFFu : v <= -0x1p31 ? 0x80000000u : static_cast<uint32_t>(static_cast<int32_t>(v));
}

}  // namespace

void add_doubles(Table& t) {
  t["v_add_f64"] = {doubles2<([](double a, double b) { return a + b; })>};
  t["v_mul_f64"] = {doubles2<([](double a, double b) { return a * b; })>};
  t["v_fma_f64"] = {v_fma_f64};
  t["v_fmac_f64"] = {v_fmac_f64};
  t["v_rcp_f64"] = {doubles1<([](double a) { return 1 / a; })>};
  t["v_trunc_f64"] = {doubles1<([](double a) { return std::trunc(a); })>};
  t["v_floor_f64"] = {doubles1<([](double a) { return std::floor(a); })>};
  t["v_ceil_f64"] = {doubles1<([](double a) { return std::ceil(a); })>};
  t["v_rndne_f64"] = {doubles1<([](double a) { return std::nearbyint(a); })>};
  t["v_ldexp_f64"] = {v_ldexp_f64};
  t["v_cvt_f64_f32"] = {v_cvt_f64_f32};
  t["v_cvt_f64_i32"] = {from_word<int32_t>};
  t["v_cvt_f64_u32"] = {from_word<uint32_t>};
  t["v_cvt_f32_f64"] = {to_word<([](double a) { return b32(static_cast<float>(a)); })>};
  t["v_cvt_u32_f64"] = {to_word<to_u32>};
  t["v_cvt_i32_f64"] = {to_word<to_i32>};
}

}  // namespace rocmforge::gpu::isa
