#pragma once
// Device memory for the panel products (kernels/panels.h): decoded weights, a chunk of a matrix at a time, and their
// input.
//
// Threads: one at a time.

#include <algorithm>

#include "gpu/device.h"
#include "gpu/kernels/panels.h"
#include "gpu/product_choice.h"
#include "plan/backend.h"

namespace rocmforge::gpu {

class PanelMemory {
 public:
  static constexpr uint64_t kMaxWeightBytes = 128 << 20;

  // 0 for passes that never have enough rows.
  static uint64_t n_bytes(const PassMemory& memory) {
    return memory.max_rows < kPanelMinRows ? 0 : weight_bytes(memory) + input_bytes(memory);
  }
  static Result<PanelMemory> make(const Device& device, const PassMemory& memory) {
    PanelMemory out;
    const uint64_t n = n_bytes(memory);
    if (n == 0) return out;
    out.memory_ = TRY(Memory::allocate(device, Memory::Kind::device, n));
    out.weight_bytes_ = weight_bytes(memory);
    out.input_bytes_ = input_bytes(memory);
    out.order_ = device.has_hopper() ? PanelOrder::swizzled : panel_order(device.tile_order());
    return out;
  }

  bool is_there() const { return memory_.data() != nullptr; }
  PanelOrder order() const { return order_; }
  uint8_t* weights() const { return reinterpret_cast<uint8_t*>(memory_.data()); }
  uint64_t weight_bytes() const { return weight_bytes_; }
  uint8_t* input() const { return weights() + weight_bytes_; }
  uint64_t input_bytes() const { return input_bytes_; }

 private:
  // The largest block of rows of any kernel.
  static constexpr uint32_t kRowsOfABlock = 256;

  static uint32_t widest(const PassMemory& memory) {
    uint32_t out = 0;
    for (const Slot& slot : memory.slots) {
      if (slot.rows == SlotRows::batch) out = std::max(out, slot.width);
    }
    return padded_to(out, kPanelColumns);
  }
  // Two sets of outputs at least.
  static uint64_t weight_bytes(const PassMemory& memory) {
    const uint64_t width = widest(memory), most = 2 * width * padded_to(widest(memory), kWeightPanelRows) * 2;
    return std::min(most, std::max(kMaxWeightBytes, 2 * width * kWeightPanelRows * 2));
  }
  static uint64_t input_bytes(const PassMemory& memory) {
    return uint64_t{padded_to(memory.max_rows, kRowsOfABlock)} * widest(memory) * 2;
  }

  Memory memory_;
  uint64_t weight_bytes_ = 0, input_bytes_ = 0;
  PanelOrder order_ = PanelOrder::swizzled;
};

}  // namespace rocmforge::gpu
