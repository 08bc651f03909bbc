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
using gpu::StreamAfter;

namespace {

// The step at `i`, if it is of this kind.
template <class T>
const T* step_at(std::span<const Step> steps, size_t i) {
  return i < steps.size() ? std::get_if<T>(&steps[i]) : nullptr;
}

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

uint32_t rows_of_kernel(uint32_t n_rows) {
  return n_rows == 1 ? 1 : 8;
}

// Strips of the block that has most of n_strips, when n_blocks have to do with them.
uint32_t most_items(uint32_t n_strips, uint32_t n_blocks) {
  return (n_strips + n_blocks - 1) / n_blocks;
}

bool is_of_floats(DType dtype) {
  return gpu::product_kind(dtype) == gpu::ProductKind::f16_tiles;
}

// What a format's kernel for so many rows takes.
uint32_t threads_of(DType dtype, uint32_t rows) {
  return is_of_floats(dtype) ? gpu::float_stream_threads(rows) : gpu::kStreamThreads;
}
uint32_t shared_bytes_of(DType dtype, uint32_t n_pieces, uint32_t rows, uint32_t n_items) {
  return is_of_floats(dtype) ? gpu::float_stream_shared_bytes(n_pieces, rows, n_items)
                             : gpu::stream_shared_bytes(gpu::strip_shape(dtype), n_pieces);
}

// The kernel for one row and weights of two formats.
std::optional<FixedKernel> pair_kernel(DType first, DType second) {
  if (second != DType::q6_k) return std::nullopt;
  if (first == DType::q4_k) return FixedKernel::stream_q4_k_q6_k_1;
  if (first == DType::q5_k) return FixedKernel::stream_q5_k_q6_k_1;
  return std::nullopt;
}

}  // namespace

bool GpuBackend::Runner::can_stream(const Matmul& step) const {
  const uint32_t width = slot(step.in).width, rows = n_rows(step.in);
  if (!self_.device_->has_hopper() || rows == 0 || width % gpu::kStreamColumns != 0) return false;
  if (can_stream_rows(step) || can_stream_many(step)) return true;
  if (rows > 8) return false;
  uint32_t n_strips = 0;
  for (const Matmul::Part& part : step.parts) n_strips += slot(part.out).width / gpu::kStreamOutputs;
  // A gate and its partner go to one block.
  const uint32_t at_once = step.parts.size() == 2 ? 2 : 1;
  const uint32_t n_items = at_once * most_items((n_strips + at_once - 1) / at_once, gpu::kStreamBlocks);
  return std::ranges::all_of(step.parts, [&](const Matmul::Part& part) {
    const WeightShape& shape = weights_.tensor(part.weight).shape;
    if (!gpu::is_for_hopper(shape.dtype) || shape.n_rows % gpu::kStreamOutputs != 0) return false;
    if (rows > 1 && !is_of_floats(shape.dtype)) return false;
    if (part.bias && weights_.tensor(*part.bias).shape.dtype != DType::f32) return false;
    return shared_bytes_of(shape.dtype, width / gpu::kStreamColumns, rows_of_kernel(rows), n_items) <=
           gpu::kStreamMaxShared;
  });
}

bool GpuBackend::Runner::can_norm(const Norm& norm) const {
  return norm.kind == NormKind::rms && norm.group == 0 && !norm.bias && norm.weight &&
         weights_.tensor(*norm.weight).shape.dtype == DType::f32;
}

Result<size_t> GpuBackend::Runner::stream(std::span<const Step> steps) const {
  const auto* norm = step_at<Norm>(steps, 0);
  const size_t at = norm != nullptr ? 1 : 0;
  const auto* product = step_at<Matmul>(steps, at);
  if (product == nullptr || !can_stream(*product)) return size_t{0};
  if (norm != nullptr && (norm->out != product->in || !can_norm(*norm))) return size_t{0};
  TRY(finish());
  tell(*product);
  as_bytes_.reset();
  const bool is_plain =
      product->scale == 1 && product->softcap == 0 && product->clamp == 0 &&
      std::ranges::none_of(product->parts, [](const Matmul::Part& part) { return part.scale.has_value(); });
  const bool is_one = product->parts.size() == 1, are_two = product->parts.size() == 2;
  const SlotId x = norm != nullptr ? norm->in : product->in;  // blocks read it while others are at their end already
  const auto* sum = step_at<Add>(steps, at + 1);
  if (sum != nullptr && !(is_plain && is_one && sum->in == product->parts[0].out && sum->out != x)) sum = nullptr;
  const auto dtype_of = [&](const Matmul::Part& part) { return weights_.tensor(part.weight).shape.dtype; };
  const auto* activate = step_at<Activate>(steps, at + 1);
  if (activate != nullptr &&
      !(is_plain && are_two && activate->gated && !is_rare(*activate) && activate->gate == product->parts[0].out &&
        activate->up == product->parts[1].out && dtype_of(product->parts[0]) == dtype_of(product->parts[1]) &&
        slot(activate->gate).width == slot(activate->up).width)) {
    activate = nullptr;
  }
  const auto* rope = step_at<Rope>(steps, at + 1);
  const auto* store = step_at<StoreKv>(steps, at + 2);
  const bool turns = rope != nullptr && store != nullptr && is_plain && can_turn(*product, *rope, *store);
  std::vector<StreamPart> formats;
  const std::span<const Matmul::Part> parts(product->parts);
  for (size_t first = 0, n = 0; first < parts.size(); first += n) {
    n = 1;
    while (first + n < parts.size() && dtype_of(parts[first + n]) == dtype_of(parts[first])) n++;
    formats.push_back(TRY(stream_part(norm, *product, parts.subspan(first, n), sum, activate)));
    if (turns) TRY(turn(formats.back(), first, *rope, *store));
  }
  if (sum != nullptr && can_stream_rows(*product)) {
    if (const auto taker = taker_of(*product, *sum, steps.subspan(at + 2))) {
      formats.front().next = TRY(leave_inputs(*taker));
    }
  }
  TRY(can_stream_rows(*product)   ? launch_rows(formats, norm, *product)
      : can_stream_many(*product) ? launch_many(formats)
                                  : launch_streams(formats));
  if (!is_plain) TRY(scale_and_cap(*product));
  return at + 1 + (turns ? 2 : sum != nullptr || activate != nullptr ? 1 : 0);
}

