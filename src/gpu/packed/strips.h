#pragma once
// The strips (packed/strip.h) of all formats that have them; this file has those with 32 weights per scale.

#include "gpu/packed/strip.h"
#include "gpu/packed/strips_k.h"

namespace rocmforge::gpu::RF_KERNELS {

// A staged row of formats with one half d per 32 weights; d is at kAt, every kStep bytes.
template <uint32_t kAt, uint32_t kStep, int kOffset>
struct HalfScales {
  const uint8_t* at;
  uint32_t t;
  RF_DEVICE HalfScales(const uint8_t* staged, uint32_t quarter, float) : at(staged), t(quarter) {}
  RF_DEVICE float scale(uint32_t q, uint32_t) const { return half_in(at + kAt + kStep * q); }
  RF_DEVICE float own_scale(uint32_t i, uint32_t) const { return scale(2 * t + i, 0); }
  // The minimum: the offset subtracted from every quant, times d; or, with a step of four, the half that follows d.
  RF_DEVICE uint32_t bottoms(uint32_t) const {
    if constexpr (kStep == 2) {
      return word_at(at + kAt + 4 * t);
    } else {
      const uint2 both = words_at(at + kAt + 8 * t);
      return __byte_perm(both.x, both.y, 0x7632);
    }
  }
  RF_DEVICE float common() const { return kLevelUnit; }
  RF_DEVICE float lift() const { return kStep == 2 ? -static_cast<float>(kOffset) : 1.0f; }
};

// Blocks of 32 weights in 16 bytes: the low nibbles are the first sixteen weights.
struct NibbleStrip {
  static constexpr bool kWide = false;
  static constexpr uint32_t kScales = 1;
  static constexpr bool kBottoms = true;
};

template <>
struct Strip<formats::Q4_0> : NibbleStrip {
  static constexpr StripPlane kPlanes[] = {{128, 0}, {16, 128}};
  static constexpr uint32_t kStride = 144;
  struct Row : HalfScales<128, 2, 8> {
    using HalfScales::HalfScales;
    RF_DEVICE void decode(uint32_t q, uint32_t (&first)[2], uint32_t (&second)[2]) {
      decode_nibbles(first, second, word_at(at + 16 * q + 4 * t));
    }
  };
};

template <>
struct Strip<formats::Q4_1> : NibbleStrip {
  static constexpr StripPlane kPlanes[] = {{128, 0}, {32, 128}};
  static constexpr uint32_t kStride = 176;
  struct Row : HalfScales<128, 4, 0> {
    using HalfScales::HalfScales;
    RF_DEVICE void decode(uint32_t q, uint32_t (&first)[2], uint32_t (&second)[2]) {
      decode_nibbles(first, second, word_at(at + 16 * q + 4 * t));
    }
  };
};

// Four bits, each moved to bit 4 of a byte of its own.
RF_DEVICE uint32_t fifth_bits(uint32_t bits) {
  return ((bits & 0xFu) * 0x00204081u & 0x01010101u) << 4;
}
RF_DEVICE void decode_five_bits(uint32_t (&first)[2], uint32_t (&second)[2], uint32_t w, uint32_t qh, uint32_t t) {
  pairs_of_bytes(first, (w & 0x0F0F0F0Fu) | fifth_bits(qh >> 4 * t));
  pairs_of_bytes(second, (w >> 4 & 0x0F0F0F0Fu) | fifth_bits(qh >> (16 + 4 * t)));
}

template <>
struct Strip<formats::Q5_0> : NibbleStrip {
  static constexpr StripPlane kPlanes[] = {{128, 0}, {32, 128}, {16, 160}};
  static constexpr uint32_t kStride = 176;
  struct Row : HalfScales<160, 2, 16> {
    using HalfScales::HalfScales;
    RF_DEVICE void decode(uint32_t q, uint32_t (&first)[2], uint32_t (&second)[2]) {
      decode_five_bits(first, second, word_at(at + 16 * q + 4 * t), word_at(at + 128 + 4 * q), t);
    }
  };
};

template <>
struct Strip<formats::Q5_1> : NibbleStrip {
  static constexpr StripPlane kPlanes[] = {{128, 0}, {32, 128}, {32, 160}};
  static constexpr uint32_t kStride = 208;
  struct Row : HalfScales<160, 4, 0> {
    using HalfScales::HalfScales;
    RF_DEVICE void decode(uint32_t q, uint32_t (&first)[2], uint32_t (&second)[2]) {
      decode_five_bits(first, second, word_at(at + 16 * q + 4 * t), word_at(at + 128 + 4 * q), t);
    }
  };
};

template <>
struct Strip<formats::Q8_0> {
  static constexpr StripPlane kPlanes[] = {{256, 0}, {16, 256}};
  static constexpr uint32_t kStride = 288;
  static constexpr bool kWide = true;
  static constexpr uint32_t kScales = 1;
  static constexpr bool kBottoms = true;
  struct Row : HalfScales<256, 2, 128> {
    using HalfScales::HalfScales;
    RF_DEVICE void decode(uint32_t q, uint32_t (&first)[2], uint32_t (&second)[2]) {
      const uint2 w = words_at(at + 32 * q + 8 * t);
      pairs_of_bytes(first, w.x ^ 0x80808080u);
      pairs_of_bytes(second, w.y ^ 0x80808080u);
    }
  };
};

// Formats whose four bits index a table of sixteen values, a byte each.
struct LevelBytes {
  uint32_t v[4];
};
// Looks up eight codes: the values for the low nibbles of bytes 0 and 2, 1 and 3 go to the even bytes of `low_of`,
// those for the high nibbles to the odd bytes.
RF_DEVICE void look_up(uint32_t (&low_of)[2], uint32_t w, const LevelBytes& table) {
  const uint32_t low_three = w & 0x77777777u, choice = 0x32103210u | (w & 0x88888888u) >> 1;
  const auto four = [&](uint32_t shift) {  // the values for the nibbles of 16 bits, in order
    return __byte_perm(__byte_perm(table.v[0], table.v[1], low_three >> shift),
                       __byte_perm(table.v[2], table.v[3], low_three >> shift), choice >> shift);
  };
  const uint32_t x = four(0), y = four(16);
  low_of[0] = __byte_perm(x, y, 0x5410);
  low_of[1] = __byte_perm(x, y, 0x7632);
}
// Values of the IQ4 formats, with an offset of 128 so that none is negative.
RF_DEVICE void decode_iq4(uint32_t (&first)[2], uint32_t (&second)[2], uint32_t w) {
  uint32_t both[2];
  constexpr formats::FourBitLevels kLevels = formats::kIq4Levels;
  constexpr LevelBytes kTable = {
      {kLevels.word(0, 128), kLevels.word(1, 128), kLevels.word(2, 128), kLevels.word(3, 128)}};
  look_up(both, w, kTable);
  for (int i = 0; i < 2; i++) {
    first[i] = both[i] & 0x00FF00FFu;
    second[i] = both[i] >> 8 & 0x00FF00FFu;
  }
}

template <>
struct Strip<formats::Iq4Nl> : NibbleStrip {
  static constexpr StripPlane kPlanes[] = {{128, 0}, {16, 128}};
  static constexpr uint32_t kStride = 144;
  struct Row : HalfScales<128, 2, 128> {
    using HalfScales::HalfScales;
    RF_DEVICE void decode(uint32_t q, uint32_t (&first)[2], uint32_t (&second)[2]) {
      decode_iq4(first, second, word_at(at + 16 * q + 4 * t));
    }
  };
};

// The E2M1 values are halves whose lower byte is zero.
template <>
struct Strip<formats::Mxfp4> {
  static constexpr StripPlane kPlanes[] = {{128, 0}, {8, 128}};
  static constexpr uint32_t kStride = 144;
  static constexpr bool kWide = false;
  static constexpr uint32_t kScales = 1;
  static constexpr bool kBottoms = false;
  struct Row {
    const uint8_t* at;
    uint32_t t;
    RF_DEVICE Row(const uint8_t* staged, uint32_t quarter, float) : at(staged), t(quarter) {}
    RF_DEVICE void decode(uint32_t q, uint32_t (&first)[2], uint32_t (&second)[2]) {
      uint32_t both[2];
      look_up(both, word_at(at + 16 * q + 4 * t), {{0x3E3C3800u, 0x46444240u, 0xBEBCB880u, 0xC6C4C2C0u}});
      for (int i = 0; i < 2; i++) {
        first[i] = both[i] << 8 & 0xFF00FF00u;
        second[i] = both[i] & 0xFF00FF00u;
      }
    }
    RF_DEVICE float scale(uint32_t q, uint32_t) const { return formats::e8m0_halved(at[128 + q]); }
    RF_DEVICE float own_scale(uint32_t i, uint32_t) const { return scale(2 * t + i, 0); }
    RF_DEVICE uint32_t bottoms(uint32_t) const { return 0; }
    RF_DEVICE float common() const { return 2.0f; }
    RF_DEVICE float lift() const { return 0.0f; }
  };
};

template <>
struct Strip<formats::Iq4Xs> : NibbleStrip {
  static constexpr StripPlane kPlanes[] = {{128, 0}, {8, 128}};
  static constexpr uint32_t kStride = 144;
  struct Row {
    const uint8_t* at;
    uint32_t t;
    uint32_t low, high;
    float d;
    RF_DEVICE Row(const uint8_t* staged, uint32_t quarter, float) : at(staged), t(quarter) {
      const uint2 header = words_at(staged + 128);
      d = half_of(header.x);
      high = header.x >> 16;
      low = header.y;
    }
    RF_DEVICE void decode(uint32_t q, uint32_t (&first)[2], uint32_t (&second)[2]) {
      decode_iq4(first, second, word_at(at + 16 * q + 4 * t));
    }
    RF_DEVICE uint32_t six_bits(uint32_t q) const { return (low >> 4 * q & 0xFu) | (high >> 2 * q & 3u) << 4; }
    RF_DEVICE float scale(uint32_t q, uint32_t) const { return static_cast<float>(static_cast<int>(six_bits(q)) - 32); }
    RF_DEVICE float own_scale(uint32_t i, uint32_t) const { return scale(2 * t + i, 0); }
    RF_DEVICE uint32_t bottoms(uint32_t) const {
      const uint32_t both = six_bits(2 * t) | six_bits(2 * t + 1) << 16;
      return add_halves(both | 0x64006400u, 0xE420E420u);  // 1024 + six bits, minus 1056
    }
    RF_DEVICE float common() const { return d * kLevelUnit; }
    RF_DEVICE float lift() const { return -128.0f * d; }
  };
};

}  // namespace rocmforge::gpu::RF_KERNELS
