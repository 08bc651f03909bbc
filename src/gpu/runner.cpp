#include "gpu/runner.h"

#include <algorithm>
#include <array>

#include "gpu/kernels/elementwise.h"
#include "gpu/kernels/embed.h"
#include "gpu/kernels/matmul_f32.h"
#include "gpu/kernels/matmul_hopper.h"
#include "gpu/kernels/matvec.h"
#include "gpu/kernels/norm.h"

namespace rocmforge {

using gpu::FixedKernel;
using gpu::FormatKernel;
using gpu::product_kind;
using gpu::ProductKind;

gpu::PassFacts GpuBackend::Runner::facts_of(const GpuBackend& backend, const WeightStore& weights) {
  return {.device = {.has_hopper = backend.device_->has_hopper(),
                     .has_matrix_unit = backend.device_->has_matrix_unit(),
                     .has_fragments = backend.device_->has_fragments(),
                     .joins_steps = backend.joins_steps_,
                     .has_panels = backend.panels_.is_there(),
                     .input_bytes = backend.layout_.quants_bytes},
          .has_experts = backend.experts_.is_there(),
          .n_rows = backend.n_rows_,
          .n_outputs = backend.n_outputs_,
          .slots = backend.slot_shapes_,
          .layout = &backend.layout_,
          .weights = &weights};
}

Result<void> GpuBackend::Runner::run(std::span<const gpu::PassStep> steps) const {
  for (const gpu::PassStep& step : steps) {
    tell_nothing();
    TRY(std::visit(*this, step));
  }
  return {};
}

GpuBackend::Runner::Weight GpuBackend::Runner::weight(WeightId id) const {
  const LazyTensor& tensor = weights_.tensor(id);
  return {tensor.shape, self_.placement_.planes(weights_.address(id), tensor.shape)};
}

Result<const float*> GpuBackend::Runner::vector_of(std::optional<WeightId> id, uint32_t which) const {
  if (!id) return nullptr;
  const Weight w = weight(*id);
  return floats_of(w, w.shape.row_elements, which);
}

Result<const float*> GpuBackend::Runner::floats_of(const Weight& w, uint64_t n, uint32_t which) const {
  if (w.shape.dtype == DType::f32) return reinterpret_cast<const float*>(w.planes.at[0]);
  CHECK(which < gpu::PassLayout::kVectors && n * sizeof(float) <= self_.layout_.vector_bytes);
  auto* to =
      reinterpret_cast<float*>(self_.memory_.data() + self_.layout_.vectors + which * self_.layout_.vector_bytes);
  TRY(launch(FormatKernel::embed, w.shape.dtype, gpu::embed_grid(1), gpu::kEmbedThreads,
             gpu::EmbedArgs{w.planes, to, nullptr, static_cast<uint32_t>(n)}));
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

Result<void> GpuBackend::Runner::operator()(const gpu::NormStep& norm) const {
  const Norm& step = *norm.norm;
  const SlotMemory& in = slot(step.in);
  const float* w = TRY(vector_of(step.weight, 0));
  const float* bias = TRY(vector_of(step.bias, 1));
  const uint32_t group = step.group != 0 ? step.group : in.width;
  const bool are_heads = group < in.width && group <= gpu::kMaxNormedHead && !norm.leaves_bytes;
  const bool is_wide = group >= gpu::kWideNorm;
  const auto kernel = [&] {
    switch (step.kind) {
      case NormKind::rms:
        return are_heads ? FixedKernel::rms_norm_heads : is_wide ? FixedKernel::rms_norm_wide : FixedKernel::rms_norm;
      case NormKind::layer:
        return are_heads ? FixedKernel::layer_norm_heads
               : is_wide ? FixedKernel::layer_norm_wide
                         : FixedKernel::layer_norm;
    }
    RF_UNREACHABLE("a NormKind outside its enum");
  }();
  const uint64_t n_weights = step.weight ? weight(*step.weight).shape.row_elements : group;
  CHECK(in.width % group == 0 && (n_weights == group || n_weights == in.width) && slot(step.out).width == in.width);
  gpu::NormArgs args{.out = slot(step.out).data,
                     .in = in.data,
                     .weight = w,
                     .bias = bias,
                     .group = group,
                     .n_groups = in.width / group,
                     .weight_step = n_weights == group ? 0 : group,
                     .epsilon = step.epsilon,
                     .n_rows = n_rows(step.out)};
  if (norm.gate != nullptr) {
    CHECK(slot(norm.gate->gate).width == in.width);
    args.gate = slot(norm.gate->gate).data;
    args.gate_comes_first = norm.gate_comes_first ? 1u : 0u;
  }
  if (are_heads) {
    return launch(kernel, gpu::norm_heads_grid(args.n_rows, args.n_groups, self_.device_->wave()), gpu::kNormThreads,
                  args);
  }
  if (norm.sum != nullptr) {
    args.added = slot(norm.sum->in).data;
    args.added_scale = norm.sum->scale;
  }
  if (norm.leaves_bytes) {
    args.q = quants();
    args.scales = quant_scales();
  }
  return launch(kernel, gpu::norm_grid(n_rows(step.out), args.n_groups),
                is_wide ? gpu::kWideNormThreads : gpu::kNormThreads, args);
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
  return launch(FixedKernel::quantize, gpu::quantize_grid(input.width, input.n_rows), gpu::kQuantizeThreads,
                gpu::QuantizeArgs{quants(), quant_scales(), input.x, input.width});
}

Result<void> GpuBackend::Runner::multiply_on_hopper(std::span<const gpu::MatvecPart> parts, DType dtype,
                                                    const Input& input, std::optional<Tiles>& tiles) const {
  uint32_t across = 0;
  for (const gpu::MatvecPart& part : parts) across += gpu::hopper_across(part.n_out);
  const gpu::HopperShape shape = gpu::hopper_shape(across, input.n_rows);
  auto* memory = reinterpret_cast<uint8_t*>(quants());
  if (const Tiles needed{dtype, shape.rows}; tiles != needed) {
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

// By the portable kernels.
// REQUIRES: one part, unless the route is one_row
Result<void> GpuBackend::Runner::multiply(gpu::ProductRoute route, std::span<const gpu::MatvecPart> parts, DType dtype,
                                          const Input& input) const {
  const gpu::MatvecPart& part = parts.front();
  if (route == gpu::ProductRoute::f32_tiles) {
    const auto* w = reinterpret_cast<const float*>(part.w.at[0]);
    return launch(FixedKernel::matmul_f32, gpu::matmul_f32_grid(part.n_out, input.n_rows), gpu::kMatmulF32Threads,
                  gpu::MatmulF32Args{w, part.out, part.bias, input.x, part.n_out, input.n_rows, input.width});
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
  const bool one_by_one = route == gpu::ProductRoute::one_row;
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
size_t GpuBackend::Runner::n_together(const Matmul& step, size_t first, gpu::ProductRoute route) const {
  const DType dtype = weight(step.parts[first].weight).shape.dtype;
  const auto joins = [&](const Matmul::Part& part) {
    return weight(part.weight).shape.dtype == dtype && (!part.bias || weight(*part.bias).shape.dtype == DType::f32);
  };
  const bool takes_several = route == gpu::ProductRoute::hopper_tiles || n_rows(step.in) == 1;
  size_t n = 1;
  if (!takes_several || !joins(step.parts[first])) return n;
  while (n < kMostTogether && first + n < step.parts.size() && joins(step.parts[first + n])) n++;
  return n;
}

Result<void> GpuBackend::Runner::operator()(const gpu::ProductStep& product) const {
  const Matmul& step = *product.product;
  tell(step);
  if (product.route == gpu::ProductRoute::stream_fragments) return multiply_by_fragments(step);
  if (product.route == gpu::ProductRoute::panels) return multiply_by_panels(step);
  const Input input{slot(step.in).data, n_rows(step.in), slot(step.in).width};
  std::vector<gpu::ProductRoute> routes;
  for (size_t i = 0; i < step.parts.size(); i++) routes.push_back(facts_.route_of(step, i));
  if (product.makes_bytes) TRY(quantize(input));
  std::optional<Tiles> tiles;
  for (size_t first = 0, n = 0; first < step.parts.size(); first += n) {
    n = n_together(step, first, routes[first]);
    std::array<gpu::MatvecPart, kMostTogether> parts{};
    for (size_t i = 0; i < n; i++) {
      const Matmul::Part& part = step.parts[first + i];
      const Weight w = weight(part.weight);
      CHECK(w.shape.row_elements == input.width && w.shape.n_rows == slot(part.out).width);
      parts[i] = {w.planes, slot(part.out).data, TRY(vector_of(part.bias, 0)), static_cast<uint32_t>(w.shape.n_rows)};
    }
    const DType dtype = weight(step.parts[first].weight).shape.dtype;
    if (routes[first] == gpu::ProductRoute::hopper_tiles) {
      TRY(multiply_on_hopper(std::span(parts).first(n), dtype, input, tiles));
    } else {
      TRY(multiply(routes[first], std::span(parts).first(n), dtype, input));
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

Result<void> GpuBackend::Runner::operator()(const gpu::ActivateStep& activate) const {
  const Activate& step = *activate.activate;
  if (gpu::is_rare(step)) return activate_rarely(step);
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
  if (activate.leaves_bytes) {
    args.q = quants();
    args.scales = quant_scales();
  }
  return launch(kernel, gpu::element_grid(n), gpu::kElementThreads, args);
}

Result<void> GpuBackend::Runner::operator()(const Add& step) const {
  const uint64_t n = uint64_t{n_rows(step.out)} * slot(step.out).width;
  return launch(FixedKernel::add, gpu::element_grid(n), gpu::kElementThreads,
                gpu::ElementArgs{slot(step.out).data, slot(step.out).data, slot(step.in).data, n, step.scale});
}

Result<void> GpuBackend::Runner::operator()(const TakeRows& step) const {
  const uint32_t width = slot(step.in).width;
  return launch(FixedKernel::take_rows, gpu::row_grid(n_rows(step.out), width), gpu::kElementThreads,
                gpu::TakeRowsArgs{slot(step.out).data, slot(step.in).data, batch_.output_rows, width});
}

}  // namespace rocmforge
