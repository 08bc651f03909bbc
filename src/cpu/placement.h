#pragma once
// Weights in ordinary memory: one arena of huge pages, first touched by the loaders, rows packed as they land.

#include <functional>
#include <vector>

#include "cpu/isa/kernels.h"
#include "cpu/memory.h"
#include "cpu/weight.h"
#include "weights/placement.h"

namespace rocmforge {

class CpuPlacement final : public Placement {
 public:
  // `kernels` decides the layout. `available` says how much memory may be taken, when it is.
  explicit CpuPlacement(const cpu::Kernels& kernels, std::function<uint64_t()> available = cpu::available_memory);

  uint64_t packed_bytes(const WeightShape& shape) const override;
  uint64_t rows_per_unit(const WeightShape& shape) const override;
  size_t staging_bytes() const override;
  uint64_t available_bytes() const override { return available_(); }
  uint64_t overhead_bytes(size_t n_loaders) const override { return n_loaders * cpu::kStagingBytes; }

  Result<void> reserve(uint64_t arena_bytes, size_t n_loaders) override;
  void release() override;
  bool is_reserved() const override { return is_reserved_; }

  Result<std::span<std::byte>> staging(size_t loader) override;
  Result<void> land(uint64_t address, const WeightShape& shape, uint64_t first_row, std::span<const std::byte> rows,
                    size_t loader) override;
  Result<void> finish(uint64_t address, const WeightShape& shape, size_t loader) override;
  std::byte* base() const override { return arena_.data(); }

 private:
  const cpu::Kernels& kernels_;
  std::function<uint64_t()> available_;
  cpu::Memory arena_;
  cpu::Memory staging_;  // kStagingBytes for each loader
  size_t n_loaders_ = 0;
  bool is_reserved_ = false;
};

}  // namespace rocmforge
