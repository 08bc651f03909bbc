#pragma once
// Device memory for the panel products (kernels/panels.h): decoded weights, a chunk of a matrix at a time, and their
// input.
//
// Threads: one at a time.

#include <algorithm>

#include "gpu/device.h"
#include "gpu/kernels/panels.h"
#include "plan/backend.h"

namespace rocmforge::gpu {

class PanelMemory {
 public:
  // With fewer rows, decoding the weights first does not pay.
  static constexpr uint32_t kMinRows = 384;
  static constexpr uint64_t kWeightBytes = 128 << 20;

  // 0 for passes that never have that many rows, as where memory is short.
  static uint64_t n_bytes(const PassMemory& memory) {
    return memory.max_rows < kMinRows ? 0 : kWeightBytes + input_bytes(memory);
  }
  static Result<PanelMemory> make(const Device& device, const PassMemory& memory) {
    PanelMemory out;
    if (n_bytes(memory) == 0) return out;
    out.memory_ = TRY(Memory::allocate(device, Memory::Kind::device, n_bytes(memory)));
    out.input_bytes_ = input_bytes(memory);
    return out;
  }

  bool is_there() const { return memory_.data() != nullptr; }
  uint8_t* weights() const { return reinterpret_cast<uint8_t*>(memory_.data()); }
  uint8_t* input() const { return weights() + kWeightBytes; }
  uint64_t input_bytes() const { return input_bytes_; }

 private:
  static uint64_t input_bytes(const PassMemory& memory) {
    uint32_t widest = 0;
    for (const Slot& slot : memory.slots) {
      if (slot.rows == SlotRows::batch) widest = std::max(widest, slot.width);
    }
    return uint64_t{padded_to(memory.max_rows, kInputPanelRows)} * padded_to(widest, kPanelColumns) * 2;
  }

  Memory memory_;
  uint64_t input_bytes_ = 0;
};

}  // namespace rocmforge::gpu
