#pragma once
// The end of a softmax, for every attention kernel.

#include "gpu/kernels/attend.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

// The factor that normalises the weighted sum; `total` is the sum of e^(score - largest).
RF_DEVICE float share_of_total(const AttendArgs& args, uint32_t head, float largest, float total) {
  if (args.sinks == nullptr) return 1.0f / total;
  const float sink = args.sinks[head];
  const float top = sink > largest ? sink : largest;
  const float keep = exp_f32(largest - top);
  return keep / (total * keep + exp_f32(sink - top));
}

}  // namespace rocmforge::gpu::RF_KERNELS
