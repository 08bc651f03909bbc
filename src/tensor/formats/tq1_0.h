#pragma once
// TQ1_0: 256 ternary weights in 54 bytes (1.6875 bits each). One scale, five weights to a byte.
//
//   qs[48]  bytes    five trits each: bytes 0..31 hold weights 0..159, bytes 32..47 weights 160..239
//   qh[4]   bytes    four trits each: weights 240..255
//   d       f16      scale
//
//   weight = d * (trit - 1)
//
// A byte is its trits read as a fraction in base 3, scaled to 256: byte = ceil(0.t0t1t2t3t4 (base 3) * 256). So the
// first trit is byte * 3 / 256, and multiplying by 3 modulo 256 brings the next one to the front. Of n bytes that
// stand together, all first trits come first: trit k of byte m is weight n * k + m.

#include "tensor/half.h"

namespace rocmforge::formats {

struct Tq1_0 {
  static constexpr int kElements = 256;

  uint8_t qs[48];
  uint8_t qh[4];
  F16 d;
};
static_assert(sizeof(Tq1_0) == 54);

template <int kTrits, int kBytes>
RF_HOST_DEVICE inline float* decode_trits(float* to, const uint8_t* from, float d) {  // to: kTrits * kBytes
  for (uint32_t k = 0, power = 1; k < kTrits; k++, power *= 3, to += kBytes) {
    for (int m = 0; m < kBytes; m++) {
      const uint32_t fraction = from[m] * power & 0xFF;
      to[m] = d * static_cast<float>(static_cast<int>(fraction * 3 >> 8) - 1);
    }
  }
  return to;
}

RF_HOST_DEVICE inline void decode(float* to, const Tq1_0& block) {  // to: 256
  const float d = to_float(block.d);
  to = decode_trits<5, 32>(to, block.qs, d);
  to = decode_trits<5, 16>(to, block.qs + 32, d);
  decode_trits<4, 4>(to, block.qh, d);
}

}  // namespace rocmforge::formats
