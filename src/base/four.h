#pragma once
// Four floats at a time, on any machine.

#include <cstddef>
#include <cstring>

namespace rocmforge {

using Four [[gnu::vector_size(16)]] = float;
inline constexpr size_t kFour = 4;

inline Four load_four(const float* at) {
  Four four;
  std::memcpy(&four, at, sizeof four);
  return four;
}
inline void store_four(float* at, Four four) {
  std::memcpy(at, &four, sizeof four);
}

}  // namespace rocmforge
