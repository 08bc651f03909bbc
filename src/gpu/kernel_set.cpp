#include "gpu/kernel_set.h"

#include "base/check.h"
#include "gpu/packed/lists.h"

namespace rocmforge::gpu {
namespace {

struct Place {
  const char* file;
  const char* name;
};

Place place_of(FixedKernel kernel) {
  switch (kernel) {
#define RF_PLACE(file, name) \
  case FixedKernel::name:    \
    return {                 \
      #file, #name           \
    }
    RF_PLACE(elementwise, add);
    RF_PLACE(candidates, allowed_candidates);
    RF_PLACE(candidates, allowed_groups);
    RF_PLACE(candidates, candidate_groups);
    RF_PLACE(candidates, candidates);
    RF_PLACE(elementwise, clamped_swish_multiply);
    RF_PLACE(experts, combine_experts);
    RF_PLACE(elementwise, gelu_multiply);
    RF_PLACE(experts, group_experts);
    RF_PLACE(matmul_f32, matmul_f32);
    RF_PLACE(matmul_fragments, matmul_fragments_64);
    RF_PLACE(matmul_fragments, matmul_fragments_128);
    RF_PLACE(matmul_panels, matmul_panels_128);
    RF_PLACE(matmul_panels, matmul_panels_256);
    RF_PLACE(panels, panels);
    RF_PLACE(norm, layer_norm);
    RF_PLACE(norm, layer_norm_heads);
    RF_PLACE(norm, layer_norm_wide);
    RF_PLACE(quantize, quantize);
    RF_PLACE(repack, repack);
    RF_PLACE(norm, rms_norm);
    RF_PLACE(norm, rms_norm_heads);
    RF_PLACE(norm, rms_norm_wide);
    RF_PLACE(rope, rope);
    RF_PLACE(rope, row_rotations);
    RF_PLACE(rope, rope_store_f16);
    RF_PLACE(rope, rope_store_f32);
    RF_PLACE(route, route);
    RF_PLACE(elementwise, scale_and_cap);
    RF_PLACE(elementwise, silu_multiply);
    RF_PLACE(attend, store_kv_f16);
    RF_PLACE(attend, store_kv_f32);
    RF_PLACE(rare_steps, relu_multiply);
    RF_PLACE(rare_steps, relu_squared_multiply);
    RF_PLACE(rare_steps, xielu_multiply);
    RF_PLACE(rare_steps, clamped_silu_multiply);
    RF_PLACE(rare_steps, clamp);
    RF_PLACE(rare_steps, gate);
    RF_PLACE(rare_steps, temper);
    RF_PLACE(rare_steps, scale_by);
    RF_PLACE(rare_steps, take_columns);
    RF_PLACE(rare_steps, weigh);
    RF_PLACE(rare_steps, forget_weights);
    RF_PLACE(rare_steps, scale_columns);
    RF_PLACE(rare_steps, mix_streams);
    RF_PLACE(rare_steps, match_length);
    RF_PLACE(rare_steps, cut_row);
    RF_PLACE(stream_many_inputs, stream_many_inputs);
    RF_PLACE(stream_many_hopper, stream_many_q4_k_q6_k_rows_8);
    RF_PLACE(stream_many_hopper, stream_many_q4_k_q6_k_rows_16);
    RF_PLACE(stream_many_hopper, stream_many_q4_k_q6_k_rows_32);
    RF_PLACE(stream_many_hopper, stream_many_q5_k_q6_k_rows_8);
    RF_PLACE(stream_many_hopper, stream_many_q5_k_q6_k_rows_16);
    RF_PLACE(stream_many_hopper, stream_many_q5_k_q6_k_rows_32);
    RF_PLACE(stream_rows_hopper, stream_rows_q4_k_q6_k_32);
    RF_PLACE(stream_rows_hopper, stream_rows_q4_k_q6_k_64);
    RF_PLACE(stream_rows_hopper, stream_rows_q4_k_q6_k_128);
    RF_PLACE(stream_rows_hopper, stream_rows_q5_k_q6_k_32);
    RF_PLACE(stream_rows_hopper, stream_rows_q5_k_q6_k_64);
    RF_PLACE(stream_rows_hopper, stream_rows_q5_k_q6_k_128);
    RF_PLACE(stream_hopper, stream_q4_k_q6_k_1);
    RF_PLACE(stream_hopper, stream_q5_k_q6_k_1);
    RF_PLACE(take_batch, take_batch);
    RF_PLACE(elementwise, take_rows);
    RF_PLACE(convolve, convolve);
    RF_PLACE(scan, scan_head_128);
    RF_PLACE(scan, scan_head_256);
    RF_PLACE(scan, scan_element_16);
    RF_PLACE(scan, scan_element_64);
    RF_PLACE(delta_rule, delta_rule_128);
    RF_PLACE(delta_rule, delta_rule_256);
    RF_PLACE(attend, attend_f16_64);
    RF_PLACE(attend, attend_f16_128);
    RF_PLACE(attend, attend_f16_256);
    RF_PLACE(attend, attend_f32_64);
    RF_PLACE(attend, attend_f32_128);
    RF_PLACE(attend, attend_f32_256);
    RF_PLACE(attend_hopper, attend_hopper_64);
    RF_PLACE(attend_hopper, attend_hopper_128);
    RF_PLACE(attend_matrix, attend_matrix_64);
    RF_PLACE(attend_matrix, attend_matrix_128);
    RF_PLACE(attend_matrix, attend_matrix_256);
    RF_PLACE(attend_rows_hopper, attend_rows_64);
    RF_PLACE(attend_rows_hopper, attend_rows_128);
    RF_PLACE(attend_tiles, attend_tiles_64);
    RF_PLACE(attend_tiles, attend_tiles_128);
    RF_PLACE(attend_tiles, attend_tiles_alibi_64);
    RF_PLACE(attend_tiles, attend_tiles_alibi_128);
    RF_PLACE(attend_any, attend_any_f16_128);
    RF_PLACE(attend_any, attend_any_f16_256);
    RF_PLACE(attend_any, attend_any_f16_512);
    RF_PLACE(attend_any, attend_any_f16_576);
    RF_PLACE(attend_any, attend_any_f32_128);
    RF_PLACE(attend_any, attend_any_f32_256);
    RF_PLACE(attend_any, attend_any_f32_512);
    RF_PLACE(attend_any, attend_any_f32_576);
    RF_PLACE(texts, attend_texts_64);
    RF_PLACE(texts, attend_texts_128);
    RF_PLACE(texts, attend_texts_256);
    RF_PLACE(texts, pool_texts);
    RF_PLACE(texts, add_vector);
#undef RF_PLACE
  }
  RF_UNREACHABLE("a kernel outside its enum");
}

const char* file_of(FormatKernel kernel, ProductKind kind) {
  switch (kernel) {
    case FormatKernel::embed:
      return "embed";
    case FormatKernel::matvec_1:
    case FormatKernel::matvec_8:
    case FormatKernel::experts_8:
      return kind == ProductKind::integer ? "matvec" : "matvec_float";
    case FormatKernel::experts_16:
      return "stream_experts";
    case FormatKernel::experts_64:
      return "experts_fragments";
    case FormatKernel::tiles:
      return "tiles";
    case FormatKernel::weight_panels:
      return "panels";
    case FormatKernel::fragments_16:
    case FormatKernel::fragments_32:
    case FormatKernel::fragments_64:
      return "stream_fragments";
    case FormatKernel::stream_1:
    case FormatKernel::stream_8:
      return kind == ProductKind::integer ? "stream_hopper" : "stream_float_hopper";
    case FormatKernel::many_rows_8:
    case FormatKernel::many_rows_16:
    case FormatKernel::many_rows_32:
    case FormatKernel::many_wide_8:
    case FormatKernel::many_wide_16:
    case FormatKernel::many_wide_32:
      return "stream_many_hopper";
    case FormatKernel::rows_32:
    case FormatKernel::rows_64:
    case FormatKernel::rows_128:
      return "stream_rows_hopper";
    case FormatKernel::hopper_8:
    case FormatKernel::hopper_16:
    case FormatKernel::hopper_64:
    case FormatKernel::hopper_128:
      return "matmul_hopper";
    case FormatKernel::experts_hopper_8:
    case FormatKernel::experts_hopper_16:
    case FormatKernel::experts_hopper_64:
    case FormatKernel::experts_hopper_128:
      return "experts_hopper";
  }
  RF_UNREACHABLE("a kernel outside its enum");
}

std::string name_of(FormatKernel kernel, DType dtype) {
  const std::string format(dtype_info(dtype).name);
  switch (kernel) {
    case FormatKernel::embed:
      return "embed_" + format;
    case FormatKernel::matvec_1:
      return "matvec_" + format + "_1";
    case FormatKernel::matvec_8:
      return "matvec_" + format + "_8";
    case FormatKernel::experts_8:
      return "experts_" + format + "_8";
    case FormatKernel::experts_16:
      return "experts_" + format + "_16";
    case FormatKernel::experts_64:
      return "experts_" + format + "_64";
    case FormatKernel::tiles:
      return "tiles_" + format;
    case FormatKernel::weight_panels:
      return "weight_panels_" + format;
    case FormatKernel::fragments_16:
      return "stream_fragments_" + format + "_16";
    case FormatKernel::fragments_32:
      return "stream_fragments_" + format + "_32";
    case FormatKernel::fragments_64:
      return "stream_fragments_" + format + "_64";
    case FormatKernel::stream_1:
      return "stream_" + format + "_1";
    case FormatKernel::stream_8:
      return "stream_" + format + "_8";
    case FormatKernel::many_rows_8:
      return "stream_many_" + format + "_rows_8";
    case FormatKernel::many_rows_16:
      return "stream_many_" + format + "_rows_16";
    case FormatKernel::many_rows_32:
      return "stream_many_" + format + "_rows_32";
    case FormatKernel::many_wide_8:
      return "stream_many_" + format + "_wide_8";
    case FormatKernel::many_wide_16:
      return "stream_many_" + format + "_wide_16";
    case FormatKernel::many_wide_32:
      return "stream_many_" + format + "_wide_32";
    case FormatKernel::rows_32:
      return "stream_rows_" + format + "_32";
    case FormatKernel::rows_64:
      return "stream_rows_" + format + "_64";
    case FormatKernel::rows_128:
      return "stream_rows_" + format + "_128";
    case FormatKernel::hopper_8:
      return "matmul_hopper_" + format + "_8";
    case FormatKernel::hopper_16:
      return "matmul_hopper_" + format + "_16";
    case FormatKernel::hopper_64:
      return "matmul_hopper_" + format + "_64";
    case FormatKernel::hopper_128:
      return "matmul_hopper_" + format + "_128";
    case FormatKernel::experts_hopper_8:
      return "experts_hopper_" + format + "_8";
    case FormatKernel::experts_hopper_16:
      return "experts_hopper_" + format + "_16";
    case FormatKernel::experts_hopper_64:
      return "experts_hopper_" + format + "_64";
    case FormatKernel::experts_hopper_128:
      return "experts_hopper_" + format + "_128";
  }
  RF_UNREACHABLE("a kernel outside its enum");
}

}  // namespace

ProductKind product_kind(DType dtype) {
  if (dtype == DType::f32) return ProductKind::f32;
  if (dtype == DType::f16 || dtype == DType::bf16) return ProductKind::f16_tiles;
  return ProductKind::integer;
}

bool is_for_hopper(DType dtype) {
  return product_kind(dtype) != ProductKind::f32;
}

bool has_strips(DType dtype) {
#define RF_IS_FORMAT(name, Block) \
  if (dtype == DType::name) return true;
  RF_STRIP_FORMATS(RF_IS_FORMAT)
#undef RF_IS_FORMAT
  return false;
}

Result<GpuKernel*> KernelSet::find(const char* file, const std::string& name) {
  GpuKernel* found = TRY(device_->find(file, name.c_str()));
  names_.emplace(found, name);
  return found;
}

Result<GpuKernel*> KernelSet::get(FixedKernel kernel) {
  GpuKernel*& found = fixed_[static_cast<size_t>(kernel)];
  if (found == nullptr) {
    const Place place = place_of(kernel);
    found = TRY(find(place.file, place.name));
  }
  return found;
}

Result<GpuKernel*> KernelSet::get(FormatKernel kernel, DType dtype) {
  CHECK(static_cast<size_t>(dtype) < kMaxDTypes);
  GpuKernel*& found = of_format_[static_cast<size_t>(dtype)][static_cast<size_t>(kernel)];
  if (found == nullptr) {
    found = TRY(find(file_of(kernel, product_kind(dtype)), name_of(kernel, dtype)));
  }
  return found;
}

}  // namespace rocmforge::gpu
