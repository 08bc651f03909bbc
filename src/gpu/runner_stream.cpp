// Products of few rows on Hopper, with the steps around them: of one row (kernels/stream_hopper.h), and up to eight
// with weights of floats (kernels/stream_float_hopper.h). Every slot that a step would write is written, so that it
// does not matter who reads it later.

#include <algorithm>
#include <vector>

#include "gpu/kernels/stream_float_hopper.h"
#include "gpu/kernels/stream_hopper.h"
#include "gpu/runner.h"

namespace rocmforge {

using gpu::FixedKernel;
using gpu::FormatKernel;
using gpu::ProductRoute;
using gpu::StreamAfter;

namespace {

StreamAfter after(Activation kind) {
  switch (kind) {
    case Activation::silu:
      return StreamAfter::silu;
    case Activation::gelu:
      return StreamAfter::gelu;
    case Activation::clamped_swish:
      return StreamAfter::clamped_swish;
    case Activation::relu:
    case Activation::relu_squared:
    case Activation::xielu:
      break;
  }
  RF_UNREACHABLE("an Activation outside its enum");
}

bool is_of_floats(DType dtype) {
  return gpu::product_kind(dtype) == gpu::ProductKind::f16_tiles;
}

// What a format's kernel for so many rows takes.
uint32_t threads_of(DType dtype, uint32_t rows) {
  return is_of_floats(dtype) ? gpu::float_stream_threads(rows) : gpu::kStreamThreads;
}

}  // namespace

Result<void> GpuBackend::Runner::operator()(const gpu::StreamStep& step) const {
  tell(*step.product);
  const auto dtype_of = [&](const Matmul::Part& part) { return weights_.tensor(part.weight).shape.dtype; };
  std::vector<StreamPart> formats;
  const std::span<const Matmul::Part> parts(step.product->parts);
  for (size_t first = 0, n = 0; first < parts.size(); first += n) {
    n = 1;
    while (first + n < parts.size() && dtype_of(parts[first + n]) == dtype_of(parts[first])) n++;
    formats.push_back(TRY(stream_part(step, parts.subspan(first, n))));
    if (step.rope != nullptr) TRY(turn(formats.back(), first, step));
  }
  if (step.rows.makes_rotations) TRY(make_rotations(step));
  if (step.rows.next_norm != nullptr) formats.front().next = TRY(write_inputs_of(step.rows));
  TRY(step.route == ProductRoute::stream_rows   ? launch_rows(formats, step)
      : step.route == ProductRoute::stream_many ? launch_many(formats)
                                                : launch_streams(formats));
  return step.is_plain ? Result<void>() : scale_and_cap(*step.product);
}

// first: which of queries, keys and values the part begins with
Result<void> GpuBackend::Runner::turn(StreamPart& part, size_t first, const gpu::StreamStep& step) const {
  constexpr gpu::StreamRole kRoles[] = {gpu::StreamRole::query, gpu::StreamRole::key, gpu::StreamRole::value};
  for (size_t p = 0; p < part.args.n_parts; p++) part.args.roles[p] = kRoles[first + p];
  if (part.args.n_rows > 1) {
    part.turn = turns_of_rows(step);
    return {};
  }
  part.args.caches_halves = self_.kv_type_ == KvType::f16;
  part.args.turn = {TRY(rope_args(*step.rope)), store_args(*step.store), 0};
  return {};
}

// REQUIRES: parts of one format
Result<GpuBackend::Runner::StreamPart> GpuBackend::Runner::stream_part(const gpu::StreamStep& step,
                                                                       std::span<const Matmul::Part> parts) const {
  const Matmul& product = *step.product;
  const Norm* norm = step.norm;
  const uint32_t width = slot(product.in).width;
  StreamPart out{weights_.tensor(parts.front().weight).shape.dtype, 0, {}};
  gpu::StreamArgs& args = out.args;
  args.x = slot(norm != nullptr ? norm->in : product.in).data;
  if (norm != nullptr) {
    args.norm_weight = TRY(vector_of(norm->weight, 0));
    args.normed = slot(norm->out).data;
    args.epsilon = norm->epsilon;
  }
  args.n_rows = n_rows(product.in);
  args.width = width;
  for (const Matmul::Part& part : parts) {
    const Weight w = weight(part.weight);
    CHECK(w.shape.row_elements == width && w.shape.n_rows == slot(part.out).width);
    const auto n_out = static_cast<uint32_t>(w.shape.n_rows);
    args.parts[args.n_parts++] = {w.planes, slot(part.out).data, TRY(vector_of(part.bias, 1)), n_out};
    out.n_strips += n_out / gpu::kStreamOutputs;
  }
  if (step.sum != nullptr) {
    args.sum = slot(step.sum->out).data;
    args.sum_scale = step.sum->scale;
  }
  if (step.activate != nullptr) {
    args.after = after(step.activate->kind);
    args.activated = slot(step.activate->out).data;
    out.n_strips /= 2;
  }
  return out;
}

// Two formats are one launch where there is a kernel for them: blocks are divided so that none has much more to read.
Result<void> GpuBackend::Runner::launch_streams(std::span<StreamPart> formats) const {
  const uint32_t rows = gpu::stream_rows_of_kernel(formats.front().args.n_rows);
  const auto shared_bytes = [&](const StreamPart& part) {
    const uint32_t n_items =
        gpu::most_items(part.n_strips, part.args.n_blocks) * (part.args.activated != nullptr ? 2 : 1);
    return gpu::stream_shared_bytes_of(part.dtype, part.args.width / gpu::kStreamColumns, rows, n_items);
  };
  if (formats.size() == 2 && gpu::has_pair_kernels(formats[0].dtype, formats[1].dtype) &&
      formats[0].n_strips + formats[1].n_strips >= gpu::kStreamBlocks) {
    uint64_t least = UINT64_MAX;
    for (uint32_t n = 1; n < gpu::kStreamBlocks; n++) {
      const auto bytes = [&](const StreamPart& part, uint32_t n_blocks) {
        return uint64_t{gpu::most_items(part.n_strips, n_blocks)} * gpu::strip_shape(part.dtype).stage_bytes;
      };
      const uint64_t most = std::max(bytes(formats[0], n), bytes(formats[1], gpu::kStreamBlocks - n));
      if (most >= least) continue;
      least = most;
      formats[0].args.n_blocks = n;
    }
    formats[1].args.n_blocks = gpu::kStreamBlocks - formats[0].args.n_blocks;
    const uint32_t bytes = std::max(shared_bytes(formats[0]), shared_bytes(formats[1]));
    if (bytes <= gpu::kStreamMaxShared) {
      gpu::StreamPairArgs args{formats[0].args, formats[1].args};
      gpu::divide_stream(args.first, formats[0].n_strips, 0, args.first.n_blocks);
      gpu::divide_stream(args.second, formats[1].n_strips, args.first.n_blocks, args.second.n_blocks);
      args.second.normed = nullptr;
      return launch(TRY(self_.kernels_.get(FormatKernel::stream_1, formats[0].dtype, formats[1].dtype)),
                    {{gpu::kStreamBlocks}, gpu::kStreamThreads, bytes}, args);
    }
  }
  for (StreamPart& part : formats) {
    gpu::divide_stream(part.args, part.n_strips, 0, std::min(part.n_strips, gpu::kStreamBlocks));
    TRY(launch(TRY(self_.kernels_.get(rows == 1 ? FormatKernel::stream_1 : FormatKernel::stream_8, part.dtype)),
               {{part.args.n_blocks}, threads_of(part.dtype, rows), shared_bytes(part)}, part.args));
  }
  return {};
}

}  // namespace rocmforge
