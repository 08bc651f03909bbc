// Comparisons. The short form names vcc as its destination; v_cmpx of gfx10 and later has none but EXEC, on CDNA it
// writes both.

#include "gpu/isa/lanes.h"

namespace rocmforge::gpu::isa {
namespace {

enum class Relation : uint8_t { lt, eq, le, gt, ne, ge, ordered, unordered };

template <class T, Relation kRelation>
bool holds(T a, T b) {
  switch (kRelation) {
    case Relation::lt:
      return a < b;
    case Relation::eq:
      return a == b;
    case Relation::le:
      return a <= b;
    case Relation::gt:
      return a > b;
    case Relation::ne:
      return a < b || a > b;
    case Relation::ge:
      return a >= b;
    case Relation::ordered:
      return a == a && b == b;
    case Relation::unordered:
      return a != a || b != b;
  }
  return false;
}

template <bool kExecToo>
void put_mask(Wave& w, const Instruction& i, uint64_t mask) {
  mask &= w.exec();
  if (i.n_outputs != 0) w.set_mask(i.o[0].index, mask);
  if (kExecToo) w.set_mask(kExec, mask);
}

template <class T, Relation kRelation, bool kNot, bool kExecToo>
void compare(Wave& w, const Instruction& i) {
  const Operand &oa = i.o[i.n_outputs], &ob = i.o[i.n_outputs + 1u];
  uint64_t mask = 0;
  if constexpr (sizeof(T) == 8) {
    each_lane(w, [&](uint32_t l) {
      uint64_t a = w.lane64(oa, l), b = w.lane64(ob, l);
      if constexpr (std::is_same_v<T, double>) {
        constexpr uint64_t kSign = uint64_t{1} << 63;
        if (oa.abs) a &= ~kSign;
        if (ob.abs) b &= ~kSign;
        if (oa.neg) a ^= kSign;
        if (ob.neg) b ^= kSign;
        // A literal is a double's upper half.
        if (ob.is_literal) b <<= 32;
        if (oa.is_literal) a <<= 32;
      }
      if (holds<T, kRelation>(std::bit_cast<T>(a), std::bit_cast<T>(b)) != kNot) mask |= uint64_t{1} << l;
    });
  } else {
    for (uint32_t h = 0; h < w.n_halves; h++) {
      Lanes ra, rb;
      const uint32_t *a = w.lanes(oa, h, ra), *b = w.lanes(ob, h, rb);
      uint32_t of_half = 0;
      for (uint32_t l = 0; l < kHalf; l++) {
        bool is = false;
        if constexpr (sizeof(T) == 4)
          is = holds<T, kRelation>(std::bit_cast<T>(a[l]), std::bit_cast<T>(b[l]));
        else
          is = holds<T, kRelation>(static_cast<T>(a[l]), static_cast<T>(b[l]));
        of_half |= static_cast<uint32_t>(is != kNot) << l;
      }
      mask |= static_cast<uint64_t>(of_half) << h * kHalf;
    }
  }
  put_mask<kExecToo>(w, i, mask);
}

// Bits of the second source: signalling NaN, quiet NaN, -infinity, -normal, -denormal, -0, 0, denormal, normal,
// infinity.
uint32_t class_bit(uint32_t bits) {
  const float x = f32(bits);
  const bool negative = std::signbit(x);
  switch (std::fpclassify(x)) {
    case FP_NAN:
      return (bits >> 22 & 1) != 0 ? 1 : 0;
    case FP_INFINITE:
      return negative ? 2 : 9;
    case FP_NORMAL:
      return negative ? 3 : 8;
    case FP_SUBNORMAL:
      return negative ? 4 : 7;
    default:
      return negative ? 5 : 6;
  }
}
template <bool kExecToo>
void v_cmp_class_f32(Wave& w, const Instruction& i) {
  uint64_t mask = 0;
  for (uint32_t h = 0; h < w.n_halves; h++) {
    Lanes ra, rb;
    const uint32_t *a = w.lanes(i.o[i.n_outputs], h, ra), *b = w.lanes(i.o[i.n_outputs + 1u], h, rb);
    for (uint32_t l = 0; l < kHalf; l++) mask |= static_cast<uint64_t>(b[l] >> class_bit(a[l]) & 1) << (h * kHalf + l);
  }
  put_mask<kExecToo>(w, i, mask);
}

template <class T, Relation kRelation, bool kNot>
void add_one(Table& t, const std::string& rest) {
  const uint8_t accepts = sizeof(T) == 8 ? kNothing : kSdwa;
  t["v_cmp_" + rest] = {compare<T, kRelation, kNot, false>, accepts};
  t["v_cmpx_" + rest] = {compare<T, kRelation, kNot, true>, accepts};
}
template <class T>
void add_type(Table& t, const std::string& type) {
  add_one<T, Relation::lt, false>(t, "lt_" + type);
  add_one<T, Relation::eq, false>(t, "eq_" + type);
  add_one<T, Relation::le, false>(t, "le_" + type);
  add_one<T, Relation::gt, false>(t, "gt_" + type);
  add_one<T, Relation::ge, false>(t, "ge_" + type);
  if constexpr (std::is_integral_v<T>) {
    add_one<T, Relation::ne, false>(t, "ne_" + type);
  } else {
    add_one<T, Relation::ne, false>(t, "lg_" + type);
    add_one<T, Relation::ordered, false>(t, "o_" + type);
    add_one<T, Relation::unordered, false>(t, "u_" + type);
    add_one<T, Relation::ge, true>(t, "nge_" + type);
    add_one<T, Relation::ne, true>(t, "nlg_" + type);
    add_one<T, Relation::gt, true>(t, "ngt_" + type);
    add_one<T, Relation::le, true>(t, "nle_" + type);
    add_one<T, Relation::eq, true>(t, "neq_" + type);
    add_one<T, Relation::lt, true>(t, "nlt_" + type);
  }
}

}  // namespace

void add_compares(Table& t) {
  add_type<float>(t, "f32");
  add_type<double>(t, "f64");
  add_type<uint32_t>(t, "u32");
  add_type<int32_t>(t, "i32");
  add_type<uint64_t>(t, "u64");
  add_type<int64_t>(t, "i64");
  add_type<uint16_t>(t, "u16");
  add_type<int16_t>(t, "i16");
  t["v_cmp_class_f32"] = {v_cmp_class_f32<false>};
  t["v_cmpx_class_f32"] = {v_cmp_class_f32<true>};
}

}  // namespace rocmforge::gpu::isa
