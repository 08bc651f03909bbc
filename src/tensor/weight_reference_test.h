#pragma once
// For tests: weight i of a block, straight from its bytes, one weight at a time. Deliberately slow and plain, and
// written from the formats' bit layouts rather than from the decoders: byte offsets instead of structs, no loops, no
// tables except the codebooks (whose entries codec_test checks separately).

#include <cmath>
#include <cstdint>

#include "base/bytes.h"
#include "base/check.h"
#include "tensor/dtype.h"
#include "tensor/formats/iq_tables.h"
#include "tensor/half.h"

namespace rocmforge::testing {

class WeightReference {
 public:
  explicit WeightReference(const void* block) : b_(static_cast<const uint8_t*>(block)) {}

  float weight(DType dtype, int i) const {
    switch (dtype) {
      case DType::f32:
        return load_le<float>(b_);
      case DType::f16:
        return f16(0);
      case DType::bf16:
        return std::bit_cast<float>(static_cast<uint32_t>(u16(0)) << 16);
      case DType::q1_0:
        return bits(2, i, 1) ? f16(0) : -f16(0);
      case DType::q2_0:
        return f16(0) * static_cast<float>(bits(2, 2 * i, 2) - 1);
      case DType::q4_0:
        return f16(0) * static_cast<float>(split_nibble(2, i, 16) - 8);
      case DType::q4_1:
        return f16(0) * static_cast<float>(split_nibble(4, i, 16)) + f16(2);
      case DType::q5_0:
        return f16(0) * static_cast<float>(split_nibble(6, i, 16) + 16 * bits(2, i, 1) - 16);
      case DType::q5_1:
        return f16(0) * static_cast<float>(split_nibble(8, i, 16) + 16 * bits(4, i, 1)) + f16(2);
      case DType::q8_0:
        return f16(0) * static_cast<float>(static_cast<int8_t>(b_[2 + i]));
      case DType::q2_k: {
        const int scale = b_[i / 16];
        const float minimum = f16(82) * static_cast<float>(scale / 16);
        return f16(80) * static_cast<float>(scale % 16) * static_cast<float>(two_bits(16, i)) - minimum;
      }
      case DType::q3_k: {
        const int s = i / 16;
        const int low = s < 8 ? b_[96 + s] % 16 : b_[96 + s - 8] / 16;
        const int scale = low + 16 * bits(104 + s % 4, s / 4 * 2, 2) - 32;
        const int level = two_bits(32, i) + 4 * bits(i % 32, i / 32, 1) - 4;
        return f16(108) * static_cast<float>(scale) * static_cast<float>(level);
      }
      case DType::q4_k:
        return scaled_k(i, split_nibble(16 + i / 64 * 32, i % 64, 32));
      case DType::q5_k:
        return scaled_k(i, split_nibble(48 + i / 64 * 32, i % 64, 32) + 16 * bits(16 + i % 32, i / 32, 1));
      case DType::q6_k: {
        const int low = split_nibble(i / 128 * 64, i % 128, 64);
        const int level = low + 16 * two_bits(128, i) - 32;
        return f16(208) * static_cast<float>(static_cast<int8_t>(b_[192 + i / 16])) * static_cast<float>(level);
      }
      case DType::iq1_s: {
        const int qh = u16(34 + i / 32 * 2);
        const int index = b_[2 + i / 8] + 256 * (qh >> i / 8 % 4 * 3 & 7);
        return f16(0) * static_cast<float>(2 * (qh >> 12 & 7) + 1) * iq1_level(index, i, qh >> 15 & 1);
      }
      case DType::iq1_m: {
        const F16 d{static_cast<uint16_t>(b_[49] / 16 + b_[51] / 16 * 16 + b_[53] / 16 * 256 + b_[55] / 16 * 4096)};
        const int scale = bits(48 + i / 64 * 2, i / 16 % 4 * 3, 3);
        const int index = b_[i / 8] + 256 * bits(32, i / 8 * 4, 3);
        return to_float(d) * static_cast<float>(2 * scale + 1) * iq1_level(index, i, bits(32, i / 8 * 4 + 3, 1));
      }
      case DType::iq2_xxs: {
        const int group = 2 + i / 32 * 8;
        const int level = iq2_level(formats::iq2_xxs_code(b_[group + i / 8 % 4]), i);
        return f16(0) * (0.5f + static_cast<float>(bits(group + 4, 28, 4))) * 0.25f *
               even_sign(bits(group + 4, i / 8 % 4 * 7, 7), i % 8) * static_cast<float>(level);
      }
      case DType::iq2_xs: {
        const int q = u16(2 + i / 8 * 2);
        return f16(0) * (0.5f + static_cast<float>(bits(66, i / 16 * 4, 4))) * 0.25f * even_sign(q / 512, i % 8) *
               static_cast<float>(iq2_level(formats::iq2_xs_code(q % 512), i));
      }
      case DType::iq2_s: {
        const uint32_t code = formats::iq2_s_code(b_[2 + i / 8] + 256 * bits(66, i / 8 * 2, 2));
        return f16(0) * (0.5f + static_cast<float>(bits(74, i / 16 * 4, 4))) * 0.25f * sign(bits(34, i, 1)) *
               static_cast<float>(iq2_level(code, i));
      }
      case DType::iq3_xxs: {
        const int field = iq3_field(formats::iq3_xxs_code(b_[2 + i / 4]), i);
        const int word = 66 + i / 32 * 4;
        return f16(0) * (0.5f + static_cast<float>(bits(word, 28, 4))) * 0.5f *
               even_sign(bits(word, i / 8 % 4 * 7, 7), i % 8) * static_cast<float>(field == 7 ? 62 : 8 * field + 4);
      }
      case DType::iq3_s: {
        const int field = iq3_field(formats::iq3_s_code(b_[2 + i / 4] + 256 * bits(66, i / 4, 1)), i);
        return f16(0) * static_cast<float>(1 + 2 * bits(106, i / 32 * 4, 4)) * sign(bits(74, i, 1)) *
               static_cast<float>(2 * field + 1);
      }
      case DType::iq4_nl:
        return f16(0) * iq4_level(split_nibble(2, i, 16));
      case DType::iq4_xs: {
        const int scale = bits(4, i / 32 * 4, 4) + 16 * bits(2, i / 32 * 2, 2) - 32;
        return f16(0) * static_cast<float>(scale) * iq4_level(split_nibble(8 + i / 32 * 16, i % 32, 16));
      }
      case DType::tq1_0: {
        const int k = i < 160 ? i / 32 : i < 240 ? (i - 160) / 16 : (i - 240) / 4;
        const int byte = i < 160 ? i % 32 : i < 240 ? 32 + (i - 160) % 16 : 48 + (i - 240) % 4;
        const int shifted = b_[byte] * static_cast<int>(std::pow(3, k + 1)) / 256;
        return f16(52) * static_cast<float>(shifted % 3 - 1);
      }
      case DType::tq2_0:
        return f16(64) * static_cast<float>(two_bits(0, i) - 1);
      case DType::mxfp4:
        return std::ldexp(1.0f, b_[0] - 128) * e2m1_doubled(split_nibble(1, i, 16));
      case DType::nvfp4: {
        const uint8_t d = b_[i / 16];
        const int exponent = d / 8 % 16;
        const float mantissa = static_cast<float>(d % 8) / 8.0f;
        const float scale = std::ldexp(exponent == 0 ? mantissa : 1.0f + mantissa, std::max(exponent, 1) - 7);
        return (d == 0x7F ? 0.0f : scale) * 0.5f * e2m1_doubled(split_nibble(4 + i / 16 * 8, i % 16, 8));
      }
      case DType::q8_1:
      case DType::q8_k:
      case DType::i8:
      case DType::i16:
      case DType::i32:
      case DType::i64:
      case DType::f64:
        break;
    }
    RF_UNREACHABLE("not a weight type");
  }

