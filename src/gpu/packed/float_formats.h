#pragma once
// Weights that are floats, and 16 consecutive weights of any common format as floats.

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

template <class Block>
inline constexpr bool kIsFloat = Block::kElements == 1;

// Elements 16 n .. 16 n + 15 of the matrix. Values are those of the format's own header, to the last bit.
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
