#pragma once
// Row steps (plan/step.h) with all that they need of a pass at hand: where the slots' rows lie, which kernel, the
// weights as floats. Each call is one row, on any thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "cpu/isa/kernels.h"
#include "model/spec.h"
#include "plan/step.h"

namespace rocmforge::cpu {

// The rows of a slot.
struct Rows {
  float* data = nullptr;
  uint32_t width = 0;
  float* at(size_t r) const { return data + r * width; }
};

// A vector of a weight: `values` are where it lies when it is F32, else decoded into `space`. It can be moved.
struct Vector {
  Vector() = default;
  Vector(Vector&&) = default;
  Vector& operator=(Vector&&) = default;

  std::vector<float> space;
  std::span<const float> values;
};

struct NormRows {
  const Kernels* kernels = nullptr;
  NormKind kind = NormKind::rms;
  float epsilon = 0;
  Rows in, out;
  Vector weight, bias;
  size_t group = 0;  // elements that are normalised together
  void operator()(size_t r) const;
};

struct ActivateRows {
  using Kernel = void (*)(float* to, const float* gate, const float* up, size_t n);
  Kernel kernel = nullptr;  // none: activate() of cpu/rare_steps.h
  Activate step;
  Rows gate, up, out;
  std::vector<float> ones = {};  // in the place of `up` where there is none
  void operator()(size_t r) const;
};

struct AddRows {
  const Kernels* kernels = nullptr;
  float scale = 1;
  Rows in, out;
  void operator()(size_t r) const;
};

using RowOperation = std::variant<NormRows, ActivateRows, AddRows>;

// All operations, in order, on row r.
void run_row(std::span<const RowOperation> operations, size_t r);

// None for those that few families have.
ActivateRows::Kernel activation_kernel(const Kernels& kernels, const Activate& step);

void scale_row(float* row, size_t n, float scale);

}  // namespace rocmforge::cpu
