// Products of 9 to 64 rows on Hopper (kernels/stream_many_hopper.h): one launch makes the inputs, in the order of every
// format that takes them, then there is one for each format and each set of rows.

#include <algorithm>

#include "gpu/kernels/stream_many_hopper.h"
#include "gpu/runner.h"

namespace rocmforge {

using gpu::FixedKernel;
using gpu::FormatKernel;
using gpu::ManyKind;

namespace {

// The kernel that takes most of so many rows at a time, if there is one.
std::optional<ManyKind> kind_of(DType dtype, uint32_t n_pieces, uint32_t rows) {
  const gpu::StripShape strip = gpu::strip_shape(dtype);
  const auto fits = [&](ManyKind kind) {
    return gpu::many_fits(gpu::many_shape(kind, strip.stage_bytes), strip, n_pieces);
  };
  if (fits(ManyKind::wide)) return ManyKind::wide;
  if (rows > 32 && fits(ManyKind::rows_64)) return ManyKind::rows_64;
  if (rows > 16 && fits(ManyKind::rows_32)) return ManyKind::rows_32;
  if (fits(ManyKind::rows_16)) return ManyKind::rows_16;
  return std::nullopt;
}

FormatKernel kernel_of(ManyKind kind) {
  switch (kind) {
    case ManyKind::rows_16:
      return FormatKernel::many_16;
    case ManyKind::rows_32:
      return FormatKernel::many_32;
    case ManyKind::rows_64:
      return FormatKernel::many_64;
    case ManyKind::wide:
      return FormatKernel::many_wide;
  }
  RF_UNREACHABLE("a ManyKind outside its enum");
}

uint32_t rows_of(ManyKind kind) {
  return gpu::many_shape(kind, 0).rows();
}

// Of inputs in one order.
uint64_t input_bytes(uint32_t n_rows, uint32_t rows_at_once, uint32_t n_pieces, uint32_t n_scales) {
  const uint64_t padded = (n_rows + rows_at_once - 1) / rows_at_once * rows_at_once;
  return (padded * n_pieces * gpu::many_row_bytes(n_scales) + 255) / 256 * 256;
}

}  // namespace

bool GpuBackend::Runner::can_stream_many(const Matmul& step) const {
  const uint32_t n_pieces = slot(step.in).width / gpu::kStreamColumns, rows = n_rows(step.in);
  uint64_t n_bytes = 0;
  for (const Matmul::Part& part : step.parts) {
    const WeightShape& shape = weights_.tensor(part.weight).shape;
    if (gpu::product_kind(shape.dtype) != gpu::ProductKind::integer || shape.n_rows % gpu::kStreamOutputs != 0) {
      return false;
    }
    if (part.bias && weights_.tensor(*part.bias).shape.dtype != DType::f32) return false;
    if (!kind_of(shape.dtype, n_pieces, rows)) return false;
    n_bytes += input_bytes(rows, gpu::kManyMaxRows, n_pieces, gpu::strip_shape(shape.dtype).n_scales);
  }
  return n_bytes <= self_.layout_.quants_bytes;
}

Result<void> GpuBackend::Runner::launch_many(std::span<StreamPart> formats) const {
  const gpu::StreamArgs& first = formats.front().args;
  const uint32_t n_pieces = first.width / gpu::kStreamColumns;
  // All take as many rows at a time as the one that takes fewest.
  ManyKind kind = *kind_of(formats.front().dtype, n_pieces, first.n_rows);
  for (const StreamPart& part : formats) {
    const ManyKind other = *kind_of(part.dtype, n_pieces, first.n_rows);
    if (rows_of(other) < rows_of(kind)) kind = other;
  }
  const uint32_t at_once = rows_of(kind);

  gpu::ManyInputsArgs inputs{.x = first.x,
                             .norm_weight = first.norm_weight,
                             .normed = first.normed,
                             .epsilon = first.epsilon,
                             .n_rows = first.n_rows,
                             .width = first.width,
                             .rows_at_once = at_once};
  auto* end = reinterpret_cast<uint8_t*>(quants());
  for (const StreamPart& part : formats) {
    const gpu::ManyOrder order = gpu::many_order(part.dtype);
    const auto known = std::span(inputs.orders).first(inputs.n_orders);
    if (std::ranges::find(known, order) != known.end()) continue;
    inputs.orders[inputs.n_orders] = order;
    inputs.out[inputs.n_orders++] = end;
    end += input_bytes(first.n_rows, at_once, n_pieces, gpu::strip_shape(part.dtype).n_scales);
  }
  TRY(launch(FixedKernel::stream_many_inputs, gpu::many_inputs_grid(inputs), gpu::kManyInputsThreads, inputs));

  for (const StreamPart& part : formats) {
    const gpu::StripShape strip = gpu::strip_shape(part.dtype);
    const gpu::ManyShape shape = gpu::many_shape(kind, strip.stage_bytes);
    const auto order = std::ranges::find(inputs.orders, gpu::many_order(part.dtype)) - inputs.orders;
    const gpu::LaunchShape launch_shape{{gpu::many_clusters(shape), 1, shape.cluster, shape.cluster},
                                        shape.threads(),
                                        gpu::many_shared_bytes(shape, strip, n_pieces)};
    for (uint32_t row = 0; row < first.n_rows; row += at_once) {
      gpu::StreamArgs args = part.args;
      args.x = reinterpret_cast<const float*>(inputs.out[order] +
                                              uint64_t{row} * n_pieces * gpu::many_row_bytes(strip.n_scales));
      args.n_rows = std::min(at_once, first.n_rows - row);
      args.n_blocks = gpu::many_clusters(shape);
      const auto from_row = [&](float* data, uint32_t width) {
        return data != nullptr ? data + uint64_t{row} * width : nullptr;
      };
      for (uint32_t p = 0; p < args.n_parts; p++) args.parts[p].out = from_row(args.parts[p].out, args.parts[p].n_out);
      args.sum = from_row(args.sum, args.parts[0].n_out);
      args.activated = from_row(args.activated, args.parts[0].n_out);
      TRY(launch(TRY(self_.kernels_.get(kernel_of(kind), part.dtype)), launch_shape, args));
    }
  }
  return {};
}

}  // namespace rocmforge
