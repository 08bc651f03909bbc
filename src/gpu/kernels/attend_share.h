#pragma once
// The beginning of what a row sees and the end of its softmax, for every attention kernel.

#include "gpu/kernels/attend.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

// The first position that a row sees: of its window, or of its chunk.
RF_DEVICE uint32_t first_seen(uint32_t position, uint32_t window, uint32_t chunk) {
  const uint32_t of_window = window != 0 && window < position + 1 ? position + 1 - window : 0;
  if (chunk == 0) return of_window;
  const uint32_t of_chunk = position / chunk * chunk;
  return of_chunk > of_window ? of_chunk : of_window;
}

// What head h's scores lose for each position between query and key (alibi_slope in plan/step.h).
template <class Args>
RF_DEVICE float alibi_slope_of(const Args& args, uint32_t head) {
  constexpr float kLn2 = 0.6931471805599453f;
  uint32_t n = 1;
  while (n * 2 <= args.n_heads) n *= 2;
  const float power = head < n ? args.alibi_bias * static_cast<float>(head + 1)
                               : args.alibi_bias / 2 * static_cast<float>(2 * (head - n) + 1);
  return exp_f32(-power / static_cast<float>(n) * kLn2);
}

// The factor that normalises the weighted sum; `total` is the sum of e^(score - largest).
RF_DEVICE float share_of_total(const AttendArgs& args, uint32_t head, float largest, float total) {
  if (args.sinks == nullptr) return 1.0f / total;
  const float sink = args.sinks[head];
  const float top = sink > largest ? sink : largest;
  const float keep = exp_f32(largest - top);
  return keep / (total * keep + exp_f32(sink - top));
}

}  // namespace rocmforge::gpu::RF_KERNELS
