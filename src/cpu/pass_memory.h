#pragma once
// The memory of a pass on the CPU.

#include <algorithm>

#include "base/checked.h"
#include "cpu/kv_cache.h"
#include "plan/backend.h"

namespace rocmforge::cpu {

inline constexpr uint64_t kSlotAlignment = 64;

inline CheckedU64 slot_bytes(const Slot& slot, const PassMemory& memory) {
  const uint64_t n_rows = slot.rows == SlotRows::batch ? memory.max_rows : memory.max_outputs;
  return (CheckedU64(n_rows) * slot.width * sizeof(float)).rounded_up(kSlotAlignment);
}

inline CheckedU64 all_slot_bytes(const PassMemory& memory) {
  CheckedU64 total = 0u;
  for (const Slot& slot : memory.slots) total += slot_bytes(slot, memory);
  return total;
}

// The widest row that can be an input of a product: what exists for output rows alone is a product or as wide.
inline uint32_t max_input_width(const PassMemory& memory) {
  uint32_t widest = 0;
  for (const Slot& slot : memory.slots) {
    if (slot.rows == SlotRows::batch) widest = std::max(widest, slot.width);
  }
  return widest;
}

inline KvShape kv_shape(const PassMemory& memory) {
  const uint32_t head_size = memory.kv_head_size != 0 ? memory.kv_head_size : std::max(memory.kv_width, 1u);
  return {.n_pages = memory.n_pages,
          .n_layers = memory.n_layers,
          .width = memory.kv_width,
          .head_size = head_size,
          .type = memory.kv_type,
          .layers = {memory.kv_layers.begin(), memory.kv_layers.end()},
          .n_window_pages = memory.n_window_pages,
          .windowed = {memory.windowed.begin(), memory.windowed.end()}};
}

}  // namespace rocmforge::cpu
