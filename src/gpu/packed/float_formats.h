#pragma once
// Float weights, and 16 consecutive weights of any common format as floats.

#include "gpu/packed/integer_formats.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_DEVICE float value_of(formats::PlainF32 w) {
  return w.value;
}
RF_DEVICE float value_of(formats::PlainF16 w) {
  return widen(w.value);
}
RF_DEVICE float value_of(formats::PlainBf16 w) {
  return to_float(w.value);
}

// A float, given by its bits, rounded to a half and clamped to the largest finite half.
RF_DEVICE uint32_t half_within(uint32_t bits) {
  constexpr float kLargest = 65504.0f;
  const float value = __builtin_bit_cast(float, bits);
  return narrow(value > kLargest ? kLargest : value < -kLargest ? -kLargest : value).bits;
}

template <class Block>
inline constexpr bool kIsFloat = Block::kElements == 1;

// F16 and BF16 in units like those of packed/integer_formats.h: sixteen weights, one group.
struct FloatUnits {
  static constexpr uint32_t kGroups = 1;
  struct Raw {
    Word4 words[2];
  };
  RF_DEVICE static uint64_t place(uint64_t u, uint32_t) { return u; }
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    return {{load16(w.at[0] + 32 * u), load16(w.at[0] + 32 * u + 16)}};
  }
};

// Two weights in a word as two halves, clamped to the largest finite half.
RF_DEVICE uint32_t two_halves(uint32_t word, formats::PlainF16) {
  return word;
}
RF_DEVICE uint32_t two_halves(uint32_t word, formats::PlainBf16) {
  return half_within(word << 16) | half_within(word & 0xFFFF0000u) << 16;
}

// Elements 16 n .. 16 n + 15 of the matrix. Bit-identical to decoding by the format's own header.
template <class Block>
RF_DEVICE void decode16(float* to, const Planes& w, uint64_t n) {
  if constexpr (kIsFloat<Block>) {
    const auto* from = reinterpret_cast<const Block*>(w.at[0]) + 16 * n;
    for (int i = 0; i < 16; i++) to[i] = value_of(from[i]);
  } else {
    using P = Packed<Block>;
    const UnitGroup at = P::find(n);
    const Group group = P::group(P::load(w, at.unit), at.unit, at.group);
    for (int i = 0; i < 16; i++) {
      const int level = static_cast<int8_t>(group.levels.v[i / 4] >> 8 * (i % 4)) - P::kOffset;
      to[i] = group.scale * static_cast<float>(level) - group.minimum;
    }
  }
}

}  // namespace rocmforge::gpu::RF_KERNELS
