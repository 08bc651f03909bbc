#include "cpu/row_operations.h"

#include "base/check.h"
#include "cpu/elementwise.h"
#include "cpu/rare_steps.h"

namespace rocmforge::cpu {

void NormRows::operator()(size_t r) const {
  // From one group's weights to the next one's: all groups may share theirs.
  const size_t stride = weight.values.size() == group ? 0 : group;
  for (size_t first = 0, at = 0; first < in.width; first += group, at += stride) {
    float* to = out.at(r) + first;
    const float* from = in.at(r) + first;
    const float* times = weight.values.data() + at;
    const float* plus = bias.values.empty() ? nullptr : bias.values.data() + at;
    switch (kind) {
      case NormKind::rms:
        kernels->rms_norm(to, from, times, group, epsilon);
        if (plus) kernels->add(to, plus, group);
        break;
      case NormKind::layer:
        kernels->layer_norm(to, from, times, plus, group, epsilon);
        break;
    }
  }
}

void ActivateRows::operator()(size_t r) const {
  if (kernel == nullptr) return activate(out.at(r), gate.at(r), step.gated ? up.at(r) : nullptr, out.width, step);
  kernel(out.at(r), gate.at(r), ones.empty() ? up.at(r) : ones.data(), out.width);
}

void AddRows::operator()(size_t r) const {
  float* to = out.at(r);
  const float* from = in.at(r);
  if (scale == 1) return kernels->add(to, from, out.width);
  for (size_t i = 0; i < out.width; i++) to[i] += scale * from[i];
}

void run_row(std::span<const RowOperation> operations, size_t r) {
  for (const RowOperation& operation : operations) {
    std::visit([r](const auto& one) { one(r); }, operation);
  }
}

ActivateRows::Kernel activation_kernel(const Kernels& kernels, const Activate& step) {
  if (is_rare(step)) return nullptr;
  switch (step.kind) {
    case Activation::silu:
      return kernels.silu_multiply;
    case Activation::gelu:
      return kernels.gelu_multiply;
    case Activation::clamped_swish:
      return &clamped_swish_multiply;
    case Activation::relu:
    case Activation::relu_squared:
    case Activation::xielu:
      break;
  }
  RF_UNREACHABLE("an activation that is none");
}

void scale_row(float* row, size_t n, float scale) {
  if (scale == 1) return;
  for (size_t i = 0; i < n; i++) row[i] *= scale;
}

}  // namespace rocmforge::cpu
