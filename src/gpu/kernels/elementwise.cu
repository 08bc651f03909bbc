// Steps that go element by element: activations, sums, choosing rows.

#include "gpu/runtime.h"

#include "gpu/kernels/elementwise.h"
#include "gpu/kernels/quantize_lane.h"

namespace rocmforge::gpu::RF_KERNELS {

// A thread's elements are all asked for before the first is used.
template <class F>
RF_DEVICE void each_element(const ElementArgs& args, F f) {
  const uint64_t first = static_cast<uint64_t>(block_x()) * kElementThreads * kElementsPerThread + thread_index();
  float a[kElementsPerThread], b[kElementsPerThread];
  RF_UNROLL
  for (uint32_t e = 0; e < kElementsPerThread; e++) {
    const uint64_t i = first + e * kElementThreads;
    a[e] = i < args.n ? args.a[i] : 0.0f;
    b[e] = args.b == nullptr ? 1.0f : i < args.n ? args.b[i] : 0.0f;
  }
  RF_UNROLL
  for (uint32_t e = 0; e < kElementsPerThread; e++) {
    const uint64_t i = first + e * kElementThreads;
    const bool inside = i < args.n;
    const float value = f(a[e], b[e]);
    if (inside) args.out[i] = value;
    if (args.q != nullptr) quantize_lane(args.q, args.scales, i, inside ? value : 0.0f, inside);
  }
}

RF_KERNEL(add, ElementArgs, kElementThreads) {
  each_element(args, [&](float a, float b) { return a + args.scale * b; });
}

RF_KERNEL(scale_and_cap, ElementArgs, kElementThreads) {
  each_element(args, [&](float a, float) { return capped(args.scale * a, args.cap); });
}

RF_KERNEL(silu_multiply, ElementArgs, kElementThreads) {
  each_element(args, [](float gate, float up) { return gate / (1.0f + exp_f32(-gate)) * up; });
}

// x / 2 * (1 + tanh(u)) = x / (1 + e^-2u), with u = sqrt(2 / pi) (x + 0.044715 x^3)
RF_KERNEL(gelu_multiply, ElementArgs, kElementThreads) {
  each_element(args, [](float gate, float up) {
    const float u = 0.79788456f * gate * (1.0f + 0.044715f * gate * gate);
    return gate / (1.0f + exp_f32(-2.0f * u)) * up;
  });
}

// x * sigmoid(1.702 x) of a gate of at most 7, times 1 plus an up within -7 .. 7
RF_KERNEL(clamped_swish_multiply, ElementArgs, kElementThreads) {
  each_element(args, [](float gate, float up) {
    constexpr float kLimit = 7.0f, kSlope = 1.702f;
    const float g = gate > kLimit ? kLimit : gate;
    const float u = up > kLimit ? kLimit : up < -kLimit ? -kLimit : up;
    return g / (1.0f + exp_f32(-kSlope * g)) * (u + 1.0f);
  });
}

RF_KERNEL(take_rows, TakeRowsArgs, kElementThreads) {
  const uint32_t i = block_y() * kElementThreads + thread_index();
  if (i >= args.width) return;
  const uint64_t from = args.rows[block_x()];
  args.out[static_cast<uint64_t>(block_x()) * args.width + i] = args.in[from * args.width + i];
}

}  // namespace rocmforge::gpu::RF_KERNELS
