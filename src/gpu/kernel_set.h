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
  candidate_groups,
  candidates,
  clamped_swish_multiply,
  gelu_multiply,
  matmul_panels_128,
  matmul_panels_256,
  panels,
  layer_norm,
  quantize,
  repack,
  rms_norm,
  rope,
  row_turns,
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
};
inline constexpr size_t kNumFixedKernels = static_cast<size_t>(FixedKernel::attend_tiles_128) + 1;

// Every format has these kernels, except that formats that are decoded block by block lack matvec_8 and matmul.
enum class FormatKernel : uint8_t {
  embed,
  matvec_1,
  matvec_8,
  matmul,
  tiles,
  weight_panels,
  stream_1,  // from here on for formats of is_for_hopper(), on devices with these kernels
  stream_8,
  many_rows_8,  // for the integer kind
  many_rows_16,
  many_rows_32,
  many_wide_8,
  many_wide_16,
  many_wide_32,
  rows_32,  // for has_rows_kernels()
  rows_64,
  rows_128,
  hopper_8,
  hopper_16,
  hopper_64,
  hopper_128,
};
inline constexpr size_t kNumFormatKernels = static_cast<size_t>(FormatKernel::hopper_128) + 1;

// How matrix products of a format are computed (packed/lists.h).
enum class ProductKind : uint8_t { integer, f32, f16_tiles, decoded };
ProductKind product_kind(DType dtype);
// Whether the Hopper kernels support the format.
bool is_for_hopper(DType dtype);

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
