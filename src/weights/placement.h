#pragma once
// Where weights live: the interface that a device's memory implements (cpu/placement.h, gpu/placement.h). One of the
// two virtual interfaces.
//
// A placement owns one arena. The store computes every weight's final address (an offset into the arena) before the
// arena exists; reserve() then allocates it at once, and nothing more is allocated until release(). File bytes arrive
// in chunks of whole rows, each from a loader's staging buffer; land() converts a chunk to the kernels' layout and
// stores it at its address.
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
  // Chunks passed to land() begin at a multiple of this many rows (the layout may interleave that many).
  virtual uint64_t rows_per_unit(const WeightShape& shape) const = 0;
  // The minimum size of a staging buffer. A chunk has at most this less two kDirectAlignment, which a direct read may
  // need around it. A weight with an indivisible group of rows larger than that is refused.
  virtual size_t staging_bytes() const = 0;

  // Memory that can still be allocated, and what reserve() allocates beside the arena: the input of a memory budget.
  virtual uint64_t available_bytes() const = 0;
  virtual uint64_t overhead_bytes(size_t n_loaders) const = 0;

  // Allocates the arena and a staging buffer for each loader: out_of_memory with needed and available.
  virtual Result<void> reserve(uint64_t arena_bytes, size_t n_loaders) = 0;
  // Gives everything back, once copies under way are done.
  virtual void release() = 0;
  virtual bool is_reserved() const = 0;

  // A buffer for this loader to fill, kDirectAlignment-aligned, at least staging_bytes() long. Blocks until its
  // previous content has been consumed.
  virtual Result<std::span<std::byte>> staging(size_t loader) = 0;

  // Stores whole rows of the weight at `address`, from file bytes in the loader's staging buffer. May return before the
  // copy is done (see finish).
  virtual Result<void> land(uint64_t address, const WeightShape& shape, uint64_t first_row,
                            std::span<const std::byte> rows, size_t loader) = 0;

  // Called when every row of the weight has been passed to land(), by this and other loaders: records the event that
  // readers must wait for. The store calls it before it publishes the weight, because waiting for an event that was
  // never recorded does not wait.
  virtual Result<void> finish(uint64_t address, const WeightShape& shape, size_t loader) = 0;

  // The load of a weight has failed. Copies of some of its rows may still be running. Other weights may be landed there
  // next.
  virtual void give_up(uint64_t /*address*/, const WeightShape& /*shape*/) {}

  // The arena's start in the kernels' address space; a weight lies at base() + address. REQUIRES: is_reserved()
  virtual std::byte* base() const = 0;
};

}  // namespace rocmforge
