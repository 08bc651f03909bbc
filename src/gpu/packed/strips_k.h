#pragma once
// The strips (packed/strip.h) of formats with blocks of 256 weights.

#include "gpu/packed/strip.h"

namespace rocmforge::gpu::RF_KERNELS {

// The scales and minima of Q4_K and Q5_K, one byte each.
struct KScales {
  uint32_t scales[2], minima[2];
  float d, dmin;
  RF_DEVICE explicit KScales(const uint8_t* header) {
    const uint4 h = *reinterpret_cast<const uint4*>(header);
    scales[0] = h.y & 0x3F3F3F3Fu;
    scales[1] = (h.w & 0x0F0F0F0Fu) | (h.y >> 2 & 0x30303030u);
    minima[0] = h.z & 0x3F3F3F3Fu;
    minima[1] = (h.w >> 4 & 0x0F0F0F0Fu) | (h.z >> 2 & 0x30303030u);
    d = half_of(h.x);
    dmin = half_of(h.x >> 16);
  }
  // For quants of odd groups, which are 16 times too large: divides their scale by 16.
  RF_DEVICE static float scale_in(uint32_t word, uint32_t byte, uint32_t q) {
    const float lifted = lifted_byte(word, byte);
    return q % 2 == 0 ? lifted - 8388608.0f : fmaf(lifted, 0.0625f, -524288.0f);
  }
  RF_DEVICE float scale(uint32_t q) const { return scale_in(scales[q / 4], q % 4, q); }
  RF_DEVICE float own_scale(uint32_t t, uint32_t i) const {
    return scale_in(t < 2 ? scales[0] : scales[1], t % 2 * 2 + i, i);
  }
  RF_DEVICE uint32_t bottoms(uint32_t t) const { return two_bytes(t < 2 ? minima[0] : minima[1], t % 2 * 2); }
  RF_DEVICE float common() const { return d * kLevelUnit; }
  RF_DEVICE float lift() const { return -dmin * kLevelUnit; }
};

template <>
struct Strip<formats::Q4K> {
  static constexpr StripPlane kPlanes[] = {{128, 0}, {16, 128}};
  static constexpr uint32_t kStride = 160;
  static constexpr bool kWide = true;
  static constexpr uint32_t kScales = 1;
  static constexpr bool kBottoms = true;
  struct Row {
    const uint8_t* at;
    uint32_t t;
    KScales header;
    uint2 w, shifted;
    RF_DEVICE Row(const uint8_t* staged, uint32_t quarter, float)
        : at(staged + 8 * quarter), t(quarter), header(staged + 128) {}
    // High nibbles are used in place, 16 times too large; their scale compensates.
    RF_DEVICE void decode(uint32_t q, uint32_t (&first)[2], uint32_t (&second)[2]) {
      if (q % 2 == 0) {
        w = words_at(at + 16 * q);
        shifted = {w.x >> 8, w.y >> 8};
      }
      const uint32_t mask = q % 2 == 0 ? 0x000F000Fu : 0x00F000F0u;
      first[0] = w.x & mask;
      first[1] = shifted.x & mask;
      second[0] = w.y & mask;
      second[1] = shifted.y & mask;
    }
    RF_DEVICE float scale(uint32_t q, uint32_t) const { return header.scale(q); }
    RF_DEVICE float own_scale(uint32_t i, uint32_t) const { return header.own_scale(t, i); }
    RF_DEVICE uint32_t bottoms(uint32_t) const { return header.bottoms(t); }
    RF_DEVICE float common() const { return header.common(); }
    RF_DEVICE float lift() const { return header.lift(); }
  };
};

template <>
struct Strip<formats::Q5K> {
  static constexpr StripPlane kPlanes[] = {{128, 0}, {32, 128}, {16, 160}};
  static constexpr uint32_t kStride = 224;
  static constexpr bool kWide = true;
  static constexpr uint32_t kScales = 1;
  static constexpr bool kBottoms = true;
  struct Row {
    const uint8_t* at;
    uint32_t t;
    KScales header;
    uint2 w, qh;
    RF_DEVICE Row(const uint8_t* staged, uint32_t quarter, float)
        : at(staged + 8 * quarter), t(quarter), header(staged + 160), qh(words_at(at + 128)) {}
    // High nibbles are used in place here, too: their fifth bits go to bit 8.
    RF_DEVICE void decode(uint32_t q, uint32_t (&first)[2], uint32_t (&second)[2]) {
      if (q % 2 == 0) w = words_at(at + 16 * q);
      const auto pairs = [&](uint32_t(&out)[2], uint32_t nibbles, uint32_t fifth) {
        const uint32_t mask = q % 2 == 0 ? 0x000F000Fu : 0x00F000F0u, bit = q % 2 == 0 ? 0x00100010u : 0x01000100u;
        const int up = (q % 2 == 0 ? 4 : 8) - static_cast<int>(q);  // shift of the bits of bytes 0 and 2
        const auto moved = [&](int by) { return by >= 0 ? fifth << by : fifth >> -by; };
        out[0] = (nibbles & mask) | (moved(up) & bit);
        out[1] = (nibbles >> 8 & mask) | (moved(up - 8) & bit);
      };
      pairs(first, w.x, qh.x);
      pairs(second, w.y, qh.y);
    }
    RF_DEVICE float scale(uint32_t q, uint32_t) const { return header.scale(q); }
    RF_DEVICE float own_scale(uint32_t i, uint32_t) const { return header.own_scale(t, i); }
    RF_DEVICE uint32_t bottoms(uint32_t) const { return header.bottoms(t); }
    RF_DEVICE float common() const { return header.common(); }
    RF_DEVICE float lift() const { return header.lift(); }
  };
};

template <>
struct Strip<formats::Q6K> {
  static constexpr StripPlane kPlanes[] = {{128, 0}, {64, 128}, {16, 192}, {2, 0}};
  static constexpr uint32_t kStride = 208;
  static constexpr bool kWide = false;
  static constexpr uint32_t kScales = 2;
  static constexpr bool kBottoms = true;
  struct Row {
    const uint8_t* at;
    uint32_t t;
    uint32_t scales[4];  // stored with an offset of 128
    float d;
    uint32_t low[2][2], high[2];  // [run % 2][h], [h]
    RF_DEVICE Row(const uint8_t* staged, uint32_t quarter, float d_apart)
        : at(staged + 4 * quarter), t(quarter), d(d_apart) {
      const uint4 s = *reinterpret_cast<const uint4*>(staged + 192);
      scales[0] = s.x ^ 0x80808080u, scales[1] = s.y ^ 0x80808080u;
      scales[2] = s.z ^ 0x80808080u, scales[3] = s.w ^ 0x80808080u;
    }
    // Runs 2 and 3 are the high nibbles, used in place: 16 times too large.
    RF_DEVICE void decode(uint32_t q, uint32_t (&first)[2], uint32_t (&second)[2]) {
      const uint32_t half = q / 4, run = q % 4;
      if (run == 0) {
        for (uint32_t h = 0; h < 2; h++) {
          low[0][h] = word_at(at + 64 * half + 16 * h);
          low[1][h] = word_at(at + 64 * half + 32 + 16 * h);
          high[h] = word_at(at + 128 + 32 * half + 16 * h);
        }
      }
      const auto pairs = [&](uint32_t(&out)[2], uint32_t nibbles, uint32_t upper) {
        const uint32_t mask = run < 2 ? 0x000F000Fu : 0x00F000F0u, bits = run < 2 ? 0x00300030u : 0x03000300u;
        const uint32_t up = run % 2 == 0 ? 4 : 2;
        out[0] = (nibbles & mask) | (upper << up & bits);
        out[1] = (nibbles >> 8 & mask) | (upper >> (8 - up) & bits);
      };
      pairs(first, low[run % 2][0], high[0]);
      pairs(second, low[run % 2][1], high[1]);
    }
    RF_DEVICE float scale(uint32_t q, uint32_t h) const {
      const float lifted = lifted_byte(scales[q / 2], q % 2 * 2 + h);
      return q % 4 < 2 ? lifted - 8388736.0f : fmaf(lifted, 0.0625f, -524296.0f);
    }
    RF_DEVICE float own_scale(uint32_t i, uint32_t h) const {
      const float lifted = lifted_byte(word_at(at + 192) ^ 0x80808080u, 2 * i + h);
      return t % 2 == 0 ? lifted - 8388736.0f : fmaf(lifted, 0.0625f, -524296.0f);
    }
    RF_DEVICE uint32_t bottoms(uint32_t i) const {
      return two_shifted_bytes(t < 2 ? scales[2 * i] : scales[2 * i + 1], t % 2 * 2);
    }
    RF_DEVICE float common() const { return d * kLevelUnit; }
    RF_DEVICE float lift() const { return -32.0f * d; }
  };
};

// Q2_K and Q3_K: each half of a block has four runs of 32 weights, two bits of each run in a byte.
template <>
struct Strip<formats::Q2K> {
  static constexpr StripPlane kPlanes[] = {{64, 0}, {16, 64}, {4, 80}};
  static constexpr uint32_t kStride = 112;
  static constexpr bool kWide = false;
  static constexpr uint32_t kScales = 2;
  static constexpr bool kBottoms = true;
  struct Row {
    const uint8_t* at;
    uint32_t t;
    uint32_t scales[4];
    float d, dmin;
    RF_DEVICE Row(const uint8_t* staged, uint32_t quarter, float) : at(staged + 4 * quarter), t(quarter) {
      const uint4 s = *reinterpret_cast<const uint4*>(staged + 64);
      scales[0] = s.x, scales[1] = s.y, scales[2] = s.z, scales[3] = s.w;
      const uint32_t both = word_at(staged + 80);
      d = half_of(both);
      dmin = half_of(both >> 16);
    }
    RF_DEVICE void decode(uint32_t q, uint32_t (&first)[2], uint32_t (&second)[2]) {
      const uint32_t shift = q % 4 * 2;
      pairs_of_bytes(first, word_at(at + q / 4 * 32) >> shift & 0x03030303u);
      pairs_of_bytes(second, word_at(at + q / 4 * 32 + 16) >> shift & 0x03030303u);
    }
    RF_DEVICE float scale(uint32_t q, uint32_t h) const {
      return lifted_byte(scales[q / 2] & 0x0F0F0F0Fu, q % 2 * 2 + h) - 8388608.0f;
    }
    RF_DEVICE float own_scale(uint32_t i, uint32_t h) const {
      return lifted_byte(word_at(at + 64) & 0x0F0F0F0Fu, 2 * i + h) - 8388608.0f;
    }
    RF_DEVICE uint32_t bottoms(uint32_t i) const {
      return two_bytes((t < 2 ? scales[2 * i] : scales[2 * i + 1]) >> 4 & 0x0F0F0F0Fu, t % 2 * 2);
    }
    RF_DEVICE float common() const { return d * kLevelUnit; }
    RF_DEVICE float lift() const { return -dmin * kLevelUnit; }
  };
};

template <>
struct Strip<formats::Q3K> {
  static constexpr StripPlane kPlanes[] = {{64, 0}, {32, 64}, {12, 96}, {2, 0}};
  static constexpr uint32_t kStride = 112;
  static constexpr bool kWide = false;
  static constexpr uint32_t kScales = 2;
  static constexpr bool kBottoms = true;
  struct Row {
    const uint8_t* at;
    uint32_t t;
    uint32_t scales[4];  // stored with an offset of 96: six bits plus 64
    float d;
    RF_DEVICE Row(const uint8_t* staged, uint32_t quarter, float d_apart)
        : at(staged + 4 * quarter), t(quarter), d(d_apart) {
      const uint32_t low[2] = {word_at(staged + 96), word_at(staged + 100)}, high = word_at(staged + 104);
      for (uint32_t i = 0; i < 4; i++) {
        scales[i] = (low[i % 2] >> i / 2 * 4 & 0x0F0F0F0Fu) | (high >> 2 * i & 0x03030303u) << 4 | 0x40404040u;
      }
    }
    RF_DEVICE void decode(uint32_t q, uint32_t (&first)[2], uint32_t (&second)[2]) {
      const auto levels = [&](uint32_t h) {
        const uint32_t low = word_at(at + q / 4 * 32 + 16 * h) >> q % 4 * 2 & 0x03030303u;
        return low | (word_at(at + 64 + 16 * h) >> q & 0x01010101u) << 2;
      };
      pairs_of_bytes(first, levels(0));
      pairs_of_bytes(second, levels(1));
    }
    RF_DEVICE float scale(uint32_t q, uint32_t h) const {
      return lifted_byte(scales[q / 2], q % 2 * 2 + h) - 8388704.0f;
    }
    RF_DEVICE float own_scale(uint32_t i, uint32_t h) const {
      const uint32_t low = t % 2 == 0 ? scales[0] : scales[1], high = t % 2 == 0 ? scales[2] : scales[3];
      return lifted_byte(t < 2 ? low : high, 2 * i + h) - 8388704.0f;
    }
    RF_DEVICE uint32_t bottoms(uint32_t i) const {
      const uint32_t word = t < 2 ? scales[2 * i] : scales[2 * i + 1];
      return add_halves(__byte_perm(word, 0x64646464u, 0x4140 + 0x101 * (t % 2 * 2)), 0xE460E460u);  // minus 1120
    }
    RF_DEVICE float common() const { return d * kLevelUnit; }
    RF_DEVICE float lift() const { return -4.0f * d; }
  };
};

}  // namespace rocmforge::gpu::RF_KERNELS
