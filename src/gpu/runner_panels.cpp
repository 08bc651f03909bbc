// Products of many rows: weights are decoded into panels of F16, as many outputs at a time as there is memory for, and
// multiplied from there (kernels/matmul_panels.h on Hopper, kernels/matmul_fragments.h elsewhere). All products of an
// input are one launch, whatever their formats.

#include <algorithm>
#include <array>

#include "gpu/kernels/matmul_fragments.h"
#include "gpu/kernels/matmul_panels.h"
#include "gpu/runner.h"

namespace rocmforge {

using gpu::FixedKernel;
using gpu::FormatKernel;
using gpu::kWeightPanelRows;

namespace {

uint32_t n_sets_of(uint32_t n_out) {
  return gpu::padded_to(n_out, kWeightPanelRows) / kWeightPanelRows;
}

}  // namespace

Result<void> GpuBackend::Runner::multiply_by_panels(const Matmul& step) const {
  const uint32_t n = n_rows(step.in), width = slot(step.in).width;
  const gpu::PanelsArgs inputs{self_.panels_.input(), row_scales(), slot(step.in).data, n, width,
                               self_.panels_.order()};
  CHECK(uint64_t{gpu::padded_to(n, gpu::kInputPanelRows)} * width * 2 <= self_.panels_.input_bytes());
  TRY(launch(FixedKernel::panels, gpu::panels_grid(inputs), gpu::kPanelsThreads, inputs));
  gpu::MatmulPanelsArgs args{};
  args.weights = self_.panels_.weights();
  args.inputs = self_.panels_.input();
  args.scales = row_scales();
  args.n_rows = n;
  args.width = width;
  const auto room = static_cast<uint32_t>(self_.panels_.weight_bytes() / (uint64_t{width} * 2 * kWeightPanelRows));
  uint32_t n_sets = 0;
  for (const Matmul::Part& part : step.parts) {
    const uint32_t n_out = slot(part.out).width;
    for (uint32_t first = 0, n_now = 0; first < n_out; first += n_now) {
      if (n_sets == room || args.n_parts == std::size(args.parts)) {
        TRY(launch_panels(args, n_sets));
        args.n_parts = n_sets = 0;
      }
      n_now = std::min(n_out - first, (room - n_sets) * kWeightPanelRows);
      args.parts[args.n_parts++] = TRY(decode_panels(part, first, n_now, n_sets));
      n_sets += n_sets_of(n_now);
    }
  }
  TRY(launch_panels(args, n_sets));
  return scale_and_cap(step);
}

// Decodes outputs of a part, from first_out on, to where set number `set` lies.
Result<gpu::PanelsPart> GpuBackend::Runner::decode_panels(const Matmul::Part& part, uint32_t first_out, uint32_t n,
                                                          uint32_t set) const {
  const Weight w = weight(part.weight);
  const auto n_out = static_cast<uint32_t>(w.shape.n_rows), width = static_cast<uint32_t>(w.shape.row_elements);
  CHECK(n_out == slot(part.out).width);
  uint8_t* to = self_.panels_.weights() + uint64_t{set} * kWeightPanelRows * width * 2;
  const gpu::WeightPanelsArgs args{to, w.planes, first_out, n_out, width, self_.panels_.order()};
  TRY(launch(FormatKernel::weight_panels, w.shape.dtype, gpu::weight_panels_grid(args, n), gpu::kPanelsThreads, args));
  return gpu::PanelsPart{slot(part.out).data, TRY(vector_of(part.bias, 0)), n_out, first_out, n};
}

Result<void> GpuBackend::Runner::launch_panels(const gpu::MatmulPanelsArgs& args, uint32_t n_sets) const {
  if (!self_.device_->has_hopper()) {
    const FixedKernel kernel = gpu::matmul_fragments_rows(args.n_rows) == 64 ? FixedKernel::matmul_fragments_64
                                                                             : FixedKernel::matmul_fragments_128;
    return launch(kernel, gpu::matmul_fragments_grid(n_sets, args.n_rows), gpu::kMatmulFragmentsThreads, args);
  }
  const gpu::MatmulPanelsShape shape = gpu::matmul_panels_shape(n_sets, args.n_rows);
  const FixedKernel kernel = shape.rows == 256 ? FixedKernel::matmul_panels_256 : FixedKernel::matmul_panels_128;
  return launch(TRY(self_.kernels_.get(kernel)),
                {shape.grid, gpu::kMatmulPanelsThreads, gpu::matmul_panels_shared_bytes(shape.rows)}, args);
}

}  // namespace rocmforge
