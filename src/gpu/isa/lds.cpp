#include "gpu/isa/lds.h"

#include <algorithm>

namespace rocmforge::gpu::isa {

void Lds::clear() {
  std::fill(bytes_.begin(), bytes_.end(), std::byte{0xCD});
  std::fill(traces_.begin(), traces_.end(), Trace{});
  phase_ = 1;
}

const char* Lds::trace(uint64_t address, uint32_t n_bytes, Access access, uint32_t wave, const std::byte* data) {
  const auto self = static_cast<uint8_t>(wave);
  for (uint64_t b = address; b < address + n_bytes; b++) {
    Trace& t = traces_[b];
    if (access == Access::write && t.is_written && bytes_[b] == data[b - address]) continue;
    const bool other_wrote = t.write_phase == phase_ && t.writer != self;
    const bool other_read = t.read_phase == phase_ && t.reader != self;
    const bool both_atomic = access == Access::atomic && t.was_atomic;
    if (other_wrote && !both_atomic) return "shared memory that another wave wrote since the last barrier";
    if (access != Access::read && other_read)
      return "a write to shared memory that another wave read since the last barrier";
    if (access != Access::write && !t.is_written) return "a read of shared memory that nobody wrote";
    if (access == Access::read) {
      t.reader = t.read_phase == phase_ && t.reader != self ? kSeveral : self;
      t.read_phase = phase_;
    } else {
      const bool is_first = t.write_phase != phase_;
      t.writer = is_first || t.writer == self ? self : kSeveral;
      t.was_atomic = access == Access::atomic && (is_first || t.was_atomic);
      t.write_phase = phase_;
      t.is_written = true;
    }
  }
  return nullptr;
}

}  // namespace rocmforge::gpu::isa
