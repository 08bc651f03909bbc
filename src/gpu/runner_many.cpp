// Products of two rows and more on Hopper (kernels/stream_many_hopper.h): one launch makes the inputs, in the order of
// every format that takes them, then there is one for each set of rows and each format, or each pair of formats.

#include <algorithm>
#include <vector>

#include "gpu/kernels/stream_many_hopper.h"
#include "gpu/runner.h"

namespace rocmforge {

using gpu::FixedKernel;
using gpu::FormatKernel;
using gpu::ManyKind;

namespace {

uint32_t rows_of(ManyKind kind) {
  return gpu::many_shape(kind, 0).rows();
}

FormatKernel kernel_of(ManyKind kind) {
  switch (kind) {
    case ManyKind::rows_8:
      return FormatKernel::many_rows_8;
    case ManyKind::rows_16:
      return FormatKernel::many_rows_16;
    case ManyKind::rows_32:
      return FormatKernel::many_rows_32;
    case ManyKind::wide_8:
      return FormatKernel::many_wide_8;
    case ManyKind::wide_16:
      return FormatKernel::many_wide_16;
    case ManyKind::wide_32:
      return FormatKernel::many_wide_32;
  }
  RF_UNREACHABLE("a ManyKind outside its enum");
}

// Wide weights have no kernel for two formats.
bool takes_pairs(ManyKind kind) {
  return kind == ManyKind::rows_8 || kind == ManyKind::rows_16 || kind == ManyKind::rows_32;
}

// Rows from `row` on, `n` of them.
gpu::StreamArgs from_row(gpu::StreamArgs args, uint32_t row, uint32_t n) {
  const auto later = [&](float* data, uint32_t width) {
    return data != nullptr ? data + uint64_t{row} * width : nullptr;
  };
  args.n_rows = n;
  for (uint32_t p = 0; p < args.n_parts; p++) args.parts[p].out = later(args.parts[p].out, args.parts[p].n_out);
  args.sum = later(args.sum, args.parts[0].n_out);
  args.activated = later(args.activated, args.parts[0].n_out);
  return args;
}

}  // namespace

Result<void> GpuBackend::Runner::launch_many(std::span<const StreamPart> formats) const {
  const gpu::StreamArgs& first = formats.front().args;
  const uint32_t n_pieces = first.width / gpu::kStreamColumns;
  // All take as many rows at a time as the one that takes fewest.
  ManyKind kind = *gpu::many_kind(formats.front().dtype, n_pieces, first.n_rows);
  for (const StreamPart& part : formats) {
    const ManyKind other = *gpu::many_kind(part.dtype, n_pieces, first.n_rows);
    if (rows_of(other) < rows_of(kind)) kind = other;
  }
  const uint32_t at_once = rows_of(kind);

  gpu::ManyInputsArgs inputs = gpu::many_inputs(first, {.rows_at_once = at_once});
  auto* end = reinterpret_cast<uint8_t*>(quants());
  for (const StreamPart& part : formats) {
    const gpu::ManyOrder order = gpu::many_order(part.dtype);
    if (inputs.to.find(order) != nullptr) continue;
    inputs.to.add(order, end, at_once * gpu::many_row_bytes(gpu::many_scales(order)));
    end += gpu::many_inputs_bytes(first.n_rows, at_once, n_pieces, gpu::strip_shape(part.dtype).n_scales);
  }
  TRY(launch(FixedKernel::stream_many_inputs, gpu::many_inputs_grid(inputs), gpu::kManyInputsThreads, inputs));

  for (uint32_t row = 0; row < first.n_rows; row += at_once) {
    std::vector<StreamPart> parts;
    for (const StreamPart& part : formats) {
      parts.push_back({part.dtype, part.n_strips, from_row(part.args, row, std::min(at_once, first.n_rows - row))});
      const uint64_t row_bytes = gpu::many_row_bytes(gpu::strip_shape(part.dtype).n_scales);
      parts.back().args.x =
          reinterpret_cast<const float*>(inputs.to.find(gpu::many_order(part.dtype)) + row * n_pieces * row_bytes);
    }
    TRY(launch_many(parts, kind));
  }
  return {};
}

Result<void> GpuBackend::Runner::launch_many(std::span<StreamPart> parts, gpu::ManyKind kind) const {
  const uint32_t n_pieces = parts.front().args.width / gpu::kStreamColumns;
  const auto shape = [&](const StreamPart& part) { return gpu::many_shape_of(kind, part.dtype); };
  const auto shared_bytes = [&](const StreamPart& part) {
    return gpu::many_shared_bytes(shape(part), gpu::strip_shape(part.dtype), n_pieces);
  };
  const uint32_t n_blocks = gpu::many_clusters(shape(parts.front())), cluster = shape(parts.front()).cluster;
  const gpu::Grid grid{n_blocks, 1, cluster, cluster};
  const uint32_t n_threads = shape(parts.front()).threads();
  if (parts.size() == 2 && takes_pairs(kind) && gpu::has_pair_kernels(parts[0].dtype, parts[1].dtype)) {
    // So that neither has many more bytes for a cluster than the other.
    const auto bytes = [&](const StreamPart& part) {
      return uint64_t{part.n_strips} * gpu::strip_shape(part.dtype).stage_bytes;
    };
    const uint64_t all = bytes(parts[0]) + bytes(parts[1]);
    const auto second =
        static_cast<uint32_t>(std::clamp<uint64_t>((bytes(parts[1]) * n_blocks + all / 2) / all, 1, n_blocks - 1));
    gpu::StreamPairArgs args{parts[0].args, parts[1].args};
    args.first.n_blocks = args.second.first_block = n_blocks - second;
    args.second.n_blocks = second;
    const uint32_t n_bytes = std::max(shared_bytes(parts[0]), shared_bytes(parts[1]));
    return launch(TRY(self_.kernels_.get(kernel_of(kind), parts[0].dtype, parts[1].dtype)), {grid, n_threads, n_bytes},
                  args);
  }
  for (StreamPart& part : parts) {
    part.args.n_blocks = n_blocks;
    TRY(launch(TRY(self_.kernels_.get(kernel_of(kind), part.dtype)), {grid, shape(part).threads(), shared_bytes(part)},
               part.args));
  }
  return {};
}

}  // namespace rocmforge
