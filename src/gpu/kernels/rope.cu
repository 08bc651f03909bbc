// Turns the pairs of every head by position times frequency. Angles grow with the position, so they are computed and
// reduced in f64; sine and cosine of what is left are a short polynomial, the same on every device.

#include "gpu/runtime.h"

#include "gpu/kernels/rope.h"

namespace rocmforge::gpu::RF_KERNELS {

struct SineCosine {
  float sine, cosine;
};

// To f32's last bit for angles up to some 2^30.
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

RF_KERNEL(rope, RopeArgs, kRopeThreads) {
  const uint32_t i = block_y() * kRopeThreads + thread_index();
  const uint32_t pair = i % args.n_pairs, n_heads = args.n_heads[0] + args.n_heads[1];
  const double factor = args.factors != nullptr ? static_cast<double>(args.factors[pair]) : 1.0;
  const SineCosine turn = sine_cosine(args.positions[block_x()] * (args.turns[pair] / factor));
  const float sine = turn.sine * args.magnitude, cosine = turn.cosine * args.magnitude;
  RF_UNROLL
  for (uint32_t n = 0; n < kRopeHeads; n++) {
    const uint32_t head = i / args.n_pairs * kRopeHeads + n;
    if (head >= n_heads) break;
    const bool is_key = head >= args.n_heads[0];
    const uint32_t of_its_kind = is_key ? args.n_heads[1] : args.n_heads[0];
    float* row =
        (is_key ? args.heads[1] : args.heads[0]) + static_cast<uint64_t>(block_x()) * of_its_kind * args.head_size;
    float* first = row + (is_key ? head - args.n_heads[0] : head) * args.head_size + pair * args.pair_step;
    float* second = first + args.pair_apart;
    const float x = *first, y = *second;
    *first = x * cosine - y * sine;
    *second = x * sine + y * cosine;
  }
}

}  // namespace rocmforge::gpu::RF_KERNELS
