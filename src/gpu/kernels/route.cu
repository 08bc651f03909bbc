// One wave selects the experts of a row: n_used times the highest-ranked remaining one, with ties to the lower id. A
// NaN ranks lowest.

#include "gpu/runtime.h"

#include "gpu/kernels/route.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_DEVICE float sigmoid(float x) {
  return 1.0f / (1.0f + exp_f32(-x));
}

RF_KERNEL(route, RouteArgs, kRouteThreads) {
  struct Shared {
    float rank[kMaxExperts];  // NaN: chosen
    float shares[kMaxUsedExperts];
  };
  RF_SHARED(Shared, shared);
  if (wave() != 0) return;
  const float* logits = args.logits + static_cast<uint64_t>(block_x()) * args.n_experts;
  float* out = args.out + static_cast<uint64_t>(block_x()) * args.n_used * 2;
  const float infinity = bits_to_float(0x7F800000u);
  const bool is_sigmoid = args.scores == RouteScores::sigmoid;

  // A lane reads and writes its own elements alone.
  float largest = -infinity;
  for (uint32_t i = lane(); i < args.n_experts; i += kWave) largest = logits[i] > largest ? logits[i] : largest;
  largest = wave_max(largest);
  const auto share_of = [&](float logit) { return is_sigmoid ? sigmoid(logit) : exp_f32(logit - largest); };
  // The denominator of the routing weights.
  float whole = 1;
  if (args.scores == RouteScores::softmax && (args.bias != nullptr || !args.normalise)) {
    whole = 0;
    for (uint32_t i = lane(); i < args.n_experts; i += kWave) whole += share_of(logits[i]);
    whole = wave_sum(whole);
  }
  // Without a bias the logits themselves rank: no ties by rounding.
  const bool by_logits = args.bias == nullptr || args.scores == RouteScores::softmax_of_chosen;
  for (uint32_t i = lane(); i < args.n_experts; i += kWave) {
    const float probability = by_logits ? logits[i] : share_of(logits[i]) / whole;
    const float rank = args.bias == nullptr ? probability : probability + args.bias[i];
    shared.rank[i] = rank != rank ? -infinity : rank;
  }

  float total = 0;
  for (uint32_t j = 0; j < args.n_used; j++) {
    float best = -infinity;
    uint32_t best_id = args.n_experts;  // none
    for (uint32_t i = lane(); i < args.n_experts; i += kWave) {
      const float v = shared.rank[i];
      if (v == v && (best_id == args.n_experts || v > best)) best = v, best_id = i;
    }
    for (uint32_t mask = kWave / 2; mask > 0; mask /= 2) {
      const float v = shuffle_xor(best, mask);
      const uint32_t id = shuffle_xor(best_id, mask);
      const bool is_better =
          id < args.n_experts && (best_id == args.n_experts || v > best || (v == best && id < best_id));
      if (is_better) best = v, best_id = id;
    }
    if (best_id % kWave == lane()) shared.rank[best_id] = bits_to_float(0x7FC00000u);
    const float share = share_of(logits[best_id]);
    total += share;
    if (lane() == 0) {
      out[2 * j] = static_cast<float>(best_id);
      shared.shares[j] = share;
    }
  }
  if (args.scores != RouteScores::softmax_of_chosen) {
    const float least = kLeastChosenShare * whole;
    total = !args.normalise ? whole : total < least ? least : total;
  }
  if (lane() != 0) return;
  for (uint32_t j = 0; j < args.n_used; j++) out[2 * j + 1] = shared.shares[j] / total * args.scale;
}

}  // namespace rocmforge::gpu::RF_KERNELS
