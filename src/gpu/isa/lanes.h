#pragma once
// How instructions that work lane by lane are made of functions of one lane.

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "gpu/isa/wave.h"

namespace rocmforge::gpu::isa {

using Table = std::unordered_map<std::string, Entry>;
void add_integers(Table& table);
void add_floats(Table& table);
void add_divisions(Table& table);
void add_doubles(Table& table);
void add_compares(Table& table);
void add_packed(Table& table);
void add_lane_crossing(Table& table);
void add_matrix(Table& table);
void add_scalars(Table& table);
void add_control(Table& table);
void add_scalar_floats(Table& table);
void add_modes(Table& table);
void add_memory(Table& table);
void add_buffers(Table& table);
void add_atomics(Table& table);
void add_lds(Table& table);

inline float f32(uint32_t v) {
  return std::bit_cast<float>(v);
}
inline uint32_t b32(float v) {
  return std::bit_cast<uint32_t>(v);
}
inline float f16_to_f32(uint32_t half) {
  return static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(half)));
}
inline uint32_t f32_to_f16(float v) {
  return std::bit_cast<uint16_t>(static_cast<_Float16>(v));
}
inline float bf16_to_f32(uint32_t v) {
  return f32(v << 16);
}
inline int32_t as_signed(uint32_t v) {
  return static_cast<int32_t>(v);
}

// Writes f(lane of the half) to the active lanes.
template <class F>
void put(const Wave& w, uint32_t half, uint32_t* to, F f) {
  const uint32_t exec = w.exec(half);
  if (exec == ~0u) {
    for (uint32_t l = 0; l < kHalf; l++) to[l] = f(l);
  } else if (exec != 0) {
    for (uint32_t l = 0; l < kHalf; l++) {
      if ((exec >> l & 1) != 0) to[l] = f(l);
    }
  }
}
// f(lane of the wave)
template <class F>
void each_lane(const Wave& w, F f) {
  for (uint64_t left = w.exec(); left != 0; left &= left - 1) f(static_cast<uint32_t>(std::countr_zero(left)));
}

// ---- 32-bit words ----

template <auto kF>
void words1(Wave& w, const Instruction& i) {
  for (uint32_t h = 0; h < w.n_halves; h++) {
    Lanes ra;
    const uint32_t* a = w.lanes(i.o[1], h, ra);
    put(w, h, w.reg(i.o[0].index, h), [&](uint32_t l) { return kF(a[l]); });
  }
}
template <auto kF>
void words2(Wave& w, const Instruction& i) {
  for (uint32_t h = 0; h < w.n_halves; h++) {
    Lanes ra, rb;
    const uint32_t *a = w.lanes(i.o[1], h, ra), *b = w.lanes(i.o[2], h, rb);
    put(w, h, w.reg(i.o[0].index, h), [&](uint32_t l) { return kF(a[l], b[l]); });
  }
}
template <auto kF>
void words3(Wave& w, const Instruction& i) {
  for (uint32_t h = 0; h < w.n_halves; h++) {
    Lanes ra, rb, rc;
    const uint32_t *a = w.lanes(i.o[1], h, ra), *b = w.lanes(i.o[2], h, rb), *c = w.lanes(i.o[3], h, rc);
    put(w, h, w.reg(i.o[0].index, h), [&](uint32_t l) { return kF(a[l], b[l], c[l]); });
  }
}

// ---- 16-bit words: gfx10 and later keep the upper half of the destination, CDNA clears it ----

inline uint32_t with_low(const Wave& w, uint32_t old, uint32_t low) {
  return (w.generation() >= 10 ? old & 0xFFFF0000u : 0) | (low & 0xFFFF);
}
template <auto kF>
void halves2(Wave& w, const Instruction& i) {
  for (uint32_t h = 0; h < w.n_halves; h++) {
    Lanes ra, rb;
    const uint32_t *a = w.lanes(i.o[1], h, ra, 0x8000), *b = w.lanes(i.o[2], h, rb, 0x8000);
    uint32_t* to = w.reg(i.o[0].index, h);
    put(w, h, to, [&](uint32_t l) { return with_low(w, to[l], kF(a[l] & 0xFFFF, b[l] & 0xFFFF)); });
  }
}

// ---- f32, with what VOP3 does to results ----

inline float finish(const Instruction& i, float v) {
  if (i.omod != 0) v *= i.omod == 1 ? 2.0f : i.omod == 2 ? 4.0f : 0.5f;
  if (i.clamp) v = v > 0 ? (v < 1 ? v : 1.0f) : 0.0f;
  return v;
}
// kInputs sources from operand 1 on; the third may be the destination's old value (kAccumulates).
template <auto kF, uint32_t kInputs, bool kAccumulates = false>
void floats(Wave& w, const Instruction& i) {
  for (uint32_t h = 0; h < w.n_halves; h++) {
    Lanes ra, rb, rc;
    uint32_t* to = w.reg(i.o[0].index, h);
    const uint32_t* a = w.lanes(i.o[1], h, ra);
    const uint32_t* b = kInputs > 1 ? w.lanes(i.o[2], h, rb) : nullptr;
    const uint32_t* c = kInputs > 2 ? w.lanes(i.o[3], h, rc) : to;
    const auto f = [&](uint32_t l) {
      if constexpr (kInputs == 1)
        return kF(f32(a[l]));
      else if constexpr (kInputs == 2 && !kAccumulates)
        return kF(f32(a[l]), f32(b[l]));
      else
        return kF(f32(a[l]), f32(b[l]), f32(c[l]));
    };
    if (i.omod != 0 || i.clamp)
      put(w, h, to, [&](uint32_t l) { return b32(finish(i, f(l))); });
    else
      put(w, h, to, [&](uint32_t l) { return b32(f(l)); });
  }
}
template <auto kF>
inline constexpr Entry kFloat1 = {floats<kF, 1>, kOutputModifiers | kSdwa};
template <auto kF>
inline constexpr Entry kFloat2 = {floats<kF, 2>, kOutputModifiers | kSdwa};
template <auto kF>
inline constexpr Entry kFloat3 = {floats<kF, 3>, kOutputModifiers};
template <auto kF>
inline constexpr Entry kWord1 = {words1<kF>, kSdwa};
template <auto kF>
inline constexpr Entry kWord2 = {words2<kF>, kSdwa};
template <auto kF>
inline constexpr Entry kWord3 = {words3<kF>, kNothing};
template <auto kF>
inline constexpr Entry kHalf2 = {halves2<kF>, kSdwa};

}  // namespace rocmforge::gpu::isa
