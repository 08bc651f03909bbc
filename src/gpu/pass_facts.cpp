#include "gpu/pass_facts.h"

#include <algorithm>

#include "base/check.h"
#include "gpu/kernels/stream_fragments.h"

namespace rocmforge::gpu {

Product PassFacts::product_of(const Matmul& step, std::vector<Product::Part>& parts) const {
  for (const Matmul::Part& part : step.parts) {
    parts.push_back({shape(part.weight).dtype, static_cast<uint32_t>(shape(part.weight).n_rows),
                     !part.bias || shape(*part.bias).dtype == DType::f32});
  }
  return {rows_of(step.in), slot(step.in).width, parts};
}

ProductRoute PassFacts::route_of(const Matmul& step, size_t part) const {
  std::vector<Product::Part> parts;
  return choose_product(device, product_of(step, parts), part);
}

// Few rows are multiplied as bytes, and any number without fragments; on Hopper, one row by the experts it is routed
// to.
bool PassFacts::is_wanted_as_bytes(SlotId id) const {
  const bool are_few = device.has_hopper      ? rows_of(id) == 1 && has_experts
                       : device.has_fragments ? rows_of(id) < stream_fragments_min_rows(device.has_matrix_unit)
                                              : true;
  return are_few && slot(id).width % 32 == 0;
}

bool PassFacts::takes_bytes(const Matmul& step) const {
  std::vector<Product::Part> parts;
  const Product product = product_of(step, parts);
  for (size_t i = 0; i < parts.size(); i++) {
    if (gpu::takes_bytes(choose_product(device, product, i), parts[i].dtype)) return true;
  }
  return false;
}

bool PassFacts::takes_bytes(const ExpertMatmul& step) const {
  const uint32_t tile_rows = expert_tile_of(step.routing, step.n_used, step.parts.front().weight.n);
  return std::ranges::any_of(step.parts, [&](const ExpertMatmul::Part& part) {
    const DType dtype = shape(part.weight.first).dtype;
    return gpu::takes_bytes(choose_expert_product(device, dtype, slot(step.in).width, tile_rows), dtype);
  });
}

bool PassFacts::takes_bytes(const ExpertCombine& step) const {
  const WeightShape& weight = shape(step.weight.first);
  const uint32_t tile_rows = expert_tile_of(step.routing, step.n_used, step.weight.n);
  const auto width = static_cast<uint32_t>(weight.row_elements);
  return gpu::takes_bytes(choose_expert_product(device, weight.dtype, width, tile_rows), weight.dtype);
}

uint64_t PassFacts::rows_inputs_bytes(const Matmul& step) const {
  std::vector<Product::Part> parts;
  return gpu::rows_inputs_bytes(product_of(step, parts));
}

// They use the workspace of attention, which does not need it during these products.
uint64_t PassFacts::room_for_shares(uint32_t n_tiles) const {
  static_assert(rows_sets(kRowsMaxRows, 128) == 1);
  if (2 * n_tiles * sizeof(uint32_t) > layout->attention_arrivals_bytes) return 0;
  return layout->attention_parts_bytes / (kRowsTileSums * sizeof(float));
}

uint32_t PassFacts::shares_of(uint32_t n_tiles, uint32_t n_pieces) const {
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(room_for_shares(n_tiles) / n_tiles, 1, rows_shares(n_tiles, n_pieces)));
}

bool is_rare(const Activate& step) {
  switch (step.kind) {
    case Activation::silu:
      return step.clamp != 0;
    case Activation::gelu:
    case Activation::clamped_swish:
      return false;
    case Activation::relu:
    case Activation::relu_squared:
    case Activation::xielu:
      return true;
  }
  RF_UNREACHABLE("an Activation outside its enum");
}

}  // namespace rocmforge::gpu