// Whether queries and keys can be turned, and keys and values stored, where they are made.
bool GpuBackend::Runner::can_turn(const Matmul& product, const Rope& rope, const StoreKv& store) const {
  const auto& parts = product.parts;
  if (parts.size() != 3 || rope.q != parts[0].out || rope.k != parts[1].out || store.k != rope.k ||
      store.v != parts[2].out || (rope.factors && weights_.tensor(*rope.factors).shape.dtype != DType::f32)) {
    return false;
  }
  if (n_rows(product.in) > 1) return can_stream_rows(product) && can_turn_rows(product, rope);
  return rope.rope.pairs == RopePairs::neighbours && std::ranges::all_of(parts, [&](const Matmul::Part& part) {
           return gpu::product_kind(weights_.tensor(part.weight).shape.dtype) == gpu::ProductKind::integer;
         });
}
// first: which of queries, keys and values the part begins with
Result<void> GpuBackend::Runner::turn(StreamPart& part, size_t first, const Rope& rope, const StoreKv& store) const {
  constexpr gpu::StreamRole kRoles[] = {gpu::StreamRole::query, gpu::StreamRole::key, gpu::StreamRole::value};
  for (size_t p = 0; p < part.args.n_parts; p++) part.args.roles[p] = kRoles[first + p];
  if (part.args.n_rows > 1) {
    part.turn = TRY(turns_of_rows(rope, store));
    return {};
  }
  part.args.caches_halves = self_.kv_type_ == KvType::f16;
  part.args.turn = {TRY(rope_args(rope)), store_args(store), 0};
  return {};
}

// REQUIRES: parts of one format
Result<GpuBackend::Runner::StreamPart> GpuBackend::Runner::stream_part(const Norm* norm, const Matmul& product,
                                                                       std::span<const Matmul::Part> parts,
                                                                       const Add* sum, const Activate* activate) const {
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
  if (sum != nullptr) {
    args.sum = slot(sum->out).data;
    args.sum_scale = sum->scale;
  }
  if (activate != nullptr) {
    args.after = after(activate->kind);
    args.activated = slot(activate->out).data;
    out.n_strips /= 2;
  }
  return out;
}

// Two formats are one launch where there is a kernel for them: blocks are divided so that none has much more to read.
Result<void> GpuBackend::Runner::launch_streams(std::span<StreamPart> formats) const {
  const uint32_t rows = rows_of_kernel(formats.front().args.n_rows);
  const auto shared_bytes = [&](const StreamPart& part) {
    const uint32_t n_items = most_items(part.n_strips, part.args.n_blocks) * (part.args.activated != nullptr ? 2 : 1);
    return shared_bytes_of(part.dtype, part.args.width / gpu::kStreamColumns, rows, n_items);
  };
  const auto kernel =
      formats.size() == 2 ? pair_kernel(formats[0].dtype, formats[1].dtype) : std::optional<FixedKernel>();
  if (kernel && formats[0].n_strips + formats[1].n_strips >= gpu::kStreamBlocks) {
    uint64_t least = UINT64_MAX;
    for (uint32_t n = 1; n < gpu::kStreamBlocks; n++) {
      const auto bytes = [&](const StreamPart& part, uint32_t n_blocks) {
        return uint64_t{most_items(part.n_strips, n_blocks)} * gpu::strip_shape(part.dtype).stage_bytes;
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
      return launch(TRY(self_.kernels_.get(*kernel)), {{gpu::kStreamBlocks}, gpu::kStreamThreads, bytes}, args);
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
