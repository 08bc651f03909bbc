// Steps that few families have (kernels/rare_steps.h).

#include "gpu/kernels/rare_steps.h"
#include "gpu/runner.h"

namespace rocmforge {

using gpu::FixedKernel;

bool GpuBackend::Runner::is_rare(const Activate& step) {
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

void GpuBackend::Runner::forget_bytes(SlotId id) const {
  if (as_bytes_ == id) as_bytes_.reset();
}

Result<void> GpuBackend::Runner::activate_rarely(const Activate& step) const {
  forget_bytes(step.out);
  const uint64_t n = uint64_t{n_rows(step.out)} * slot(step.out).width;
  const FixedKernel kernel = step.kind == Activation::relu           ? FixedKernel::relu_multiply
                             : step.kind == Activation::relu_squared ? FixedKernel::relu_squared_multiply
                             : step.kind == Activation::xielu        ? FixedKernel::xielu_multiply
                                                                     : FixedKernel::clamped_silu_multiply;
  CHECK(step.gated || step.clamp == 0);
  const Xielu& x = step.xielu;
  return launch(kernel, gpu::rare_grid(n), gpu::kElementThreads,
                gpu::RareActivateArgs{slot(step.out).data,
                                      slot(step.gate).data,
                                      step.gated ? slot(step.up).data : nullptr,
                                      n,
                                      step.clamp,
                                      {x.alpha_n, x.alpha_p, x.beta, x.epsilon}});
}

Result<void> GpuBackend::Runner::scale_parts(const Matmul& step) const {
  for (const Matmul::Part& part : step.parts) {
    const uint64_t n = uint64_t{n_rows(part.out)} * slot(part.out).width;
    if (part.scale) {
      CHECK(!part.bias);
      TRY(launch(FixedKernel::scale_by, gpu::rare_grid(n), gpu::kElementThreads,
                 gpu::ScaleByArgs{slot(part.out).data, TRY(vector_of(part.scale, 0)), n}));
    }
    if (step.clamp != 0) {
      CHECK(step.scale == 1 && step.softcap == 0);
      TRY(launch(FixedKernel::clamp, gpu::rare_grid(n), gpu::kElementThreads,
                 gpu::ClampArgs{slot(part.out).data, n, step.clamp}));
    }
  }
  return {};
}

Result<void> GpuBackend::Runner::operator()(const Temper& step) const {
  CHECK(slot(step.slot).rows == SlotRows::batch);
  forget_bytes(step.slot);
  const uint32_t width = slot(step.slot).width;
  const uint64_t n = uint64_t{n_rows(step.slot)} * width;
  const Temperature& by = step.temperature;
  return launch(FixedKernel::temper, gpu::rare_grid(n), gpu::kElementThreads,
                gpu::TemperArgs{slot(step.slot).data, batch_.positions, n, width, by.scale, by.length, by.offset});
}

Result<void> GpuBackend::Runner::operator()(const Gate& step) const {
  const uint32_t width = slot(step.out).width, n_gates = slot(step.gate).width;
  CHECK(slot(step.in).width == width && n_gates > 0 && width % n_gates == 0);
  forget_bytes(step.out);
  const uint64_t n = uint64_t{n_rows(step.out)} * width;
  return launch(FixedKernel::gate, gpu::rare_grid(n), gpu::kElementThreads,
                gpu::GateArgs{slot(step.out).data, slot(step.in).data, slot(step.gate).data, n, width / n_gates,
                              step.kind == OutputGate::softplus ? 1u : 0u});
}

Result<void> GpuBackend::Runner::operator()(const Scale& step) const {
  forget_bytes(step.slot);
  const uint64_t n = uint64_t{n_rows(step.slot)} * slot(step.slot).width;
  return launch(FixedKernel::scale_by, gpu::rare_grid(n), gpu::kElementThreads,
                gpu::ScaleByArgs{slot(step.slot).data, TRY(vector_of(step.weight, 0)), n});
}

Result<void> GpuBackend::Runner::operator()(const TakeColumns& step) const {
  const uint32_t width = slot(step.out).width, in_width = slot(step.in).width;
  CHECK(uint64_t{step.first} + width <= in_width);
  forget_bytes(step.out);
  const uint64_t n = uint64_t{n_rows(step.out)} * width;
  return launch(FixedKernel::take_columns, gpu::rare_grid(n), gpu::kElementThreads,
                gpu::TakeColumnsArgs{slot(step.out).data, slot(step.in).data, n, width, in_width, step.first});
}

Result<void> GpuBackend::Runner::operator()(const WeighExperts& step) const {
  const uint64_t n_pairs = uint64_t{n_rows(step.routing)} * step.n_used;
  for (const SlotId id : step.slots) {
    forget_bytes(id);
    const uint32_t width = slot(id).width / step.n_used;
    TRY(launch(FixedKernel::weigh, gpu::rare_grid(n_pairs * width), gpu::kElementThreads,
               gpu::WeighArgs{slot(id).data, slot(step.routing).data, n_pairs * width, width}));
  }
  return launch(FixedKernel::forget_weights, gpu::rare_grid(n_pairs), gpu::kElementThreads,
                gpu::WeighArgs{nullptr, slot(step.routing).data, n_pairs, 1});
}

}  // namespace rocmforge
