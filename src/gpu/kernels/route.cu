// One wave selects the experts of a row: n_used times the highest-ranked remaining one, with ties to the lower id. A
// NaN ranks lowest.

#include "gpu/runtime.h"

#include "gpu/kernels/route.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_DEVICE float sigmoid(float x) {
  return 1.0f / (1.0f + exp_f32(-x));
}

// A bit for each group that may be chosen from: those whose two highest ranks have the largest sum, the lower id among
// equals. A lane looks at one group.
template <class RankOf>
RF_DEVICE uint32_t best_groups(const RouteArgs& args, RankOf rank_of) {
  const float infinity = bits_to_float(0x7F800000u);
  const uint32_t size = args.n_experts / args.n_groups;
  float best = -infinity, second = -infinity;
  for (uint32_t i = 0; lane() < args.n_groups && i < size; i++) {
    const float rank = rank_of(lane() * size + i);
    const float lower = rank < best ? rank : best;
    second = lower > second ? lower : second;
    best = rank > best ? rank : best;
  }
  const float score = best + second;
  uint32_t n_better = 0;
  for (uint32_t g = 0; g < args.n_groups; g++) {
    const float other = shuffle(score, g);
    if (other > score || (other == score && g < lane())) n_better++;
  }
  return static_cast<uint32_t>(ballot(lane() < args.n_groups && n_better < args.n_groups_used));
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
  if (args.scores == RouteScores::softmax && (args.bias != nullptr || !args.normalise || args.n_groups != 0)) {
    whole = 0;
    for (uint32_t i = lane(); i < args.n_experts; i += kWave) whole += share_of(logits[i]);
    whole = wave_sum(whole);
  }
  // Without a bias and without groups the logits themselves rank: no ties by rounding.
  const bool by_logits = (args.bias == nullptr && args.n_groups == 0) || args.scores == RouteScores::softmax_of_chosen;
  const auto rank_of = [&](uint32_t i) {
    const float probability = by_logits ? logits[i] : share_of(logits[i]) / whole;
    const float rank = args.bias == nullptr ? probability : probability + args.bias[i];
    return rank != rank ? -infinity : rank;
  };
  const uint32_t groups = args.n_groups != 0 ? best_groups(args, rank_of) : 1u;
  const uint32_t group_size = args.n_groups != 0 ? args.n_experts / args.n_groups : args.n_experts;
  for (uint32_t i = lane(); i < args.n_experts; i += kWave) {
    shared.rank[i] = (groups >> (i / group_size) & 1u) != 0 ? rank_of(i) : -infinity;
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
  for (uint32_t j = 0; j < args.n_used; j++) {
    const float times = args.expert_scale == nullptr ? 1.0f : args.expert_scale[static_cast<uint32_t>(out[2 * j])];
    out[2 * j + 1] = shared.shares[j] / total * args.scale * times;
  }
}

}  // namespace rocmforge::gpu::RF_KERNELS
