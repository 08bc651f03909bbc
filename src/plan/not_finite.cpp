#include "plan/not_finite.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "tensor/codec.h"

namespace rocmforge {
namespace {

constexpr double kMostSeconds = 3;
constexpr uint64_t kPieceElements = 1u << 16;  // a whole number of blocks of every type

// Whether a piece of a weight's bytes holds a value that is not finite.
bool has_odd_value(std::span<const std::byte> bytes, DType dtype, std::vector<float>& values) {
  const DTypeInfo& info = dtype_info(dtype);
  values.resize(bytes.size() / info.block_bytes * info.block_elements);
  decode(values, dtype, bytes);
  return std::ranges::any_of(values, [](float x) { return !std::isfinite(x); });
}

}  // namespace

std::string why_not_finite(const ExecutionPlan& plan) {
  const Clock clock = system_clock();
  const TimePoint begin = clock();
  std::vector<std::byte> bytes;
  std::vector<float> values;
  uint64_t n_read = 0;
  for (const LazyTensor& tensor : plan.weights().tensors()) {
    const DTypeInfo& info = dtype_info(tensor.shape.dtype);
    const uint64_t piece = kPieceElements / info.block_elements * info.block_bytes;
    for (uint64_t at = 0; at < tensor.file_bytes; at += piece) {
      if (seconds(clock() - begin) > kMostSeconds) {
        return fmt::format("none of the first {} of the weights is NaN or infinite; the rest was not looked at",
                           format_bytes(n_read));
      }
      bytes.resize(std::min(piece, tensor.file_bytes - at));
      if (!plan.file().file(tensor.shard).read_at(bytes, tensor.file_offset + at).ok()) {
        return "the weights could not be read again to look for the cause";
      }
      n_read += bytes.size();
      if (!has_odd_value(bytes, tensor.shape.dtype, values)) continue;
      return fmt::format("tensor '{}' has a weight that is NaN or infinite: the file is damaged", tensor.name);
    }
  }
  return "no weight is NaN or infinite: a value grew out of range while it was computed";
}

}  // namespace rocmforge
