#pragma once
// Checked<T>: an unsigned integer that remembers overflow. Every sum, product or rounding of numbers
// that came from a file or a request is computed in it:
//
//   CheckedU64 end = CheckedU64(offset) + CheckedU64(rows) * row_bytes;
//   if (!end.fits(file_bytes)) return Error{...};
//
// Overflow is sticky: once wrong, every later result is wrong too, and fits() and get() say so.

#include <concepts>
#include <cstdint>
#include <optional>

#include "base/check.h"

namespace rocmforge {

template <std::unsigned_integral T>
class Checked {
 public:
  constexpr Checked() = default;
  template <std::integral U>
  constexpr Checked(U value) : overflow_(__builtin_add_overflow(value, U{0}, &value_)) {}

  constexpr bool valid() const { return !overflow_; }
  constexpr bool fits(T limit) const { return valid() && value_ <= limit; }
  constexpr std::optional<T> get() const { return valid() ? std::optional<T>(value_) : std::nullopt; }
  // REQUIRES: valid()
  constexpr T value() const { return CHECK(valid()), value_; }

  friend constexpr Checked operator+(Checked a, Checked b) {
    return combine(a, b, [](T x, T y, T* out) { return __builtin_add_overflow(x, y, out); });
  }
  friend constexpr Checked operator-(Checked a, Checked b) {
    return combine(a, b, [](T x, T y, T* out) { return __builtin_sub_overflow(x, y, out); });
  }
  friend constexpr Checked operator*(Checked a, Checked b) {
    return combine(a, b, [](T x, T y, T* out) { return __builtin_mul_overflow(x, y, out); });
  }
  Checked& operator+=(Checked b) { return *this = *this + b; }
  Checked& operator*=(Checked b) { return *this = *this * b; }

  // The next multiple of `unit`. REQUIRES: unit > 0
  constexpr Checked rounded_up(T unit) const {
    CHECK(unit > 0);
    const T rest = value_ % unit;
    return rest == 0 ? *this : *this + Checked(static_cast<T>(unit - rest));
  }

 private:
  template <class Op>
  static constexpr Checked combine(Checked a, Checked b, Op op) {
    Checked out;
    const bool overflow = op(a.value_, b.value_, &out.value_);
    out.overflow_ = a.overflow_ || b.overflow_ || overflow;
    return out;
  }

  T value_ = 0;
  bool overflow_ = false;
};

using CheckedU64 = Checked<uint64_t>;
using CheckedU32 = Checked<uint32_t>;

}  // namespace rocmforge
