#pragma once
// The common quantized formats as matrix instructions take them: sixteen rows of 256 weights, brought from their planes
// (packed/planes.h) into shared memory, then decoded into the left operand of m16n8k16.
//
// Levels are not converted: the bits of an unsigned level are, read as a half, that level times 2^-24 (a subnormal,
// which the matrix unit multiplies exactly). What makes weights of them is applied to sums. Over the groups of 256
// columns, a group having one scale and one minimum,
//
//   sum of weight * x  =  common * (sum over groups of scale * (sum of level * x))
//                         + lift * (sum over groups of bottom * (sum of x))
//
// where the second sum over groups is one more matrix product, of the groups' bottoms.
//
// Strip<Block> says, for its format,
//
//   kPlanes   what of each plane belongs to 256 weights, and where a staged row has it. Two bytes are too few to be
//             brought alone: behind the rows there is, for each, the word they are in
//   kStride   from one staged row to the next: chosen so that eight rows meet no bank twice
//   kWide     of 32 weights, lane t of four decodes 8t .. 8t + 7; otherwise 4t .. 4t + 3 and 16 + 4t .. 19 + 4t
//   kScales   groups in 32 weights: 1, or 2, and then not kWide
//   kBottoms  whether there are any
//   Row       lane t's view of a staged row and of its d, if that lies apart. For q = 0 .. 7 in order
//             decode(q, first, second)   its weights of group q: the pairs (0, 2) (1, 3) and (4, 6) (5, 7)
//             scale(q, h)
//             bottoms(i)                 two halves: of groups 8i + 2t and the next one
//             common(), lift()

#include "gpu/packed/planes.h"
#include "gpu/runtime.h"
#include "tensor/formats/all.h"

namespace rocmforge::gpu::RF_KERNELS {

struct StripPlane {
  uint32_t n_bytes;  // of 256 weights
  uint32_t offset;   // in a staged row
};

inline constexpr float kLevelUnit = 16777216.0f;  // 2^24

RF_DEVICE uint32_t word_at(const uint8_t* at) {
  return *reinterpret_cast<const uint32_t*>(at);
}
RF_DEVICE uint2 words_at(const uint8_t* at) {
  return *reinterpret_cast<const uint2*>(at);
}
RF_DEVICE float half_of(uint32_t bits) {
  return widen(F16{static_cast<uint16_t>(bits)});
}
RF_DEVICE float half_in(const uint8_t* at) {
  return widen(F16{*reinterpret_cast<const uint16_t*>(at)});
}
RF_DEVICE uint32_t add_halves(uint32_t a, uint32_t b) {
  const __half2 sum = __hadd2(*reinterpret_cast<__half2*>(&a), *reinterpret_cast<__half2*>(&b));
  return *reinterpret_cast<const uint32_t*>(&sum);
}

// Byte i of a word, plus 2^23.
RF_DEVICE float lifted_byte(uint32_t word, uint32_t i) {
  return __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7650 + i));
}
// Bytes i and i + 1 of a word as subnormal halves.
RF_DEVICE uint32_t two_bytes(uint32_t word, uint32_t i) {
  return __byte_perm(word, 0, 0x4140 + 0x101 * i);
}
// Bytes i and i + 1, each 128 too large, as the halves of what they stand for.
RF_DEVICE uint32_t two_shifted_bytes(uint32_t word, uint32_t i) {
  return add_halves(__byte_perm(word, 0x64646464u, 0x4140 + 0x101 * i), 0xE480E480u);  // 1024 + byte, minus 1152
}

// Four bytes b0 .. b3 as the pairs (b0, b2) and (b1, b3) of halves.
RF_DEVICE void pairs_of_bytes(uint32_t (&out)[2], uint32_t bytes) {
  out[0] = bytes & 0x00FF00FFu;
  out[1] = bytes >> 8 & 0x00FF00FFu;
}
RF_DEVICE void decode_nibbles(uint32_t (&low)[2], uint32_t (&high)[2], uint32_t bytes) {
  pairs_of_bytes(low, bytes & 0x0F0F0F0Fu);
  pairs_of_bytes(high, bytes >> 4 & 0x0F0F0F0Fu);
}

