#pragma once
// Random weights of any type, without an encoder: random bits in every field, with scales that make the decoded values
// finite, centred, and of standard deviation about kWeightDeviation.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace rocmforge::gguf {

inline constexpr float kWeightDeviation = 0.02f;

// splitmix64: small, fast, the same numbers everywhere.
class RandomBits {
 public:
  explicit RandomBits(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  // In [0, n). REQUIRES: n > 0. The bias of the remainder is negligible here.
  uint64_t below(uint64_t n) { return next() % n; }
  // About normal, mean 0 and deviation 1: the sum of four uniforms.
  float normal();

 private:
  uint64_t state_;
};

// n_blocks of `dtype`, as a file holds them. REQUIRES: dtype is a weight type
std::vector<std::byte> random_blocks(DType dtype, size_t n_blocks, RandomBits& random);

}  // namespace rocmforge::gguf
