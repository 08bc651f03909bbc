#pragma once
// The kernels of a device, found on first use: opening a device loads no code that a model never needs.
//
// Threads: one at a time.

#include <array>
#include <map>
#include <string>

#include "gpu/device.h"
#include "tensor/dtype.h"

namespace rocmforge::gpu {

enum class FixedKernel : uint8_t {
  add,
  allowed_candidates,
  allowed_groups,
  candidate_groups,
  candidates,
  clamped_swish_multiply,
  combine_experts,
  gelu_multiply,
  group_experts,
  matmul_f32,
  matmul_fragments_64,
  matmul_fragments_128,
  matmul_panels_128,
  matmul_panels_256,
  panels,
  layer_norm,
  layer_norm_heads,
  layer_norm_wide,
  quantize,
  repack,
  rms_norm,
  rms_norm_heads,
  rms_norm_wide,
  rope,
  row_rotations,
  rope_store_f16,
  rope_store_f32,
  route,
  scale_and_cap,
  silu_multiply,
  store_kv_f16,
  store_kv_f32,
  relu_multiply,
  relu_squared_multiply,
  xielu_multiply,
  clamped_silu_multiply,
  clamp,
  gate,
  temper,
  scale_by,
  take_columns,
  weigh,
  forget_weights,
  scale_columns,
  mix_streams,
  match_length,
  cut_row,
  stream_many_inputs,
  stream_many_q4_k_q6_k_rows_8,
  stream_many_q4_k_q6_k_rows_16,
  stream_many_q4_k_q6_k_rows_32,
  stream_many_q5_k_q6_k_rows_8,
  stream_many_q5_k_q6_k_rows_16,
  stream_many_q5_k_q6_k_rows_32,
  stream_rows_q4_k_q6_k_32,
  stream_rows_q4_k_q6_k_64,
  stream_rows_q4_k_q6_k_128,
  stream_rows_q5_k_q6_k_32,
  stream_rows_q5_k_q6_k_64,
  stream_rows_q5_k_q6_k_128,
  stream_q4_k_q6_k_1,
  stream_q5_k_q6_k_1,
  take_batch,
  take_rows,
  convolve,
  scan_head_128,
  scan_head_256,
  scan_element_16,
  scan_element_64,
  delta_rule_128,
  delta_rule_256,
  attend_f16_64,
  attend_f16_128,
  attend_f16_256,
  attend_f32_64,
  attend_f32_128,
  attend_f32_256,
  attend_hopper_64,
  attend_hopper_128,
  attend_matrix_64,
  attend_matrix_128,
  attend_matrix_256,
  attend_rows_64,
  attend_rows_128,
  attend_tiles_64,
  attend_tiles_128,
  attend_tiles_alibi_64,
  attend_tiles_alibi_128,
  attend_any_f16_128,
  attend_any_f16_256,
  attend_any_f16_512,
  attend_any_f16_576,
  attend_any_f32_128,
  attend_any_f32_256,
  attend_any_f32_512,
  attend_any_f32_576,
  attend_texts_64,
  attend_texts_128,
  attend_texts_256,
  pool_texts,
  add_vector,
};
inline constexpr size_t kNumFixedKernels = static_cast<size_t>(FixedKernel::add_vector) + 1;

// Every format has these kernels, as far as no other condition is named.
enum class FormatKernel : uint8_t {
  embed,
  matvec_1,
  matvec_8,
  experts_8,   // rows grouped by experts
  experts_16,  // not for F32
  experts_64,  // likewise
  tiles,
  weight_panels,
  fragments_16,  // not for F32
  fragments_32,
  fragments_64,
  stream_1,  // for formats of has_strips() and halves, on Hopper
  stream_8,
  many_rows_8,  // for formats of has_strips()
  many_rows_16,
  many_rows_32,
  many_wide_8,
  many_wide_16,
  many_wide_32,
  rows_32,  // for has_rows_kernels()
  rows_64,
  rows_128,
  hopper_8,  // for is_for_hopper()
  hopper_16,
  hopper_64,
  hopper_128,
  experts_hopper_8,  // likewise
  experts_hopper_16,
  experts_hopper_64,
  experts_hopper_128,
};
inline constexpr size_t kNumFormatKernels = static_cast<size_t>(FormatKernel::experts_hopper_128) + 1;

// How matrix products of a format are computed (packed/lists.h).
enum class ProductKind : uint8_t { integer, f32, f16_tiles };
ProductKind product_kind(DType dtype);
// Whether the Hopper kernels support the format.
bool is_for_hopper(DType dtype);
// Whether the streaming kernels do.
bool has_strips(DType dtype);

class KernelSet {
 public:
  explicit KernelSet(const Device& device) : device_(&device) {}

  Result<GpuKernel*> get(FixedKernel kernel);
  Result<GpuKernel*> get(FormatKernel kernel, DType dtype);
  // REQUIRES: one that get() gave
  const std::string& name(const GpuKernel* kernel) const { return names_.at(kernel); }

 private:
  Result<GpuKernel*> find(const char* file, const std::string& name);

  static constexpr size_t kMaxDTypes = 64;
  const Device* device_;
  std::array<GpuKernel*, kNumFixedKernels> fixed_{};
  std::array<std::array<GpuKernel*, kNumFormatKernels>, kMaxDTypes> of_format_{};
  std::map<const GpuKernel*, std::string> names_;  // of those that were found
};

}  // namespace rocmforge::gpu
