#pragma once
// A pass as a GPU runs it, as data: which steps of the plan are launched together, which family of kernels computes
// them, and what each of them finds and leaves in the workspaces. pass_plan.h writes it; Runner visits it, one step
// after the other, and decides nothing that depends on other steps.
//
// Pointers lead to steps of the plan.

#include <cstdint>
#include <optional>
#include <variant>

#include "gpu/product_choice.h"
#include "plan/step.h"

namespace rocmforge::gpu {

// A norm, with the residual sum before it and the gate of its elements before or behind it.
struct NormStep {
  const Norm* norm;
  const Add* sum = nullptr;
  const Activate* gate = nullptr;  // silu, in place
  bool gate_comes_first = false;
  bool leaves_bytes = false;  // the result is left as 8-bit integers, too
};

struct ActivateStep {
  const Activate* activate;
  bool leaves_bytes = false;
};

// Products of one input without the steps around them, by any kernels but the streaming ones.
struct ProductStep {
  const Matmul* product;
  ProductRoute route;  // of the first part
  bool makes_bytes = false;
};

// For products with the route stream_rows.
struct RowsStep {
  bool inputs_are_written = false;  // by the product before the norm
  uint32_t scales_at = 0;           // which half of PassLayout::row_input_scales has the rows' scales
  // The norm and the product behind the sum: the sum's epilogue writes that product's inputs.
  const Norm* next_norm = nullptr;
  const Matmul* next_product = nullptr;
  uint32_t rotations = 0;  // which of PassLayout::row_rotations the epilogue takes
  bool makes_rotations = false;
};

// A product of few rows on Hopper with the steps around it.
struct StreamStep {
  const Norm* norm = nullptr;
  const Matmul* product = nullptr;
  ProductRoute route{};
  // At most one of these, `rope` always with `store`. What they do is part of the product's epilogue.
  const Add* sum = nullptr;
  const Activate* activate = nullptr;
  const Rope* rope = nullptr;
  const StoreKv* store = nullptr;
  bool is_plain = true;  // the product's outputs are neither scaled nor capped
  RowsStep rows = {};
};

struct RopeStoreStep {
  const Rope* rope;
  const StoreKv* store;
};

// A convolution, with gates of its inputs and outputs.
struct ConvolveStep {
  const Convolve* convolve;
  const Gate* before = nullptr;
  const Gate* after = nullptr;
};

struct ExpertMatmulStep {
  const ExpertMatmul* product;
  bool makes_bytes = false;
};

struct ExpertCombineStep {
  const ExpertCombine* combine;
  bool makes_bytes = false;
};

// A step of the plan by itself, and without anything left or found.
struct SingleStep {
  const Step* step;
};

using PassStep = std::variant<NormStep, ActivateStep, ProductStep, StreamStep, RopeStoreStep, ConvolveStep,
                              ExpertMatmulStep, ExpertCombineStep, SingleStep>;

}  // namespace rocmforge::gpu
