#pragma once
// Where weights live: the interface a device implements (cpu/placement.h, later gpu). One of the two virtual
// interfaces.
//
// A placement owns one arena. The store computes every weight's final address (an offset into the arena) before the
// arena exists; reserve() then allocates it in one go, and nothing is allocated again until release().
// File bytes arrive in pieces of whole rows, each from a loader's staging buffer; the placement puts them into the
// kernels' layout.
//
// Threads: land() and staging() are called by several loaders at once, each with its own index and never with
// overlapping rows; the rest by one thread at a time.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "tensor/dtype.h"

namespace rocmforge {

// A weight as a placement sees it: n_rows rows, contiguous in the file, of row_elements values each.
struct WeightShape {
  DType dtype = DType::f32;
  uint64_t row_elements = 0;
  uint64_t n_rows = 0;

  uint64_t row_bytes() const {
    const DTypeInfo& info = dtype_info(dtype);
    return row_elements / info.block_elements * info.block_bytes;
  }
  uint64_t file_bytes() const { return n_rows * row_bytes(); }
  friend bool operator==(const WeightShape&, const WeightShape&) = default;
};

class Placement {
 public:
  virtual ~Placement() = default;

  // Bytes of the weight in the kernels' layout: at most 1.03 x its file bytes plus 4 KiB.
  virtual uint64_t packed_bytes(const WeightShape& shape) const = 0;
  // Pieces passed to land() begin at a multiple of this many rows (the layout may interleave rows).
  virtual uint64_t rows_per_unit(const WeightShape& shape) const = 0;
  // What every staging buffer holds at least. A piece takes at most this less two kDirectAlignment, which a direct read
  // may need around it; a weight whose unit of rows is longer is refused.
  virtual size_t staging_bytes() const = 0;

  // What may still be taken now, and what reserve() takes of that beside the arena: what a memory budget counts.
  virtual uint64_t available_bytes() const = 0;
  virtual uint64_t overhead_bytes(size_t n_loaders) const = 0;

  // Allocates the arena and a staging buffer for each loader: out_of_memory with needed and available.
  virtual Result<void> reserve(uint64_t arena_bytes, size_t n_loaders) = 0;
  // Gives everything back, once copies under way are done.
  virtual void release() = 0;
  virtual bool is_reserved() const = 0;

  // A buffer this loader may fill, kDirectAlignment-aligned, at least staging_bytes() long; its previous content has
  // been consumed when this returns.
  virtual Result<std::span<std::byte>> staging(size_t loader) = 0;

  // Puts whole rows, as the file holds them and as they stand in the loader's staging buffer, into the weight at
  // `address`. May return before the copy is done (see finish).
  virtual Result<void> land(uint64_t address, const WeightShape& shape, uint64_t first_row,
                            std::span<const std::byte> rows, size_t loader) = 0;

  // Every row of the weight has been landed, by this and other loaders: record whatever a reader must wait for. On a
  // device the store calls this before it publishes the weight, because waiting for an event that was not yet recorded
  // does not wait.
  virtual Result<void> finish(uint64_t address, const WeightShape& shape, size_t loader) = 0;

  // The load of a weight has failed: rows that were landed may still be on their way. Others may land there next.
  virtual void give_up(uint64_t /*address*/, const WeightShape& /*shape*/) {}

  // The arena's start as kernels see it; a weight lies at base() + address. REQUIRES: is_reserved()
  virtual std::byte* base() const = 0;
};

}  // namespace rocmforge
