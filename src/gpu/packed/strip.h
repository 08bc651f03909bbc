#pragma once
// The common quantized formats as input of matrix instructions: sixteen rows of 256 weights, copied from their planes
// (packed/planes.h) into shared memory, then decoded into the left operand of m16n8k16.
//
// Quants are not converted: the bits of an unsigned quant, read as a half, have the value quant * 2^-24 (a subnormal,
// which the matrix unit multiplies exactly). Scales and minima are applied to the sums. Over the groups of 256 columns,
// where a group has one scale and one minimum,
//
//   sum of weight * x  =  common * (sum over groups of scale * (sum of quant * x))
//                         + lift * (sum over groups of minimum * (sum of x))
//
// where the second sum over groups is one more matrix product, of the groups' minima. The code calls the minima of
// groups "bottoms", and the scale of their sum lift().
//
// Strip<Block> defines for its format
//
//   kPlanes   the bytes of each plane that belong to 256 weights, and their offset in a staged row. Fields of two bytes
//             are too small to copy alone: the words that contain them are stored behind the rows
//   kStride   from one staged row to the next: chosen so that eight rows have no bank conflicts
//   kWide     of 32 weights, lane t of four decodes 8t .. 8t + 7; otherwise 4t .. 4t + 3 and 16 + 4t .. 19 + 4t
//   kScales   groups in 32 weights: 1, or 2 (then not kWide)
//   kBottoms  whether the format has minima
//   Row       lane t's view of a staged row and of its d, if that is stored apart. For q = 0 .. 7 in order
//             decode(q, first, second)   its weights of group q: the pairs (0, 2) (1, 3) and (4, 6) (5, 7)
//             scale(q, h)
//             own_scale(i, h)            the same of group 2t + i
//             bottoms(i)                 the minima of groups 8i + 2t and the next one, as two halves
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
RF_DEVICE uint32_t multiply_pairs(uint32_t a, uint32_t b) {
  const __half2 product = __hmul2(*reinterpret_cast<__half2*>(&a), *reinterpret_cast<__half2*>(&b));
  return *reinterpret_cast<const uint32_t*>(&product);
}

// Byte i of a word as a float, plus 2^23.
RF_DEVICE float lifted_byte(uint32_t word, uint32_t i) {
  return __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7650 + i));
}
// Bytes i and i + 1 of a word as subnormal halves.
RF_DEVICE uint32_t two_bytes(uint32_t word, uint32_t i) {
  return __byte_perm(word, 0, 0x4140 + 0x101 * i);
}
// Bytes i and i + 1, stored with an offset of 128, as halves without it.
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

template <class Block>
struct Strip;

}  // namespace rocmforge::gpu::RF_KERNELS
