#pragma once
// RoPE: the rotation of one pair of a head's elements (kernels/rope.h). Angles grow with the position, so they are
// computed and reduced in f64; sine and cosine of the reduced angle are a short polynomial, the same on every device.

#include "gpu/kernels/rope.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

struct SineCosine {
  float sine, cosine;
};

// Accurate to f32's last bit for angles up to about 2^30.
RF_DEVICE SineCosine sine_cosine(double angle) {
  constexpr double kQuarterTurn = 1.57079632679489661923;  // pi / 2
  const double shifted = angle / kQuarterTurn;
  const auto quarters = static_cast<int64_t>(shifted < 0 ? shifted - 0.5 : shifted + 0.5);
  const double x = angle - static_cast<double>(quarters) * kQuarterTurn;  // |x| <= pi / 4
  const double s = x * x;
  const double sine =
      x * (1 + s * (-1.0 / 6 + s * (1.0 / 120 + s * (-1.0 / 5040 + s * (1.0 / 362880 - s * (1.0 / 39916800))))));
  const double cosine = 1 + s * (-0.5 + s * (1.0 / 24 + s * (-1.0 / 720 + s * (1.0 / 40320 - s * (1.0 / 3628800)))));
  const auto f_sine = static_cast<float>(sine), f_cosine = static_cast<float>(cosine);
  switch (quarters & 3) {
    case 0:
      return {f_sine, f_cosine};
    case 1:
      return {f_cosine, -f_sine};
    case 2:
      return {-f_sine, -f_cosine};
    default:
      return {-f_cosine, f_sine};
  }
}

RF_DEVICE SineCosine turn_of_pair(const RopeArgs& args, uint32_t pair, uint32_t position) {
  const double factor = args.factors != nullptr ? static_cast<double>(args.factors[pair]) : 1.0;
  const SineCosine turn = sine_cosine(position * (args.turns[pair] / factor));
  return {turn.sine * args.magnitude, turn.cosine * args.magnitude};
}

// A rotated pair's elements. Written out, so that every caller gets the same bits.
RF_DEVICE float turned_first(float x, float y, const SineCosine& by) {
  return fma_f32(x, by.cosine, -(y * by.sine));
}
RF_DEVICE float turned_second(float x, float y, const SineCosine& by) {
  return fma_f32(x, by.sine, y * by.cosine);
}

}  // namespace rocmforge::gpu::RF_KERNELS
