// Steps of recurrent layers (kernels/recurrent.h).

#include "gpu/kernels/recurrent.h"

#include "gpu/runner.h"

namespace rocmforge {

using gpu::FixedKernel;

gpu::StatesView GpuBackend::Runner::states_of(uint32_t layer, uint32_t state_at) const {
  CHECK(layer < self_.layout_.states.size() && batch_.runs != nullptr);
  auto* first = reinterpret_cast<float*>(self_.memory_.data() + self_.layout_.states[layer]);
  return {first + state_at, self_.layout_.state_elements, batch_.runs};
}

const float* GpuBackend::Runner::numbers_of(WeightId id, uint64_t n) const {
  const Weight w = weight(id);
  CHECK(w.shape.dtype == DType::f32 && w.shape.row_elements * w.shape.n_rows == n);
  return reinterpret_cast<const float*>(w.planes.at[0]);
}

Result<void> GpuBackend::Runner::operator()(const gpu::ConvolveStep& step) const {
  const auto data = [&](const Gate* gate) { return gate != nullptr ? slot(gate->gate).data : nullptr; };
  return convolve(*step.convolve, data(step.before), data(step.after));
}

Result<void> GpuBackend::Runner::operator()(const Convolve& step) const {
  return convolve(step, nullptr, nullptr);
}

// The gates are factors of the inputs and of the outputs, or null.
Result<void> GpuBackend::Runner::convolve(const Convolve& step, const float* gate_in, const float* gate_out) const {
  const uint32_t width = slot(step.in).width;
  CHECK(slot(step.out).width == width && step.in != step.out);
  const gpu::Grid grid = gpu::convolve_grid(width, extent_.n_sequences, extent_.most_rows);
  return launch(FixedKernel::convolve, grid, gpu::kConvolveThreads,
                gpu::ConvolveArgs{.out = slot(step.out).data,
                                  .in = slot(step.in).data,
                                  .gate_in = gate_in,
                                  .gate_out = gate_out,
                                  .weight = numbers_of(step.weight, uint64_t{width} * step.n_taps),
                                  .bias = step.bias ? numbers_of(*step.bias, width) : nullptr,
                                  .states = states_of(step.layer, step.state_at),
                                  .width = width,
                                  .n_taps = step.n_taps,
                                  .has_silu = step.silu ? 1u : 0u,
                                  .rows_of_a_block = grid.z == 1 ? n_rows(step.in) : gpu::kConvolveRows});
}

Result<void> GpuBackend::Runner::operator()(const Scan& step) const {
  CHECK(slot(step.out).width == step.inner() && slot(step.step).width == step.n_steps());
  const auto columns = [&](const Columns& of, uint32_t n) -> gpu::RowColumns {
    CHECK(uint64_t{of.first} + n <= slot(of.slot).width);
    return {slot(of.slot).data + of.first, slot(of.slot).width};
  };
  const uint32_t n_heads = step.by_element ? 1 : step.n_heads, n_groups = step.by_element ? 1 : step.n_groups;
  const uint32_t head_size = step.inner() / n_heads;
  const FixedKernel kernel = step.by_element
                                 ? step.state_size <= 16 ? FixedKernel::scan_element_16 : FixedKernel::scan_element_64
                             : step.state_size <= 128 ? FixedKernel::scan_head_128
                                                      : FixedKernel::scan_head_256;
  const uint64_t n_decays = step.by_element ? uint64_t{step.inner()} * step.state_size : n_heads;
  return launch(kernel, gpu::walk_grid(n_heads, head_size, extent_.n_sequences), gpu::kWalkThreads,
                gpu::ScanArgs{.out = slot(step.out).data,
                              .x = columns(step.x, step.inner()),
                              .b = columns(step.b, n_groups * step.state_size),
                              .c = columns(step.c, n_groups * step.state_size),
                              .step = columns({step.step, 0}, step.n_steps()),
                              .step_bias = numbers_of(step.step_bias, step.n_steps()),
                              .decay = numbers_of(step.decay, n_decays),
                              .skip = numbers_of(step.skip, step.n_steps()),
                              .states = states_of(step.layer, step.state_at),
                              .n_heads = n_heads,
                              .head_size = head_size,
                              .state_size = step.state_size,
                              .n_groups = n_groups});
}

Result<void> GpuBackend::Runner::operator()(const DeltaRule& step) const {
  const uint32_t keys = step.n_key_heads * step.key_size, values = step.n_heads * step.head_size;
  CHECK(slot(step.in).width == 2 * keys + values && slot(step.out).width == values);
  CHECK(slot(step.beta).width == step.n_heads && slot(step.alpha).width == step.n_heads);
  const auto columns = [&](SlotId id) { return gpu::RowColumns{slot(id).data, slot(id).width}; };
  return launch(step.key_size <= 128 ? FixedKernel::delta_rule_128 : FixedKernel::delta_rule_256,
                gpu::walk_grid(step.n_heads, step.head_size, extent_.n_sequences), gpu::kWalkThreads,
                gpu::DeltaRuleArgs{.out = slot(step.out).data,
                                   .in = columns(step.in),
                                   .beta = columns(step.beta),
                                   .alpha = columns(step.alpha),
                                   .step_bias = numbers_of(step.step_bias, step.n_heads),
                                   .decay = numbers_of(step.decay, step.n_heads),
                                   .states = states_of(step.layer, step.state_at),
                                   .n_heads = step.n_heads,
                                   .head_size = step.head_size,
                                   .n_key_heads = step.n_key_heads,
                                   .key_size = step.key_size,
                                   .alternates = step.alternates ? 1u : 0u,
                                   .epsilon = step.epsilon});
}

}  // namespace rocmforge
