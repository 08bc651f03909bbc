#include "weights/residency.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/checked.h"
#include "base/units.h"

namespace rocmforge {
namespace {

// n of the layers, as evenly spread as can be. Stages 0 and last are no layers.
std::vector<bool> spread(size_t n_stages, size_t n) {
  std::vector<bool> chosen(n_stages, false);
  const size_t n_layers = n_stages - 2;
  for (size_t i = 0; i < n_layers; i++) chosen[1 + i] = (i + 1) * n / n_layers != i * n / n_layers;
  return chosen;
}

struct OwnBytes {
  uint64_t resident = 0;
  uint64_t largest_streamed = 0;
  CheckedU64 total() const { return CheckedU64(largest_streamed) * kStageSlots + resident; }
};

OwnBytes own_bytes(std::span<const StageBytes> stages, const std::vector<bool>& streamed) {
  OwnBytes out;
  for (size_t i = 0; i < stages.size(); i++) {
    if (streamed[i]) {
      out.largest_streamed = std::max(out.largest_streamed, stages[i].own);
    } else {
      out.resident += stages[i].own;
    }
  }
  return out;
}

}  // namespace

Result<Residency> choose_residency(std::span<const StageBytes> stages, uint64_t budget_bytes) {
  Residency residency;
  residency.streamed.assign(stages.size(), false);
  uint64_t total = 0;
  uint64_t n_experts = 0;        // of all stages
  uint32_t n_experts_least = 0;  // that must have a place at once
  for (const StageBytes& stage : stages) {
    total += stage.own + stage.experts;
    n_experts += stage.n_experts;
    n_experts_least = std::max(n_experts_least, stage.n_experts);
    residency.experts.slot_bytes = std::max(residency.experts.slot_bytes, stage.largest_expert);
  }
  if (total <= budget_bytes) {
    residency.experts = {};
    return residency;
  }

  const uint64_t expert_bytes = residency.experts.slot_bytes;
  const CheckedU64 least_experts = CheckedU64(expert_bytes) * n_experts_least;
  // Fewer than this streamed would take no less than all of them resident.
  const size_t n_layers = stages.size() > 2 ? stages.size() - 2 : 0;
  CheckedU64 least = 0;
  for (size_t n_streamed = 0; n_streamed <= n_layers; n_streamed++) {
    if (n_streamed > 0 && n_streamed <= kStageSlots) continue;
    if (n_streamed > 0) residency.streamed = spread(stages.size(), n_streamed);
    const OwnBytes own = own_bytes(stages, residency.streamed);
    least = own.total() + least_experts;
    if (!least.fits(budget_bytes)) continue;
    if (n_streamed > 0) residency.stages = {own.largest_streamed, kStageSlots};
    if (expert_bytes > 0) {
      const uint64_t n_fit = (budget_bytes - own.total().value()) / expert_bytes;
      residency.experts.n_slots = static_cast<uint32_t>(std::min(n_experts, n_fit));
    }
    return residency;
  }
  return Error{
      ErrorCode::out_of_memory,
      fmt::format("weights: {} needed even with every layer streamed, {} left for them",
                  least.valid() ? format_bytes(least.value()) : "more than 64 bits count", format_bytes(budget_bytes))};
}

}  // namespace rocmforge
