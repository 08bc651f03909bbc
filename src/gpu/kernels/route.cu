// One wave chooses the experts of a row: n_used times the largest logit that is left, the lower id among equals. A NaN
// counts as the smallest.

#include "gpu/runtime.h"

#include "gpu/kernels/route.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_KERNEL(route, RouteArgs, kRouteThreads) {
  struct Shared {
    float left[kMaxExperts];  // what is not chosen yet
    float exponentials[kMaxUsedExperts];
  };
  RF_SHARED(Shared, shared);
  if (wave() != 0) return;
  const float* logits = args.logits + static_cast<uint64_t>(block_x()) * args.n_experts;
  float* out = args.out + static_cast<uint64_t>(block_x()) * args.n_used * 2;
  const float infinity = bits_to_float(0x7F800000u);
  // A lane reads and writes its own elements alone.
  for (uint32_t i = lane(); i < args.n_experts; i += kWave) {
    shared.left[i] = logits[i] != logits[i] ? -infinity : logits[i];
  }

  float largest = 0, total = 0;
  for (uint32_t j = 0; j < args.n_used; j++) {
    float best = -infinity;
    uint32_t best_id = args.n_experts;  // none
    for (uint32_t i = lane(); i < args.n_experts; i += kWave) {
      const float v = shared.left[i];
      if (v == v && (best_id == args.n_experts || v > best)) best = v, best_id = i;
    }
    for (uint32_t mask = kWave / 2; mask > 0; mask /= 2) {
      const float v = shuffle_xor(best, mask);
      const uint32_t id = shuffle_xor(best_id, mask);
      const bool is_better =
          id < args.n_experts && (best_id == args.n_experts || v > best || (v == best && id < best_id));
      if (is_better) best = v, best_id = id;
    }
    if (best_id % kWave == lane()) shared.left[best_id] = bits_to_float(0x7FC00000u);  // NaN: chosen
    if (j == 0) largest = logits[best_id];
    const float e = exp_f32(logits[best_id] - largest);
    total += e;
    if (lane() == 0) {
      out[2 * j] = static_cast<float>(best_id);
      shared.exponentials[j] = e;
    }
  }
  if (!args.normalise) {
    total = 0;
    for (uint32_t i = lane(); i < args.n_experts; i += kWave) total += exp_f32(logits[i] - largest);
    total = wave_sum(total);
  }
  if (lane() != 0) return;
  for (uint32_t j = 0; j < args.n_used; j++) out[2 * j + 1] = shared.exponentials[j] / total;
}

}  // namespace rocmforge::gpu::RF_KERNELS