// A staged row as the formats with one half d for 32 weights have it; kAt: where d is, every kStep bytes.
template <uint32_t kAt, uint32_t kStep, int kOffset>
struct HalfScales {
  const uint8_t* at;
  uint32_t t;
  RF_DEVICE HalfScales(const uint8_t* staged, uint32_t quarter, float) : at(staged), t(quarter) {}
  RF_DEVICE float scale(uint32_t q, uint32_t) const { return half_in(at + kAt + kStep * q); }
  // What is subtracted from every level, times d; or, with a step of four, the half that comes after d.
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

template <class Block>
struct Strip;

// Blocks of 32 with 16 bytes of nibbles: the low ones are the first sixteen weights.
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

// Four bits, one into bit 4 of each byte.
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

// Formats whose four bits are the number of a level, of which there are sixteen, a byte each.
struct LevelBytes {
  uint32_t v[4];
};
// The levels of eight numbers: of the low nibbles of bytes 0 and 2, 1 and 3 in the even bytes of `low_of`, of the high
// ones in the odd bytes.
RF_DEVICE void look_up(uint32_t (&low_of)[2], uint32_t w, const LevelBytes& table) {
  const uint32_t low_three = w & 0x77777777u, choice = 0x32103210u | (w & 0x88888888u) >> 1;
  const auto four = [&](uint32_t shift) {  // the levels of the nibbles of 16 bits, in their order
    return __byte_perm(__byte_perm(table.v[0], table.v[1], low_three >> shift),
                       __byte_perm(table.v[2], table.v[3], low_three >> shift), choice >> shift);
  };
  const uint32_t x = four(0), y = four(16);
  low_of[0] = __byte_perm(x, y, 0x5410);
  low_of[1] = __byte_perm(x, y, 0x7632);
}
// Levels of the IQ4 formats, 128 more than they are, so that none is negative.
RF_DEVICE void decode_iq4(uint32_t (&first)[2], uint32_t (&second)[2], uint32_t w) {
  uint32_t both[2];
  look_up(both, w, {{0x3F2D1801u, 0x766A5D4Fu, 0xA6998D81u, 0xF1D9C5B5u}});
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

// The levels of E2M1 are halves whose lower byte is zero.
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
    RF_DEVICE uint32_t bottoms(uint32_t) const {
      const uint32_t both = six_bits(2 * t) | six_bits(2 * t + 1) << 16;
      return add_halves(both | 0x64006400u, 0xE420E420u);  // 1024 + six bits, minus 1056
    }
    RF_DEVICE float common() const { return d * kLevelUnit; }
    RF_DEVICE float lift() const { return -128.0f * d; }
  };
};

// The scales and minima of Q4_K and Q5_K, a byte each.
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
    // High nibbles stay where they are, sixteen times too large; their scale makes up for it.
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
    RF_DEVICE float scale(uint32_t q, uint32_t) const {
      const float lifted = lifted_byte(header.scales[q / 4], q % 4);
      return q % 2 == 0 ? lifted - 8388608.0f : fmaf(lifted, 0.0625f, -524288.0f);
    }
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
    // High nibbles stay where they are here, too: their fifth bits go to bit 8.
    RF_DEVICE void decode(uint32_t q, uint32_t (&first)[2], uint32_t (&second)[2]) {
      if (q % 2 == 0) w = words_at(at + 16 * q);
      const auto pairs = [&](uint32_t(&out)[2], uint32_t nibbles, uint32_t fifth) {
        const uint32_t mask = q % 2 == 0 ? 0x000F000Fu : 0x00F000F0u, bit = q % 2 == 0 ? 0x00100010u : 0x01000100u;
        const int up = (q % 2 == 0 ? 4 : 8) - static_cast<int>(q);  // of the bits of bytes 0 and 2
        const auto moved = [&](int by) { return by >= 0 ? fifth << by : fifth >> -by; };
        out[0] = (nibbles & mask) | (moved(up) & bit);
        out[1] = (nibbles >> 8 & mask) | (moved(up - 8) & bit);
      };
      pairs(first, w.x, qh.x);
      pairs(second, w.y, qh.y);
    }
    RF_DEVICE float scale(uint32_t q, uint32_t) const {
      const float lifted = lifted_byte(header.scales[q / 4], q % 4);
      return q % 2 == 0 ? lifted - 8388608.0f : fmaf(lifted, 0.0625f, -524288.0f);
    }
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
    uint32_t scales[4];  // 128 more than they are
    float d;
    uint32_t low[2][2], high[2];  // [run % 2][h], [h]
    RF_DEVICE Row(const uint8_t* staged, uint32_t quarter, float d_apart)
        : at(staged + 4 * quarter), t(quarter), d(d_apart) {
      const uint4 s = *reinterpret_cast<const uint4*>(staged + 192);
      scales[0] = s.x ^ 0x80808080u, scales[1] = s.y ^ 0x80808080u;
      scales[2] = s.z ^ 0x80808080u, scales[3] = s.w ^ 0x80808080u;
    }
    // Runs 2 and 3 are the high nibbles, which stay where they are: sixteen times too large.
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
    RF_DEVICE uint32_t bottoms(uint32_t i) const {
      return two_shifted_bytes(t < 2 ? scales[2 * i] : scales[2 * i + 1], t % 2 * 2);
    }
    RF_DEVICE float common() const { return d * kLevelUnit; }
    RF_DEVICE float lift() const { return -32.0f * d; }
  };
};

// Q2_K and Q3_K: each half of a block has four runs of 32 weights, two bits of each in a byte.
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
    uint32_t scales[4];  // 96 more than they are: six bits and 64
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
    RF_DEVICE uint32_t bottoms(uint32_t i) const {
      const uint32_t word = t < 2 ? scales[2 * i] : scales[2 * i + 1];
      return add_halves(__byte_perm(word, 0x64646464u, 0x4140 + 0x101 * (t % 2 * 2)), 0xE460E460u);  // minus 1120
    }
    RF_DEVICE float common() const { return d * kLevelUnit; }
    RF_DEVICE float lift() const { return -4.0f * d; }
  };
};

}  // namespace rocmforge::gpu::RF_KERNELS
