#pragma once
// Units of weights as halves, eight columns at a time, for matrix fragments: UnitHalves<Block>.
//
// Quants become halves by exact arithmetic on two at a time. The scale of a group is rounded to a half, and so is what
// a weight has for a quant in the middle of their range: products and sums are then of the size of the weights, and are
// rounded once.

#include "gpu/packed/float_formats.h"

namespace rocmforge::gpu::RF_KERNELS {

template <class P>
RF_DEVICE constexpr int middle_of_quants() {
  if constexpr (requires { P::kMiddle; }) return P::kMiddle;
  return P::kOffset;
}

template <class Block>
struct UnitHalves {
  using P = Packed<Block>;
  using Raw = typename P::Raw;
  static constexpr uint32_t kGroups = P::kGroups;
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) { return P::load(w, u); }
  RF_DEVICE static uint64_t place(uint64_t u, uint32_t g) { return P::place(u, g); }

  // A group whose scale is ready for its two halves.
  struct Ready {
    Word4 levels;
    uint32_t scale, shift;  // twice in a word
  };
  // Zeros if the group is not there.
  RF_DEVICE static Ready ready(const Raw& raw, uint64_t u, uint32_t g, bool is_there) {
    const Group group = P::group(raw, u, g);
    const float of_middle = group.scale * static_cast<float>(kMiddle - P::kOffset) - group.minimum;
    return {group.levels, twice(is_there ? group.scale : 0.0f), twice(is_there ? of_middle : 0.0f)};
  }
  RF_DEVICE static Word4 eight(const Ready& group, uint32_t h) {
    Word4 out;
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
      const uint32_t bytes = group.levels.v[2 * h + i / 2] ^ 0x80808080u;  // quants + 128
      const uint32_t halves = i % 2 == 0 ? halves_of_bytes<0>(bytes) : halves_of_bytes<2>(bytes);
      constexpr uint32_t kMinus = 0xE400u + 128 + kMiddle;  // -(1024 + 128 + kMiddle)
      out.v[i] = fma_halves(add_halves(halves, kMinus << 16 | kMinus), group.scale, group.shift);
    }
    return out;
  }

 private:
  static constexpr int kMiddle = middle_of_quants<P>();
  RF_DEVICE static uint32_t twice(float v) { return two_halves_of(v, v); }
};

template <class Block>
  requires kIsFloat<Block>
struct UnitHalves<Block> {
  using Raw = FloatUnits::Raw;
  static constexpr uint32_t kGroups = FloatUnits::kGroups;
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) { return FloatUnits::load(w, u); }
  RF_DEVICE static uint64_t place(uint64_t u, uint32_t g) { return FloatUnits::place(u, g); }
  using Ready = Raw;
  RF_DEVICE static Ready ready(const Raw& raw, uint64_t, uint32_t, bool is_there) {
    Ready out;
    RF_UNROLL
    for (uint32_t i = 0; i < 8; i++) out.words[i / 4].v[i % 4] = is_there ? raw.words[i / 4].v[i % 4] : 0;
    return out;
  }
  RF_DEVICE static Word4 eight(const Ready& group, uint32_t h) {
    Word4 out;
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) out.v[i] = two_halves(group.words[h].v[i], Block{});
    return out;
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
