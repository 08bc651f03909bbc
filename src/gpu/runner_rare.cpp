// Steps that few families have (kernels/rare_steps.h).

#include "gpu/kernels/rare_steps.h"
#include "gpu/runner.h"

namespace rocmforge {

using gpu::FixedKernel;

Result<void> GpuBackend::Runner::activate_rarely(const Activate& step) const {
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
  const uint32_t width = slot(step.slot).width;
  const uint64_t n = uint64_t{n_rows(step.slot)} * width;
  const Temperature& by = step.temperature;
  return launch(FixedKernel::temper, gpu::rare_grid(n), gpu::kElementThreads,
                gpu::TemperArgs{slot(step.slot).data, batch_.positions, n, width, by.scale, by.length, by.offset});
}

static gpu::GateKind gate_kind(OutputGate kind) {
  switch (kind) {
    case OutputGate::sigmoid:
      return gpu::GateKind::sigmoid;
    case OutputGate::softplus:
      return gpu::GateKind::softplus;
    case OutputGate::plain:
      return gpu::GateKind::plain;
    case OutputGate::none:
      break;
  }
  RF_UNREACHABLE("a gate of no kind");
}

Result<void> GpuBackend::Runner::operator()(const Gate& step) const {
  const uint32_t width = slot(step.out).width, n_gates = slot(step.gate).width;
  CHECK(slot(step.in).width == width && n_gates > 0 && width % n_gates == 0);
  const uint64_t n = uint64_t{n_rows(step.out)} * width;
  return launch(FixedKernel::gate, gpu::rare_grid(n), gpu::kElementThreads,
                gpu::GateArgs{slot(step.out).data, slot(step.in).data, slot(step.gate).data, n, width / n_gates,
                              gate_kind(step.kind)});
}

Result<void> GpuBackend::Runner::operator()(const Scale& step) const {
  const uint32_t width = slot(step.slot).width;
  const uint64_t n = uint64_t{n_rows(step.slot)} * width;
  const float* by = TRY(vector_of(step.weight, 0));
  if (weight(step.weight).shape.row_elements == 1) {
    return launch(FixedKernel::scale_by, gpu::rare_grid(n), gpu::kElementThreads,
                  gpu::ScaleByArgs{slot(step.slot).data, by, n});
  }
  return launch(FixedKernel::scale_columns, gpu::rare_grid(n), gpu::kElementThreads,
                gpu::ScaleColumnsArgs{slot(step.slot).data, by, n, width});
}

Result<void> GpuBackend::Runner::operator()(const MixStreams& step) const {
  const uint32_t width = slot(step.in).width / step.n_in;
  CHECK(slot(step.in).width == width * step.n_in && slot(step.out).width == width * step.n_out);
  CHECK(step.in != step.out || (step.n_in == 1 && step.n_out == 1));
  const uint64_t n = uint64_t{n_rows(step.out)} * slot(step.out).width;
  return launch(FixedKernel::mix_streams, gpu::rare_grid(n), gpu::kElementThreads,
                gpu::MixStreamsArgs{slot(step.out).data, slot(step.in).data,
                                    step.coefficients ? slot(*step.coefficients).data : nullptr, n, width, step.n_in,
                                    step.n_out, step.first, step.offset, step.scale});
}

Result<void> GpuBackend::Runner::operator()(const MatchLength& step) const {
  const uint32_t width = slot(step.like).width, n_groups = slot(step.slot).width / width;
  CHECK(slot(step.slot).width == n_groups * width);
  return launch(FixedKernel::match_length, {n_rows(step.slot) * n_groups}, gpu::kElementThreads,
                gpu::MatchLengthArgs{slot(step.slot).data, slot(step.like).data, width, n_groups});
}

Result<void> GpuBackend::Runner::operator()(const CutRow& step) const {
  return launch(FixedKernel::cut_row, {n_rows(step.slot)}, gpu::kElementThreads,
                gpu::CutRowArgs{slot(step.slot).data, slot(step.slot).width, step.factor});
}

Result<void> GpuBackend::Runner::operator()(const TakeColumns& step) const {
  const uint32_t out_width = slot(step.out).width, in_width = slot(step.in).width;
  const uint32_t period = step.period != 0 ? step.period : in_width, each = step.period != 0 ? step.n : out_width;
  CHECK(period > 0 && each > 0 && uint64_t{step.first} + each <= period && in_width % period == 0);
  const uint32_t width = in_width / period * each;
  CHECK(step.out_first + uint64_t{width} <= out_width);
  const uint64_t n = uint64_t{n_rows(step.out)} * width;
  return launch(FixedKernel::take_columns, gpu::rare_grid(n), gpu::kElementThreads,
                gpu::TakeColumnsArgs{slot(step.out).data, slot(step.in).data, n, width, in_width, step.first, each,
                                     period, out_width, step.out_first});
}

Result<void> GpuBackend::Runner::operator()(const WeighExperts& step) const {
  const uint64_t n_pairs = uint64_t{n_rows(step.routing)} * step.n_used;
  for (const SlotId id : step.slots) {
    const uint32_t width = slot(id).width / step.n_used;
    TRY(launch(FixedKernel::weigh, gpu::rare_grid(n_pairs * width), gpu::kElementThreads,
               gpu::WeighArgs{slot(id).data, slot(step.routing).data, n_pairs * width, width}));
  }
  return launch(FixedKernel::forget_weights, gpu::rare_grid(n_pairs), gpu::kElementThreads,
                gpu::WeighArgs{nullptr, slot(step.routing).data, n_pairs, 1});
}

}  // namespace rocmforge