 private:
  int u16(int at) const { return b_[at] + 256 * b_[at + 1]; }
  float f16(int at) const { return to_float(F16{static_cast<uint16_t>(u16(at))}); }

  // n bits from bit `first` of the bytes at `at`, lowest first.
  int bits(int at, int first, int n) const {
    int value = 0;
    for (int k = 0; k < n; k++) value += (b_[at + (first + k) / 8] >> (first + k) % 8 & 1) << k;
    return value;
  }

  // Of n bytes for 2 n weights: the low nibbles first, then the high ones.
  int split_nibble(int at, int i, int n) const { return i < n ? b_[at + i] % 16 : b_[at + i - n] / 16; }

  // Of 32 bytes for each 128 weights: bits 0 and 1 of all, then bits 2 and 3, and so on.
  int two_bits(int at, int i) const { return bits(at + i / 128 * 32 + i % 32, i % 128 / 32 * 2, 2); }

  float scaled_k(int i, int level) const {
    const int s = i / 32;
    const int scale = s < 4 ? b_[4 + s] % 64 : b_[8 + s] % 16 + b_[s] / 64 * 16;
    const int minimum = s < 4 ? b_[8 + s] % 64 : b_[8 + s] / 16 + b_[4 + s] / 64 * 16;
    return f16(0) * static_cast<float>(scale) * static_cast<float>(level) - f16(2) * static_cast<float>(minimum);
  }

  static float sign(int negative) { return negative ? -1.0f : 1.0f; }

  // From seven stored signs and an eighth that makes the number of negative signs even.
  static float even_sign(int seven, int j) {
    if (j < 7) return sign(seven >> j & 1);
    return sign(std::popcount(static_cast<uint32_t>(seven)) % 2);
  }

  static float iq1_level(int index, int i, int down) {
    const int level = static_cast<int>(formats::iq1_code(static_cast<uint32_t>(index)) >> i % 8 * 2 & 3) - 1;
    return static_cast<float>(level) + (down ? -0.125f : 0.125f);
  }

  static int iq2_level(uint32_t code, int i) {
    switch (code >> i % 8 * 2 & 3) {
      case 0:
        return 8;
      case 1:
        return 25;
      default:
        return 43;
    }
  }

  static int iq3_field(uint32_t code, int i) { return static_cast<int>(code >> i % 4 * 3 & 7); }

  static float iq4_level(int code) {
    constexpr float kLevels[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    return kLevels[code];
  }

  // Twice the value of sign, two exponent bits, one mantissa bit. There is no negative zero.
  static float e2m1_doubled(int code) {
    const int exponent = code / 2 % 4;
    const int doubled = exponent == 0 ? code % 2 : (2 + code % 2) << (exponent - 1);
    return static_cast<float>(code < 8 ? doubled : -doubled);
  }

  const uint8_t* b_;
};

}  // namespace rocmforge::testing
