#pragma once
// What loads and stores of global, scratch and shared memory have in common.

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
