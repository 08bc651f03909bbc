#pragma once
// What is known of a pass before anything is launched: the device's abilities, the batch's counts, the shapes of slots
// and weights. Enough to choose the kernels of every step, with or without a device at hand.

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/pass_layout.h"
#include "gpu/product_choice.h"
#include "plan/step.h"
#include "weights/weight_store.h"

namespace rocmforge::gpu {

struct SlotShape {
  uint32_t width = 0;
  SlotRows rows = SlotRows::batch;
};

struct PassFacts {
  ProductDevice device;
  bool has_experts = false;  // memory for products with experts
  uint32_t n_rows = 0, n_outputs = 0;
  std::span<const SlotShape> slots;
  const PassLayout* layout = nullptr;
  const WeightStore* weights = nullptr;

  const SlotShape& slot(SlotId id) const { return slots[id.value]; }
  uint32_t rows_of(SlotId id) const { return slot(id).rows == SlotRows::batch ? n_rows : n_outputs; }
  const WeightShape& shape(WeightId id) const { return weights->tensor(id).shape; }

  // What the choice of a kernel knows of a product. `parts` holds the parts.
  Product product_of(const Matmul& step, std::vector<Product::Part>& parts) const;
  ProductRoute route_of(const Matmul& step, size_t part = 0) const;
  // The tile of grouped rows. Route and the products that follow it ask with the same numbers.
  uint32_t expert_tile_of(SlotId routing, uint32_t n_used, uint32_t n_experts) const {
    return choose_expert_tile(device, rows_of(routing), n_used, n_experts);
  }

  // Whether products take this slot as 8-bit integers, so that the step that writes the slot can also quantize it.
  bool is_wanted_as_bytes(SlotId id) const;
  // Whether the products of a step take its input so.
  bool takes_bytes(const Matmul& step) const;
  bool takes_bytes(const ExpertMatmul& step) const;
  bool takes_bytes(const ExpertCombine& step) const;

  // ---- products of kernels/stream_rows_hopper.h ----

  // Inputs come from a launch of their own or from the previous product's epilogue: one buffer for each.
  uint64_t rows_inputs_room() const { return layout->quants_bytes / 2 / 1024 * 1024; }
  uint64_t rows_inputs_bytes(const Matmul& step) const;
  // The number of tiles of partial sums (tiles times slices) that fit.
  uint64_t room_for_shares(uint32_t n_tiles) const;
  uint32_t shares_of(uint32_t n_tiles, uint32_t n_pieces) const;
};

// What an epilogue knows of a rotation before it knows the rows.
inline RowsTurn rows_turn(const Rope& rope) {
  return {
      .head_size = rope.head_size, .n_pairs = rope.rope.n_dims / 2, .are_halves = rope.rope.pairs == RopePairs::halves};
}

// Whether only few families have this activation (kernels/rare_steps.h).
bool is_rare(const Activate& step);

}  // namespace rocmforge::gpu
