#pragma once
// Rules of f32 that vector and scalar instructions share.

#include <cmath>
#include <cstdint>

namespace rocmforge::gpu::isa {

inline uint32_t to_u32(float v) {
  return !(v > 0) ? 0 : v >= 0x1p32f ? ~0u : static_cast<uint32_t>(v);
}
inline uint32_t to_i32(float v) {
  if (std::isnan(v)) return 0;
  return v >= 0x1p31f ? 0x7FFFFFFFu : v < -0x1p31f ? 0x80000000u : static_cast<uint32_t>(static_cast<int32_t>(v));
}
// One NaN is the other's value; -0 lies below +0.
inline float largest(float a, float b) {
  if (a == 0 && b == 0) return std::signbit(a) ? b : a;
  return std::fmax(a, b);
}
inline float smallest(float a, float b) {
  if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  return std::fmin(a, b);
}
// What instructions do that have no denormals.
inline float flushed(float v) {
  return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(0.0f, v) : v;
}

}  // namespace rocmforge::gpu::isa
