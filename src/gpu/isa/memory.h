#pragma once
// Which addresses a launch may touch. Addresses of the device are those of the host.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rocmforge::gpu::isa {

struct Range {
  uint64_t from = 0, to = 0;
  bool is_writable = false;
  uint32_t number = 0;  // of the ranges of a map, in the order in which they were allowed
  bool holds(uint64_t at, uint64_t n_bytes, bool write) const {
    return at >= from && at <= to && n_bytes <= to - at && (is_writable || !write);
  }
};

class MemoryMap {
 public:
  // Ranges do not overlap.
  void allow(const void* from, size_t n_bytes, bool is_writable) {
    const auto at = reinterpret_cast<uint64_t>(from);
    const Range range{at, at + n_bytes, is_writable, n_ranges()};
    ranges_.insert(std::ranges::upper_bound(ranges_, at, {}, &Range::from), range);
  }
  uint32_t n_ranges() const { return static_cast<uint32_t>(ranges_.size()); }
  // The range of an access, null where there is none.
  const Range* find(uint64_t at, uint64_t n_bytes, bool write) const {
    const auto after = std::ranges::upper_bound(ranges_, at, {}, &Range::from);
    if (after == ranges_.begin()) return nullptr;
    const Range& range = *(after - 1);
    return range.holds(at, n_bytes, write) ? &range : nullptr;
  }

 private:
  std::vector<Range> ranges_;  // by address
};

}  // namespace rocmforge::gpu::isa
