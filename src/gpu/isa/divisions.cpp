// The three instructions that make an IEEE division of v_rcp and v_fma, for f32 and f64. What is written about them
// does not divide; these do, as property tests show (instructions_test.cpp).

#include <limits>

#include "gpu/isa/lanes.h"

namespace rocmforge::gpu::isa {
namespace {

template <class T>
struct Shape;
template <>
struct Shape<float> {
  static constexpr int kMantissa = 23, kLargest = 127, kFar = 96, kScale = 64;
};
template <>
struct Shape<double> {
  static constexpr int kMantissa = 52, kLargest = 1023, kFar = 768, kScale = 128;
};

template <class T>
int biased_exponent(T v) {
  using S = Shape<T>;
  if constexpr (sizeof(T) == 4)
    return static_cast<int>(std::bit_cast<uint32_t>(v) >> S::kMantissa & 0xFF);
  else
    return static_cast<int>(std::bit_cast<uint64_t>(v) >> S::kMantissa & 0x7FF);
}
template <class T>
bool is_denormal(T v) {
  return std::fpclassify(v) == FP_SUBNORMAL;
}

template <class T>
struct Scaled {
  T value;
  bool flag;  // v_div_fmas is to undo the scaling
};

// `x` is the denominator d or the numerator n, as it is or times a power of two.
template <class T>
Scaled<T> div_scale(T x, T d, T n) {
  using S = Shape<T>;
  if (n == 0 || d == 0) return {std::numeric_limits<T>::quiet_NaN(), true};
  // The reciprocal would be denormal.
  const bool large_denominator =
      biased_exponent(d) >= 2 * S::kLargest - 1 && std::fabs(d) > std::ldexp(T{1}, S::kLargest - 1);
  // Denormal, or next to it: exponents alone are looked at.
  const bool small_quotient = is_denormal(n / d) || biased_exponent(n) - biased_exponent(d) == 1 - S::kLargest;
  if (biased_exponent(n) - biased_exponent(d) >= S::kFar) return {x == d ? std::ldexp(x, S::kScale) : x, true};
  if (is_denormal(d)) return {std::ldexp(x, S::kScale), false};
  if (large_denominator && small_quotient) return {x == d ? std::ldexp(x, -S::kScale) : x, true};
  if (large_denominator) return {std::ldexp(x, -S::kScale), false};
  if (small_quotient) return {x == n ? std::ldexp(x, S::kScale) : x, true};
  if (biased_exponent(n) <= S::kMantissa + (sizeof(T) == 8 ? 1 : 0)) return {std::ldexp(x, S::kScale), false};
  return {x, false};
}

// ldexp(a * b + c, n), rounded once in effect: a wider type holds the product and more than twice the bits of the sum.
__extension__ using Quad = __float128;
float fma_scaled(float a, float b, float c, int n) {
  return static_cast<float>(std::ldexp(std::fma(static_cast<double>(a), static_cast<double>(b), c), n));
}
double fma_scaled(double a, double b, double c, int n) {
  return static_cast<double>((static_cast<Quad>(a) * b + c) * static_cast<Quad>(std::ldexp(1.0, n)));
}
template <class T>
T div_fmas(T a, T b, T c, bool undo) {
  using S = Shape<T>;
  if (!undo) return std::fma(a, b, c);
  return fma_scaled(a, b, c, biased_exponent(c) > S::kLargest ? S::kScale : -S::kScale);
}

template <class T>
T div_fixup(T q, T d, T n) {
  using S = Shape<T>;
  const T sign = std::signbit(d) != std::signbit(n) ? T{-1} : T{1};
  if (std::isnan(n)) return n;
  if (std::isnan(d)) return d;
  if ((d == 0 && n == 0) || (std::isinf(d) && std::isinf(n))) return -std::numeric_limits<T>::quiet_NaN();
  if (d == 0 || std::isinf(n)) return sign * std::numeric_limits<T>::infinity();
  if (std::isinf(d) || n == 0) return sign * T{0};
  // Beyond what scaling can save.
  const int difference = std::ilogb(n) - std::ilogb(d);
  if (difference < -(S::kLargest + S::kMantissa)) return sign * T{0};
  if (difference > S::kLargest + 1 || std::isnan(q)) return sign * std::numeric_limits<T>::infinity();
  return sign * std::fabs(q);
}

// ---- by lane ----

template <class T>
T value(const Wave& w, const Operand& o, uint32_t lane) {
  T v;
  if constexpr (sizeof(T) == 4) {
    v = f32(o.kind == OperandKind::vector ? w.at(o.index, lane) : w.scalar(o));
  } else {
    uint64_t bits = w.lane64(o, lane);
    if (o.kind == OperandKind::constant && o.is_literal) bits <<= 32;
    v = std::bit_cast<double>(bits);
  }
  if (o.abs) v = std::fabs(v);
  return o.neg ? -v : v;
}
template <class T>
void put_value(Wave& w, const Operand& o, uint32_t lane, T v) {
  if constexpr (sizeof(T) == 4) {
    w.at(o.index, lane) = b32(v);
  } else {
    const auto bits = std::bit_cast<uint64_t>(v);
    w.at(o.index, lane) = static_cast<uint32_t>(bits);
    w.at(o.index + 1u, lane) = static_cast<uint32_t>(bits >> 32);
  }
}

template <class T>
void v_div_scale(Wave& w, const Instruction& i) {  // dst, flag, which one, denominator, numerator
  uint64_t flags = 0;
  each_lane(w, [&](uint32_t l) {
    const auto r = div_scale(value<T>(w, i.o[2], l), value<T>(w, i.o[3], l), value<T>(w, i.o[4], l));
    put_value(w, i.o[0], l, r.value);
    if (r.flag) flags |= uint64_t{1} << l;
  });
  w.set_mask(i.o[1].index, flags);
}
template <class T>
void v_div_fmas(Wave& w, const Instruction& i) {
  const uint64_t vcc = w.mask(kVcc);
  each_lane(w, [&](uint32_t l) {
    put_value(w, i.o[0], l,
              div_fmas(value<T>(w, i.o[1], l), value<T>(w, i.o[2], l), value<T>(w, i.o[3], l), (vcc >> l & 1) != 0));
  });
}
template <class T>
void v_div_fixup(Wave& w, const Instruction& i) {
  each_lane(w, [&](uint32_t l) {
    put_value(w, i.o[0], l, div_fixup(value<T>(w, i.o[1], l), value<T>(w, i.o[2], l), value<T>(w, i.o[3], l)));
  });
}

}  // namespace

void add_divisions(Table& t) {
  t["v_div_scale_f32"] = {v_div_scale<float>};
  t["v_div_scale_f64"] = {v_div_scale<double>};
  t["v_div_fmas_f32"] = {v_div_fmas<float>};
  t["v_div_fmas_f64"] = {v_div_fmas<double>};
  t["v_div_fixup_f32"] = {v_div_fixup<float>};
  t["v_div_fixup_f64"] = {v_div_fixup<double>};
}

}  // namespace rocmforge::gpu::isa
