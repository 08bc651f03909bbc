// Products of few rows by matrix fragments (kernels/stream_fragments.h). Products of an input are one launch for each
// format.

#include <algorithm>
#include <iterator>

#include "gpu/kernels/panels.h"
#include "gpu/kernels/stream_fragments.h"
#include "gpu/runner.h"

namespace rocmforge {

using gpu::FixedKernel;
using gpu::FormatKernel;

Result<void> GpuBackend::Runner::multiply_by_fragments(const Matmul& step) const {
  const uint32_t n = n_rows(step.in), width = slot(step.in).width;
  auto* const panels = reinterpret_cast<uint8_t*>(quants());
  const gpu::PanelsArgs inputs{panels, row_scales(), slot(step.in).data, n, width, gpu::PanelOrder::tiles_by_column};
  CHECK(uint64_t{gpu::padded_to(n, gpu::kInputPanelRows)} * width * 2 <= self_.layout_.quants_bytes);
  TRY(launch(FixedKernel::panels, gpu::panels_grid(inputs), gpu::kPanelsThreads, inputs));
  gpu::StreamFragmentsArgs args{};
  args.inputs = panels;
  args.scales = row_scales();
  args.n_rows = n;
  args.width = width;
  args.partial = reinterpret_cast<float*>(self_.memory_.data() + self_.layout_.attention_parts);
  args.counters = reinterpret_cast<uint32_t*>(self_.memory_.data() + self_.layout_.attention_arrivals);
  std::span<const Matmul::Part> rest = step.parts;
  while (!rest.empty()) {
    const DType dtype = weight(rest.front().weight).shape.dtype;
    const auto end =
        std::ranges::find_if(rest, [&](const Matmul::Part& part) { return weight(part.weight).shape.dtype != dtype; });
    const size_t n_together = std::min<size_t>(std::distance(rest.begin(), end), std::size(args.parts));
    TRY(launch_fragments(args, rest.first(n_together)));
    rest = rest.subspan(n_together);
  }
  return scale_and_cap(step);
}

// Of one format.
Result<void> GpuBackend::Runner::launch_fragments(gpu::StreamFragmentsArgs& args,
                                                  std::span<const Matmul::Part> parts) const {
  const uint32_t wave = self_.device_->wave();
  uint32_t n_tiles = 0;
  std::ranges::fill(args.parts, gpu::MatvecPart{});
  for (size_t i = 0; i < parts.size(); i++) {
    const Weight w = weight(parts[i].weight);
    const auto n_out = static_cast<uint32_t>(w.shape.n_rows);
    CHECK(w.shape.row_elements == args.width && n_out == slot(parts[i].out).width);
    args.parts[i] = {w.planes, slot(parts[i].out).data, TRY(vector_of(parts[i].bias, 0)), n_out};
    n_tiles += gpu::stream_fragments_tiles(n_out, wave);
  }
  args.n_slices = gpu::stream_fragments_slices(n_tiles, args.width);
  // Partial sums lie where attention has its own. A model's weights fix whether there is room: that for 64 rows counts.
  const auto fits = [&](uint32_t n_slices) {
    const uint64_t n = gpu::stream_fragments_partial(n_tiles, n_slices, gpu::kStreamFragmentsMaxRows, wave);
    return n * sizeof(float) <= self_.layout_.attention_parts_bytes;
  };
  if (n_tiles * sizeof(uint32_t) > self_.layout_.attention_arrivals_bytes) args.n_slices = 1;
  while (args.n_slices > 1 && !fits(args.n_slices)) args.n_slices--;
  const uint32_t rows = gpu::stream_fragments_rows(args.n_rows);
  const FormatKernel kernel = rows == 16   ? FormatKernel::fragments_16
                              : rows == 32 ? FormatKernel::fragments_32
                                           : FormatKernel::fragments_64;
  return launch(kernel, weight(parts.front().weight).shape.dtype,
                gpu::stream_fragments_grid(n_tiles, args.n_slices, args.n_rows), gpu::kStreamFragmentsThreads, args);
}

}  // namespace rocmforge
