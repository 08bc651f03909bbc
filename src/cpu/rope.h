#pragma once
// Rotary positions: the angles of a pass, computed once in double precision and used by every layer.
// The angle of a pair is its position times its turn (model/rope.h), divided by the pair's factor where the model has
// some.

#include <cstdint>
#include <span>
#include <vector>

#include "cpu/workers.h"
#include "model/spec.h"

namespace rocmforge::cpu {

class RopeAngles {
 public:
  // Rows of cosines and sines for these positions; what was computed for the same ones last time is kept.
  // `factors`: one divisor per pair, or none.
  void prepare(const RopeSpec& rope, std::span<const float> factors, std::span<const uint32_t> positions,
               Workers& workers);

  // Turns every head of one row in place. REQUIRES: head_size >= n_dims, heads.size() a multiple of head_size
  void rotate(std::span<float> heads, uint32_t head_size, size_t row) const;

 private:
  RopeSpec rope_;
  std::vector<float> factors_;
  std::vector<uint32_t> positions_;
  std::vector<float> cos_sin_;  // by row: n_dims / 2 cosines, then as many sines
};

}  // namespace rocmforge::cpu
