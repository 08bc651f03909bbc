#pragma once
// The shared memory of a block, with a record of who wrote and read each byte: two waves may touch a byte only with a
// barrier between them, unless both only read, both are atomic, or the second writes what is there.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace rocmforge::gpu::isa {

enum class Access : uint8_t { read, write, atomic };

class Lds {
 public:
  explicit Lds(size_t n_bytes, bool checks_races = true) : bytes_(n_bytes), traces_(checks_races ? n_bytes : 0) {}

  // For the next block: bytes that nobody has written.
  void clear();
  void barrier() { phase_++; }

  size_t size() const { return bytes_.size(); }
  std::byte* at(uint64_t address) { return bytes_.data() + address; }

  // Null when the access is fine, else what is wrong with it.
  // data: what a write will put there.
  const char* check(uint64_t address, uint32_t n_bytes, Access access, uint32_t wave, const std::byte* data = nullptr) {
    if (address > bytes_.size() || n_bytes > bytes_.size() - address) return "an access outside of shared memory";
    return traces_.empty() ? nullptr : trace(address, n_bytes, access, wave, data);
  }

 private:
  static constexpr uint8_t kNobody = 0xFF, kSeveral = 0xFE;
  // In the phase between two barriers that is named.
  struct Trace {
    uint32_t write_phase = 0, read_phase = 0;
    uint8_t writer = kNobody, reader = kNobody;
    bool is_written = false, was_atomic = false;
  };
  const char* trace(uint64_t address, uint32_t n_bytes, Access access, uint32_t wave, const std::byte* data);

  std::vector<std::byte> bytes_;
  std::vector<Trace> traces_;
  uint32_t phase_ = 1;
};

}  // namespace rocmforge::gpu::isa
