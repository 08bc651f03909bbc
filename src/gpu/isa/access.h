#pragma once
// What loads, stores and atomics of global, scratch, buffer and shared memory have in common.

#include <algorithm>

#include "gpu/isa/lanes.h"

namespace rocmforge::gpu::isa {

struct Width {
  uint32_t bytes;
  bool is_signed = false;
  bool is_high = false;  // d16_hi: the upper half of the register
  bool is_half = false;  // d16: the other half stays
  constexpr uint32_t words() const { return (bytes + 3) / 4; }
};

template <Width kW>
void put_loaded(Wave& w, const Operand& to, uint32_t first, uint32_t lane, const std::byte* from) {
  uint32_t words[kW.words()] = {};
  std::memcpy(words, from, kW.bytes);
  if (kW.is_signed) {
    words[0] = static_cast<uint32_t>(kW.bytes == 1 ? static_cast<int8_t>(words[0]) : static_cast<int16_t>(words[0]));
  }
  uint32_t& old = w.at(to.index + first, lane);
  if (kW.is_high) {
    old = (old & 0xFFFFu) | words[0] << 16;
  } else if (kW.is_half) {
    old = (old & 0xFFFF0000u) | (words[0] & 0xFFFFu);
  } else {
    for (uint32_t k = 0; k < kW.words(); k++) w.at(to.index + first + k, lane) = words[k];
  }
}
template <Width kW>
void store_from(const Wave& w, const Operand& from, uint32_t lane, std::byte* to) {
  uint32_t words[kW.words()];
  for (uint32_t k = 0; k < kW.words(); k++) words[k] = w.at(from.index + k, lane);
  if (kW.is_high) words[0] >>= 16;
  std::memcpy(to, words, kW.bytes);
}

inline uint64_t extended(int32_t offset) {
  return static_cast<uint64_t>(static_cast<int64_t>(offset));
}

inline bool is_good(Wave& w, const Instruction& i, const char* fault) {
  if (fault != nullptr) w.fail(i, fault);
  return fault == nullptr;
}

// A lane's address: of two registers, or of a scalar base and 32 bits.
inline uint64_t global_address(const Wave& w, const Instruction& i, const Operand& address, const Operand* base,
                               uint32_t lane) {
  const uint64_t at = base != nullptr && base->kind == OperandKind::scalar
                          ? w.scalar64(*base) + w.at(address.index, lane)
                          : w.lane64(address, lane);
  return at + extended(i.offset);
}
inline const Operand* operand_or_null(const Instruction& i, uint32_t k) {
  return k < i.n_operands ? &i.o[k] : nullptr;
}

// The 64-byte lines that an access of all lanes touches.
class Lines {
 public:
  Lines(Wave& w, uint32_t n_bytes) : w_(w), n_bytes_(n_bytes) {}
  void add(uint64_t address) {
    if (!w_.counts_traffic) return;
    n_requested_ += n_bytes_;
    for (uint64_t line = address / 64; line <= (address + n_bytes_ - 1) / 64; line++) {
      if (std::find(lines_.begin(), lines_.begin() + n_, line) == lines_.begin() + n_) lines_[n_++] = line;
    }
  }
  ~Lines() {
    w_.traffic.requested_bytes += n_requested_;
    w_.traffic.line_bytes += 64 * uint64_t{n_};
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

 private:
  Wave& w_;
  uint32_t n_bytes_, n_ = 0;
  uint64_t n_requested_ = 0;
  std::array<uint64_t, 128> lines_;  // two for each lane
};

// Offsets are from the start of the lane's own memory.
inline std::byte* scratch_at(Wave& w, const Instruction& i, const Operand& address, const Operand* base, uint32_t lane,
                             uint32_t n_bytes) {
  uint64_t at = extended(i.offset);
  if (address.kind == OperandKind::vector) at += w.at(address.index, lane);
  if (base != nullptr && base->kind == OperandKind::scalar) at += w.scalar(*base);
  const uint32_t n_private = w.kernel->descriptor.private_bytes;
  if (at > n_private || n_bytes > n_private - at) {
    w.fail(i, "an access outside of scratch memory");
    return nullptr;
  }
  return w.scratch.data() + static_cast<size_t>(lane) * n_private + at;
}
inline std::byte* lds_at(Wave& w, const Instruction& i, uint64_t address, uint32_t n_bytes, Access access,
                         const std::byte* data = nullptr) {
  if (w.has_signalled) return w.fail(i, "shared memory between a barrier's signal and its wait"), nullptr;
  if (const char* fault = w.lds->check(address, n_bytes, access, w.number, data); fault != nullptr) {
    w.fail(i, std::string(fault) + " (byte " + std::to_string(address) + ")");
    return nullptr;
  }
  return w.lds->at(address);
}

// The widths by the names that gfx11 and later have, and by those of before.
template <template <Width> class Add>
void add_loads(Table& t, const std::string& prefix) {
  Add<Width{1}>::to(t, {prefix + "u8", prefix + "ubyte"});
  Add<Width{1, true}>::to(t, {prefix + "i8", prefix + "sbyte"});
  Add<Width{2}>::to(t, {prefix + "u16", prefix + "ushort"});
  Add<Width{2, true}>::to(t, {prefix + "i16", prefix + "sshort"});
  Add<Width{4}>::to(t, {prefix + "b32", prefix + "dword"});
  Add<Width{8}>::to(t, {prefix + "b64", prefix + "dwordx2"});
  Add<Width{12}>::to(t, {prefix + "b96", prefix + "dwordx3"});
  Add<Width{16}>::to(t, {prefix + "b128", prefix + "dwordx4"});
  Add<Width{2, false, false, true}>::to(t, {prefix + "d16_b16", prefix + "short_d16"});
  Add<Width{2, false, true, true}>::to(t, {prefix + "d16_hi_b16", prefix + "short_d16_hi"});
  Add<Width{1, false, false, true}>::to(t, {prefix + "d16_u8", prefix + "ubyte_d16"});
  Add<Width{1, false, true, true}>::to(t, {prefix + "d16_hi_u8", prefix + "ubyte_d16_hi"});
}
template <template <Width> class Add>
void add_stores(Table& t, const std::string& prefix) {
  Add<Width{1}>::to(t, {prefix + "b8", prefix + "byte"});
  Add<Width{2}>::to(t, {prefix + "b16", prefix + "short"});
  Add<Width{4}>::to(t, {prefix + "b32", prefix + "dword"});
  Add<Width{8}>::to(t, {prefix + "b64", prefix + "dwordx2"});
  Add<Width{12}>::to(t, {prefix + "b96", prefix + "dwordx3"});
  Add<Width{16}>::to(t, {prefix + "b128", prefix + "dwordx4"});
  Add<Width{2, false, true}>::to(t, {prefix + "d16_hi_b16", prefix + "short_d16_hi"});
  Add<Width{1, false, true}>::to(t, {prefix + "d16_hi_b8", prefix + "byte_d16_hi"});
}

}  // namespace rocmforge::gpu::isa
