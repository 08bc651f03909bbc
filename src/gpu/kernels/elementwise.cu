// Elementwise steps: activations, sums, selecting rows.

#include "gpu/runtime.h"

#include "gpu/kernels/activation.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/kernels/quantize_lane.h"

namespace rocmforge::gpu::RF_KERNELS {

// Issues all of a thread's loads before the first value is used.
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
  each_element(args, [](float gate, float up) { return silu_times(gate, up); });
}

RF_KERNEL(gelu_multiply, ElementArgs, kElementThreads) {
  each_element(args, [](float gate, float up) { return gelu_times(gate, up); });
}

RF_KERNEL(clamped_swish_multiply, ElementArgs, kElementThreads) {
  each_element(args, [](float gate, float up) { return clamped_swish_times(gate, up); });
}

RF_KERNEL(take_rows, TakeRowsArgs, kElementThreads) {
  const uint32_t i = block_y() * kElementThreads + thread_index();
  if (i >= args.width) return;
  const uint64_t from = args.rows[block_x()];
  args.out[static_cast<uint64_t>(block_x()) * args.width + i] = args.in[from * args.width + i];
}

}  // namespace rocmforge::gpu::RF_KERNELS
