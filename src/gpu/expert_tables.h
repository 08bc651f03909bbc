#pragma once
// Brings tables of experts' addresses to the device, in a ring of kTables tables.
//
// Threads: one at a time.

#include <array>
#include <cstdint>
#include <span>

#include "gpu/device.h"
#include "gpu/kernels/route.h"

namespace rocmforge::gpu {

class ExpertTables {
 public:
  static constexpr size_t kTables = 8;
  static constexpr size_t kTableBytes = kMaxExperts * sizeof(uint64_t);

  static Result<ExpertTables> make(const Device& device);

  // A device pointer for work that is put on the stream next; valid until kTables more tables have been put.
  // REQUIRES: at most kMaxExperts addresses
  Result<const uint64_t*> put(std::span<const uint64_t> addresses, const Stream& stream);

 private:
  Memory pinned_, device_;
  std::array<Event, kTables> copied_;
  size_t next_ = 0;
};

}  // namespace rocmforge::gpu
