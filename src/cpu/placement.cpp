#include "cpu/placement.h"

#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "tensor/packed.h"

namespace rocmforge {

CpuPlacement::CpuPlacement(const cpu::Kernels& kernels, std::function<uint64_t()> available)
    : kernels_(kernels), available_(std::move(available)) {}

uint64_t CpuPlacement::packed_bytes(const WeightShape& shape) const {
  return shape.file_bytes();
}

uint64_t CpuPlacement::rows_per_unit(const WeightShape& shape) const {
  const cpu::PackedFormat* format = cpu::packed_format(kernels_, shape);
  return format != nullptr ? format->n_rows : 1;
}

size_t CpuPlacement::staging_bytes() const {
  return cpu::kStagingBytes;
}

Result<void> CpuPlacement::reserve(uint64_t arena_bytes, size_t n_loaders) {
  release();
  const uint64_t available = available_();
  const uint64_t staging = overhead_bytes(n_loaders);
  arena_ = TRY(cpu::Memory::allocate(arena_bytes, available - std::min(available, staging), "weights"));
  staging_ = TRY(cpu::Memory::allocate(staging, available - arena_bytes, "staging buffers"));
  n_loaders_ = n_loaders;
  is_reserved_ = true;
  return {};
}

void CpuPlacement::release() {
  arena_.release();
  staging_.release();
  n_loaders_ = 0;
  is_reserved_ = false;
}

Result<std::span<std::byte>> CpuPlacement::staging(size_t loader) {
  CHECK(loader < n_loaders_);
  return std::span(staging_.data() + loader * cpu::kStagingBytes, cpu::kStagingBytes);
}

Result<void> CpuPlacement::land(uint64_t address, const WeightShape& shape, uint64_t first_row,
                                std::span<const std::byte> rows, size_t) {
  const uint64_t row_bytes = shape.row_bytes();
  const uint64_t n_rows = rows.size() / row_bytes;
  CHECK(n_rows * row_bytes == rows.size() && first_row + n_rows <= shape.n_rows);
  CHECK((CheckedU64(address) + shape.file_bytes()).fits(arena_.size()));

  std::byte* to = arena_.data() + address + first_row * row_bytes;
  uint64_t done = 0;
  if (const cpu::PackedFormat* format = cpu::packed_format(kernels_, shape)) {
    const uint64_t unit = format->n_rows;
    CHECK(first_row % unit == 0 && (n_rows % unit == 0 || first_row + n_rows == shape.n_rows));
    const uint64_t n_groups = shape.row_elements / packed_elements(shape.dtype);
    for (; done + unit <= n_rows; done += unit) {
      format->pack(to + done * row_bytes, rows.data() + done * row_bytes, n_groups);
    }
  }
  std::memcpy(to + done * row_bytes, rows.data() + done * row_bytes, rows.size() - done * row_bytes);
  return {};
}

Result<void> CpuPlacement::finish(uint64_t, const WeightShape&, size_t) {
  return {};
}

}  // namespace rocmforge
