#include "gpu/runner.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "gpu/kernels/elementwise.h"
#include "gpu/kernels/embed.h"
#include "gpu/kernels/matmul.h"
#include "gpu/kernels/matmul_hopper.h"
#include "gpu/kernels/matvec.h"
#include "gpu/kernels/norm.h"
#include "gpu/kernels/route.h"
#include "gpu/supported.h"

namespace rocmforge {

using gpu::FixedKernel;
using gpu::FormatKernel;
using gpu::product_kind;
using gpu::ProductKind;

Result<void> GpuBackend::Runner::run(std::span<const std::span<const Step>> stages, size_t first, size_t n) const {
  for (size_t i = first; i < first + n; i++) {
    TRY(run(stages[i], i + 1 < stages.size() ? stages[i + 1] : std::span<const Step>()));
  }
  return {};
}

Result<void> GpuBackend::Runner::run(std::span<const Step> steps, std::span<const Step> following) const {
  following_ = following;
  for (size_t i = 0; i < steps.size(); i++) {
    const Step& step = steps[i];
    TRY(gpu::check_supported(step, weights_));
    tell_nothing();
    if (!self_.joins_steps_) {
      TRY(std::visit(*this, step));
      TRY(finish());
      as_bytes_.reset();
      continue;
    }
    if (const size_t n = TRY(stream(steps.subspan(i))); n > 0) {
      i += n - 1;
      continue;
    }
    const auto* norm = std::get_if<Norm>(&step);
    const bool takes_the_sum = waiting_ && norm != nullptr && norm->in == waiting_->out && norm->group == 0 &&
                               n_rows(norm->out) == n_rows(waiting_->out);
    if (!takes_the_sum) TRY(finish());
    const auto* rope = std::get_if<Rope>(&step);
    const auto* store = i + 1 < steps.size() ? std::get_if<StoreKv>(&steps[i + 1]) : nullptr;
    if (rope != nullptr && store != nullptr && rope->k == store->k) {
      TRY(rope_and_store(*rope, *store));
      i++;
      continue;
    }
    TRY(std::visit(*this, step));
  }
  return {};
}

Result<void> GpuBackend::Runner::finish() const {
  if (!waiting_) return {};
  const Add step = *std::exchange(waiting_, std::nullopt);
  const uint64_t n = uint64_t{n_rows(step.out)} * slot(step.out).width;
  return launch(FixedKernel::add, gpu::element_grid(n), gpu::kElementThreads,
                gpu::ElementArgs{slot(step.out).data, slot(step.out).data, slot(step.in).data, n, step.scale});
}

GpuBackend::Runner::Weight GpuBackend::Runner::weight(WeightId id) const {
  const LazyTensor& tensor = weights_.tensor(id);
  return {tensor.shape, self_.placement_.planes(weights_.address(id), tensor.shape)};
}

Result<const float*> GpuBackend::Runner::vector_of(std::optional<WeightId> id, uint32_t which) const {
  if (!id) return nullptr;
  const Weight w = weight(*id);
  if (w.shape.dtype == DType::f32) return reinterpret_cast<const float*>(w.planes.at[0]);
  CHECK(which < gpu::PassLayout::kVectors && w.shape.row_elements * sizeof(float) <= self_.layout_.vector_bytes);
  auto* to =
      reinterpret_cast<float*>(self_.memory_.data() + self_.layout_.vectors + which * self_.layout_.vector_bytes);
  TRY(launch(FormatKernel::embed, w.shape.dtype, gpu::embed_grid(1), gpu::kEmbedThreads,
             gpu::EmbedArgs{w.planes, to, nullptr, static_cast<uint32_t>(w.shape.row_elements)}));
  return to;
}

Result<void> GpuBackend::Runner::operator()(const Embed& step) const {
  const Weight table = weight(step.table);
  const SlotMemory& out = slot(step.out);
  CHECK(table.shape.row_elements == out.width);
  TRY(launch(FormatKernel::embed, table.shape.dtype, gpu::embed_grid(n_rows(step.out)), gpu::kEmbedThreads,
             gpu::EmbedArgs{table.planes, out.data, batch_.tokens, out.width, step.scale}));
  if (!step.positions) return {};
  const Weight positions = weight(*step.positions);
  CHECK(positions.shape.row_elements == out.width);
  return launch(
      FormatKernel::embed, positions.shape.dtype, gpu::embed_grid(n_rows(step.out)), gpu::kEmbedThreads,
      gpu::EmbedArgs{
          .table = positions.planes, .out = out.data, .rows = batch_.positions, .width = out.width, .adds = 1});
}

Result<void> GpuBackend::Runner::operator()(const Norm& step) const {
  const SlotMemory& in = slot(step.in);
  const float* w = TRY(vector_of(step.weight, 0));
  const float* bias = TRY(vector_of(step.bias, 1));
  const auto kernel = [&] {
    switch (step.kind) {
      case NormKind::rms:
        return FixedKernel::rms_norm;
      case NormKind::layer:
        return FixedKernel::layer_norm;
    }
    RF_UNREACHABLE("a NormKind outside its enum");
  }();
  const uint32_t group = step.group != 0 ? step.group : in.width;
  const uint64_t n_weights = step.weight ? weight(*step.weight).shape.row_elements : group;
  CHECK(in.width % group == 0 && (n_weights == group || n_weights == in.width) && slot(step.out).width == in.width);
  gpu::NormArgs args{.out = slot(step.out).data,
                     .in = in.data,
                     .weight = w,
                     .bias = bias,
                     .group = group,
                     .n_groups = in.width / group,
                     .weight_step = n_weights == group ? 0 : group,
                     .epsilon = step.epsilon};
  if (waiting_) {  // for this norm: see run()
    args.added = slot(waiting_->in).data;
    args.added_scale = waiting_->scale;
    waiting_.reset();
  }
  if (args.n_groups == 1 && is_wanted_as_bytes(step.out)) {
    args.q = quants();
    args.scales = quant_scales();
    as_bytes_ = step.out;
  }
  return launch(kernel, gpu::norm_grid(n_rows(step.out), args.n_groups), gpu::kNormThreads, args);
}

// Few rows are multiplied as bytes, except on Hopper.
bool GpuBackend::Runner::is_wanted_as_bytes(SlotId id) const {
  return !self_.device_->has_hopper() && n_rows(id) <= gpu::kMatvecMaxRows && slot(id).width % 32 == 0;
}

int8_t* GpuBackend::Runner::quants() const {
  return reinterpret_cast<int8_t*>(self_.memory_.data() + self_.layout_.quants);
}

gpu::ActivationScale* GpuBackend::Runner::quant_scales() const {
  return reinterpret_cast<gpu::ActivationScale*>(self_.memory_.data() + self_.layout_.quant_scales);
}

float* GpuBackend::Runner::row_scales() const {
  return reinterpret_cast<float*>(self_.memory_.data() + self_.layout_.row_scales);
}

Result<void> GpuBackend::Runner::quantize(const Input& input) const {
  as_bytes_.reset();
  return launch(FixedKernel::quantize, gpu::quantize_grid(input.width, input.n_rows), gpu::kQuantizeThreads,
                gpu::QuantizeArgs{quants(), quant_scales(), input.x, input.width});
}

bool GpuBackend::Runner::on_hopper(DType dtype, const Input& input) const {
  return self_.device_->has_hopper() && input.n_rows > 1 && input.width % 256 == 0 && gpu::is_for_hopper(dtype);
}

Result<void> GpuBackend::Runner::multiply_on_hopper(std::span<const gpu::MatvecPart> parts, DType dtype,
                                                    const Input& input, std::optional<Tiles>& tiles) const {
  uint32_t across = 0;
  for (const gpu::MatvecPart& part : parts) across += gpu::hopper_across(part.n_out);
  const gpu::HopperShape shape = gpu::hopper_shape(across, input.n_rows);
  auto* memory = reinterpret_cast<uint8_t*>(quants());
  if (const Tiles needed{dtype, shape.rows}; tiles != needed) {
    as_bytes_.reset();
    const gpu::TilesArgs args{memory, row_scales(), input.x, input.n_rows, input.width, shape.rows};
    CHECK(uint64_t{gpu::padded_rows(input.n_rows, shape.rows)} * input.width * 2 <= self_.layout_.quants_bytes);
    TRY(launch(FormatKernel::tiles, dtype, gpu::tiles_grid(args), gpu::kTilesThreads, args));
    tiles = needed;
  }
  const FormatKernel kernel = shape.rows == 8    ? FormatKernel::hopper_8
                              : shape.rows == 16 ? FormatKernel::hopper_16
                              : shape.rows == 64 ? FormatKernel::hopper_64
                                                 : FormatKernel::hopper_128;
  gpu::HopperMatmulArgs args{{}, memory, row_scales(), input.n_rows, input.width};
  std::ranges::copy(parts, args.parts);
  return launch(kernel, dtype, shape.grid, gpu::kHopperThreads, args);
}

// Few rows go to the matrix-vector kernels, more to tiles. A format without tiles goes row by row.
// REQUIRES: one part, unless there is one row
Result<void> GpuBackend::Runner::multiply(std::span<const gpu::MatvecPart> parts, DType dtype,
                                          const Input& input) const {
  const gpu::MatvecPart& part = parts.front();
  const bool has_tiles =
      product_kind(dtype) != ProductKind::decoded && (input.width % 16 == 0 || product_kind(dtype) == ProductKind::f32);
  if (input.n_rows > gpu::kMatvecMaxRows && has_tiles) {
    return launch(FormatKernel::matmul, dtype, gpu::matmul_grid(part.n_out, input.n_rows), gpu::kMatmulThreads,
                  gpu::MatmulArgs{part.w, part.out, part.bias, input.x, part.n_out, input.n_rows, input.width});
  }
  gpu::MatvecArgs args{};
  args.w = part.w;
  args.out = part.out;
  args.bias = part.bias;
  args.x = input.x;
  args.q = quants();
  args.scales = quant_scales();
  args.pairs_per_input = args.n_summed = 1;
  args.n_out = part.n_out;
  args.n_rows = input.n_rows;
  args.width = input.width;
  const bool one_by_one = input.n_rows == 1 || product_kind(dtype) == ProductKind::decoded;
  const uint32_t n_at_once = one_by_one ? 1 : gpu::kMatvecMaxRows;
  gpu::Grid grid = gpu::matvec_grid(part.n_out, input.n_rows, n_at_once, self_.device_->wave());
  for (const gpu::MatvecPart& further : parts.subspan(1)) {
    grid.x += gpu::matvec_blocks(further.n_out, self_.device_->wave());
    args.more[args.n_more++] = further;
  }
  return launch(one_by_one ? FormatKernel::matvec_1 : FormatKernel::matvec_8, dtype, grid, gpu::kMatvecThreads, args);
}

constexpr size_t kMostTogether = 3;  // parts of a launch

// Biases that have to be decoded share one workspace, so their parts stay alone.
size_t GpuBackend::Runner::n_together(const Matmul& step, size_t first, const Input& input) const {
  const auto joins = [&](const Matmul::Part& part) {
    return weight(part.weight).shape.dtype == weight(step.parts[first].weight).shape.dtype &&
           (!part.bias || weight(*part.bias).shape.dtype == DType::f32);
  };
  size_t n = 1;
  const DType dtype = weight(step.parts[first].weight).shape.dtype;
  if ((input.n_rows > 1 && !on_hopper(dtype, input)) || !joins(step.parts[first])) return n;
  while (n < kMostTogether && first + n < step.parts.size() && joins(step.parts[first + n])) n++;
  return n;
}

Result<void> GpuBackend::Runner::operator()(const Matmul& step) const {
  tell(step);
  if (can_use_panels(step)) return multiply_by_panels(step);
  const Input input{slot(step.in).data, n_rows(step.in), slot(step.in).width};
  const auto needs_quants = [&](const Matmul::Part& part) {
    const DType dtype = weight(part.weight).shape.dtype;
    return product_kind(dtype) == ProductKind::integer && !on_hopper(dtype, input);
  };
  if (input.n_rows <= gpu::kMatvecMaxRows && as_bytes_ != step.in && std::ranges::any_of(step.parts, needs_quants)) {
    TRY(quantize(input));
  }
  std::optional<Tiles> tiles;
  for (size_t first = 0, n = 0; first < step.parts.size(); first += n) {
    n = n_together(step, first, input);
    std::array<gpu::MatvecPart, kMostTogether> parts{};
    for (size_t i = 0; i < n; i++) {
      const Matmul::Part& part = step.parts[first + i];
      const Weight w = weight(part.weight);
      CHECK(w.shape.row_elements == input.width && w.shape.n_rows == slot(part.out).width);
      parts[i] = {w.planes, slot(part.out).data, TRY(vector_of(part.bias, 0)), static_cast<uint32_t>(w.shape.n_rows)};
    }
    const DType dtype = weight(step.parts[first].weight).shape.dtype;
    if (on_hopper(dtype, input)) {
      TRY(multiply_on_hopper(std::span(parts).first(n), dtype, input, tiles));
    } else {
      TRY(multiply(std::span(parts).first(n), dtype, input));
    }
  }
  return scale_and_cap(step);
}

Result<void> GpuBackend::Runner::scale_and_cap(const Matmul& step) const {
  TRY(scale_parts(step));
  if (step.scale == 1 && step.softcap == 0) return {};
  for (const Matmul::Part& part : step.parts) {
    const uint64_t n = uint64_t{n_rows(part.out)} * slot(part.out).width;
    float* out = slot(part.out).data;
    TRY(launch(FixedKernel::scale_and_cap, gpu::element_grid(n), gpu::kElementThreads,
               gpu::ElementArgs{out, out, nullptr, n, step.scale, step.softcap}));
  }
  return {};
}

Result<void> GpuBackend::Runner::operator()(const Activate& step) const {
  if (is_rare(step)) return activate_rarely(step);
  const uint64_t n = uint64_t{n_rows(step.out)} * slot(step.out).width;
  const auto kernel = [&] {
    switch (step.kind) {
      case Activation::silu:
        return FixedKernel::silu_multiply;
      case Activation::gelu:
        return FixedKernel::gelu_multiply;
      case Activation::clamped_swish:
        return FixedKernel::clamped_swish_multiply;
      case Activation::relu:
      case Activation::relu_squared:
      case Activation::xielu:
        break;
    }
    RF_UNREACHABLE("an Activation outside its enum");
  }();
  gpu::ElementArgs args{slot(step.out).data, slot(step.gate).data, step.gated ? slot(step.up).data : nullptr, n};
  if (is_wanted_as_bytes(step.out)) {
    args.q = quants();
    args.scales = quant_scales();
    as_bytes_ = step.out;
  }
  return launch(kernel, gpu::element_grid(n), gpu::kElementThreads, args);
}

Result<void> GpuBackend::Runner::operator()(const Add& step) const {
  waiting_ = step;
  return {};
}

Result<void> GpuBackend::Runner::operator()(const Route& step) const {
  const auto scores = [&] {
    switch (step.gating) {
      case Gating::softmax:
        return gpu::RouteScores::softmax;
      case Gating::softmax_of_chosen:
        return gpu::RouteScores::softmax_of_chosen;
      case Gating::sigmoid:
        return gpu::RouteScores::sigmoid;
    }
    RF_UNREACHABLE("a Gating outside its enum");
  }();
  const gpu::RouteArgs args{.out = slot(step.out).data,
                            .logits = slot(step.logits).data,
                            .bias = TRY(vector_of(step.bias, 0)),
                            .n_experts = step.n_experts,
                            .n_used = step.n_used,
                            .scores = scores,
                            .normalise = step.normalise ? 1u : 0u,
                            .scale = step.scale,
                            .expert_scale = TRY(vector_of(step.expert_scale, 1)),
                            .n_groups = step.n_groups,
                            .n_groups_used = step.n_groups_used};
  return launch(FixedKernel::route, gpu::route_grid(n_rows(step.out)), gpu::kRouteThreads, args);
}

// Experts that stay lie one after the other. Those that move are told by a table, from the arena's beginning; the
// entries of those that are absent are never read.
Result<void> GpuBackend::Runner::find_experts(gpu::MatvecArgs& args, const ExpertStack& stack) const {
  const WeightShape& shape = weights_.tensor(stack.first).shape;
  if (!weights_.experts_move()) {
    args.w = self_.placement_.planes(weights_.address(stack.first), shape);
    args.expert_stride = stack.n > 1 ? weights_.address(stack[1]) - weights_.address(stack.first) : 0;
    return {};
  }
  args.w = self_.placement_.planes(0, shape);
  std::vector<uint64_t> at(stack.n);
  for (uint32_t i = 0; i < stack.n; i++) {
    at[i] = weights_.find_address(stack[i]).value_or(0);
  }
  args.expert_at = TRY(self_.expert_tables_.put(at, self_.stream_));
  return {};
}

// Input rows are the batch's, shared by the experts of a row, or (sum) one for each pair.
Result<void> GpuBackend::Runner::multiply_experts(float* out, const ExpertStack& stack, std::optional<WeightId> bias,
                                                  const Input& input, SlotId routing, uint32_t n_used, bool sum) const {
  tell(stack, routing);
  const WeightShape& shape = weights_.tensor(stack.first).shape;
  gpu::MatvecArgs args{};
  TRY(find_experts(args, stack));
  args.out = out;
  if (bias) args.bias = reinterpret_cast<const float*>(weight(*bias).planes.at[0]);  // f32: check_supported
  args.x = input.x;
  args.q = quants();
  args.scales = quant_scales();
  args.routing = slot(routing).data;
  args.pairs_per_input = sum ? 1 : n_used;
  args.n_summed = sum ? n_used : 1;
  args.weighed = sum ? 1 : 0;
  args.n_out = static_cast<uint32_t>(shape.n_rows);
  args.n_rows = n_rows(routing) * (sum ? 1 : n_used);
  args.width = input.width;
  constexpr uint32_t kMaxGridRows = 65535;
  if (args.n_rows > kMaxGridRows) {
    return Error{ErrorCode::limit_exceeded, fmt::format("gpu: {} pairs of rows and experts in a batch", args.n_rows)};
  }
  return launch(FormatKernel::matvec_1, shape.dtype,
                gpu::matvec_grid(args.n_out, args.n_rows, 1, self_.device_->wave()), gpu::kMatvecThreads, args);
}

Result<void> GpuBackend::Runner::operator()(const ExpertMatmul& step) const {
  const Input input{slot(step.in).data, n_rows(step.in), slot(step.in).width};
  const auto needs_quants = [&](const ExpertMatmul::Part& part) {
    return product_kind(weights_.tensor(part.weight.first).shape.dtype) == ProductKind::integer;
  };
  if (std::ranges::any_of(step.parts, needs_quants)) TRY(quantize(input));
  for (const ExpertMatmul::Part& part : step.parts) {
    const WeightShape& shape = weights_.tensor(part.weight.first).shape;
    CHECK(shape.row_elements == input.width && shape.n_rows * step.n_used == slot(part.out).width);
    TRY(multiply_experts(slot(part.out).data, part.weight, part.bias, input, step.routing, step.n_used, false));
  }
  return {};
}

Result<void> GpuBackend::Runner::operator()(const ExpertCombine& step) const {
  const WeightShape& shape = weights_.tensor(step.weight.first).shape;
  const auto width = static_cast<uint32_t>(shape.row_elements);
  CHECK(slot(step.in).width == step.n_used * width && slot(step.out).width == shape.n_rows);
  const Input input{slot(step.in).data, n_rows(step.in) * step.n_used, width};
  if (product_kind(shape.dtype) == ProductKind::integer) TRY(quantize(input));
  return multiply_experts(slot(step.out).data, step.weight, step.bias, input, step.routing, step.n_used, true);
}

Result<void> GpuBackend::Runner::operator()(const TakeRows& step) const {
  const uint32_t width = slot(step.in).width;
  return launch(FixedKernel::take_rows, gpu::row_grid(n_rows(step.out), width), gpu::kElementThreads,
                gpu::TakeRowsArgs{slot(step.out).data, slot(step.in).data, batch_.output_rows, width});
}

}  // namespace rocmforge
