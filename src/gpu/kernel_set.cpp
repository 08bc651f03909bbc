#include "gpu/kernel_set.h"

#include <fmt/core.h>

#include "base/check.h"
#include "gpu/packed/lists.h"

namespace rocmforge::gpu {
namespace {

struct Place {
  const char* file;
  const char* name;
};
constexpr Place kFixed[] = {
#define RF_PLACE(file, name) {#file, #name},
    RF_FIXED_KERNELS(RF_PLACE)
#undef RF_PLACE
};

struct FormatPlace {
  const char* file;
  const char* file_of_floats;
  const char* before;
  const char* after;
};
constexpr FormatPlace kOfFormats[] = {
#define RF_PLACE(name, file, file_of_floats, before, after) {#file, #file_of_floats, before, after},
    RF_FORMAT_KERNELS(RF_PLACE)
#undef RF_PLACE
};

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

bool has_pair_kernels(DType first, DType second) {
#define RF_IS_PAIR(a, b, First, Second) \
  if (first == DType::a && second == DType::b) return true;
  RF_FORMAT_PAIRS(RF_IS_PAIR)
#undef RF_IS_PAIR
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
    const Place& place = kFixed[static_cast<size_t>(kernel)];
    found = TRY(find(place.file, place.name));
  }
  return found;
}

Result<GpuKernel*> KernelSet::get(FormatKernel kernel, DType dtype) {
  CHECK(static_cast<size_t>(dtype) < kMaxDTypes);
  GpuKernel*& found = of_format_[static_cast<size_t>(dtype)][static_cast<size_t>(kernel)];
  if (found == nullptr) {
    const FormatPlace& place = kOfFormats[static_cast<size_t>(kernel)];
    const bool is_integer = product_kind(dtype) == ProductKind::integer;
    found = TRY(find(is_integer ? place.file : place.file_of_floats,
                     fmt::format("{}{}{}", place.before, dtype_info(dtype).name, place.after)));
  }
  return found;
}

Result<GpuKernel*> KernelSet::get(FormatKernel kernel, DType first, DType second) {
  CHECK(has_pair_kernels(first, second));
  GpuKernel*& found = of_pairs_[{kernel, first, second}];
  if (found == nullptr) {
    const FormatPlace& place = kOfFormats[static_cast<size_t>(kernel)];
    found = TRY(find(place.file, fmt::format("{}{}_{}{}", place.before, dtype_info(first).name, dtype_info(second).name,
                                             place.after)));
  }
  return found;
}

}  // namespace rocmforge::gpu
