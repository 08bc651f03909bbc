#pragma once
// The kernels of a device, found on first use: opening a device loads no code that a model never needs.
//
// Threads: one at a time.

#include <array>
#include <map>
#include <string>
#include <tuple>

#include "gpu/device.h"
#include "gpu/kernel_list.h"
#include "tensor/dtype.h"

namespace rocmforge::gpu {

enum class FixedKernel : uint8_t {
#define RF_ENUMERATOR(file, name) name,
  RF_FIXED_KERNELS(RF_ENUMERATOR)
#undef RF_ENUMERATOR
};
enum class FormatKernel : uint8_t {
#define RF_ENUMERATOR(name, ...) name,
  RF_FORMAT_KERNELS(RF_ENUMERATOR)
#undef RF_ENUMERATOR
};
#define RF_ONE(...) +1
inline constexpr size_t kNumFixedKernels = RF_FIXED_KERNELS(RF_ONE), kNumFormatKernels = RF_FORMAT_KERNELS(RF_ONE);
#undef RF_ONE

// How matrix products of a format are computed (packed/lists.h).
enum class ProductKind : uint8_t { integer, f32, f16_tiles };
ProductKind product_kind(DType dtype);
// Whether the Hopper kernels support the format.
bool is_for_hopper(DType dtype);
// Whether the streaming kernels do.
bool has_strips(DType dtype);
// Whether streaming kernels multiply two formats at once.
bool has_pair_kernels(DType first, DType second);

class KernelSet {
 public:
  explicit KernelSet(const Device& device) : device_(&device) {}

  Result<GpuKernel*> get(FixedKernel kernel);
  Result<GpuKernel*> get(FormatKernel kernel, DType dtype);
  // REQUIRES: has_pair_kernels(), and a kernel that is there for pairs (gpu/kernel_list.h)
  Result<GpuKernel*> get(FormatKernel kernel, DType first, DType second);
  // REQUIRES: one that get() gave
  const std::string& name(const GpuKernel* kernel) const { return names_.at(kernel); }

 private:
  Result<GpuKernel*> find(const char* file, const std::string& name);

  static constexpr size_t kMaxDTypes = 64;
  const Device* device_;
  std::array<GpuKernel*, kNumFixedKernels> fixed_{};
  std::array<std::array<GpuKernel*, kNumFormatKernels>, kMaxDTypes> of_format_{};
  std::map<std::tuple<FormatKernel, DType, DType>, GpuKernel*> of_pairs_;
  std::map<const GpuKernel*, std::string> names_;  // of those that were found
};

}  // namespace rocmforge::gpu
