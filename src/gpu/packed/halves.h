#pragma once
// Sixteen consecutive weights of any format as halves, in two steps, so that the bytes can be asked for ahead.

#include "gpu/packed/float_formats.h"

namespace rocmforge::gpu::RF_KERNELS {

// Of elements 16 n .. 16 n + 15 of the matrix.
template <class Block>
struct Halves {
  using P = Packed<Block>;
  using Raw = typename P::Raw;
  RF_DEVICE static Raw load(const Planes& w, uint64_t n) { return P::load(w, P::find(n).unit); }
  RF_DEVICE static void decode(Word4 (&out)[2], const Raw& raw, uint64_t n) {
    const UnitGroup at = P::find(n);
    const Group group = P::group(raw, at.unit, at.group);
    const auto value = [&](uint32_t i) {
      const int level = static_cast<int8_t>(group.levels.v[i / 4] >> i % 4 * 8);
      return group.scale * static_cast<float>(level - P::kOffset) - group.minimum;
    };
    RF_UNROLL
    for (uint32_t i = 0; i < 8; i++) out[i / 4].v[i % 4] = two_halves_of(value(2 * i), value(2 * i + 1));
  }
};

template <class Block>
  requires kIsFloat<Block>
struct Halves<Block> {
  using Raw = FloatUnits::Raw;
  RF_DEVICE static Raw load(const Planes& w, uint64_t n) { return FloatUnits::load(w, n); }
  RF_DEVICE static void decode(Word4 (&out)[2], const Raw& raw, uint64_t) {
    RF_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
      RF_UNROLL
      for (uint32_t i = 0; i < 4; i++) out[h].v[i] = two_halves(raw.words[h].v[i], Block{});
    }
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
