// Loads and stores of shared memory.

#include "gpu/isa/access.h"

namespace rocmforge::gpu::isa {
namespace {

uint64_t address_of(const Wave& w, const Operand& address, uint32_t lane, uint32_t offset) {
  return static_cast<uint64_t>(w.at(address.index, lane)) + offset;
}

// 32 banks of 4 bytes give a word each in a cycle; several lanes may have the same word of a bank. Counts the cycles
// beyond those that the bytes need.
class Banks {
 public:
  explicit Banks(Wave& w, uint32_t n_words) : w_(w), n_words_(n_words) {}
  void add(uint64_t address) {
    if (!w_.counts_traffic) return;
    n_lanes_++;
    for (uint32_t k = 0; k < n_words_; k++) {
      const uint64_t word = address / 4 + k;
      const uint64_t* end = words_.data() + n_;
      if (std::find(static_cast<const uint64_t*>(words_.data()), end, word) == end) {
        words_[n_++] = word;
        deepest_ = std::max(deepest_, ++depth_[word % 32]);
      }
    }
  }
  ~Banks() {
    if (n_lanes_ == 0) return;
    w_.traffic.lds_accesses++;
    const uint32_t needed = (n_ + 31) / 32;
    w_.traffic.lds_extra_cycles += deepest_ > needed ? deepest_ - needed : 0;
  }
  Banks(const Banks&) = delete;
  Banks& operator=(const Banks&) = delete;

 private:
  Wave& w_;
  uint32_t n_words_, n_ = 0, n_lanes_ = 0, deepest_ = 0;
  std::array<uint32_t, 32> depth_{};
  std::array<uint64_t, 2 * kHalf * 4> words_;
};

template <Width kW>
void load(Wave& w, const Instruction& i) {
  Banks banks(w, kW.words());
  for (uint64_t left = w.exec(); left != 0; left &= left - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(left));
    const uint64_t at = address_of(w, i.o[1], l, static_cast<uint32_t>(i.offset));
    const std::byte* from = lds_at(w, i, at, kW.bytes, Access::read);
    if (from == nullptr) return;
    banks.add(at);
    put_loaded<kW>(w, i.o[0], 0, l, from);
  }
  w.load_begins(kLds, i.o[0], kW.words(), true);
}
template <Width kW>
void store(Wave& w, const Instruction& i) {
  Banks banks(w, kW.words());
  for (uint64_t left = w.exec(); left != 0; left &= left - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(left));
    const uint64_t at = address_of(w, i.o[0], l, static_cast<uint32_t>(i.offset));
    std::byte data[kW.bytes];
    store_from<kW>(w, i.o[1], l, data);
    std::byte* to = lds_at(w, i, at, kW.bytes, Access::write, data);
    if (to == nullptr) return;
    banks.add(at);
    std::memcpy(to, data, kW.bytes);
  }
  w.store_begins(kLds, true);
}

// Two addresses, their offsets counted in elements (kStride: in 64 of them).
template <uint32_t kBytes, uint32_t kStride>
void load_two(Wave& w, const Instruction& i) {
  constexpr uint32_t kWords = kBytes / 4;
  for (uint64_t left = w.exec(); left != 0; left &= left - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(left));
    const uint32_t base = w.at(i.o[1].index, l);
    for (uint32_t k = 0; k < 2; k++) {
      const uint64_t at = base + static_cast<uint64_t>(k != 0 ? i.offset1 : i.offset) * kBytes * kStride;
      const std::byte* from = lds_at(w, i, at, kBytes, Access::read);
      if (from == nullptr) return;
      put_loaded<Width{kBytes}>(w, i.o[0], k * kWords, l, from);
    }
  }
  w.load_begins(kLds, i.o[0], 2 * kWords, true);
}
template <uint32_t kBytes, uint32_t kStride>
void store_two(Wave& w, const Instruction& i) {
  for (uint64_t left = w.exec(); left != 0; left &= left - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(left));
    for (uint32_t k = 0; k < 2; k++) {
      const uint64_t at =
          w.at(i.o[0].index, l) + static_cast<uint64_t>(k != 0 ? i.offset1 : i.offset) * kBytes * kStride;
      std::byte data[kBytes];
      store_from<Width{kBytes}>(w, i.o[1 + k], l, data);
      std::byte* to = lds_at(w, i, at, kBytes, Access::write, data);
      if (to == nullptr) return;
      std::memcpy(to, data, kBytes);
    }
  }
  w.store_begins(kLds, true);
}

template <Width kW>
struct AddLoad {
  static void to(Table& t, std::initializer_list<std::string> names) {
    for (const std::string& name : names) t[name] = {load<kW>};
  }
};
template <Width kW>
struct AddStore {
  static void to(Table& t, std::initializer_list<std::string> names) {
    for (const std::string& name : names) t[name] = {store<kW>};
  }
};

}  // namespace

void add_lds(Table& t) {
  add_loads<AddLoad>(t, "ds_load_");
  add_stores<AddStore>(t, "ds_store_");
  // CDNA counts in bits, like gfx11, but reads and writes.
  for (const auto& [now, before] : {std::pair("load", "read"), std::pair("store", "write")}) {
    for (const char* width : {"b8", "b16", "b32", "b64", "b96", "b128", "u8", "i8", "u16", "i16"}) {
      const auto found = t.find(std::string("ds_") + now + "_" + width);
      if (found != t.end()) t[std::string("ds_") + before + "_" + width] = Entry(found->second);
    }
  }
  t["ds_store_b16_d16_hi"] = t["ds_write_b16_d16_hi"] = {store<Width{2, false, true}>};
  t["ds_store_b8_d16_hi"] = t["ds_write_b8_d16_hi"] = {store<Width{1, false, true}>};
  t["ds_load_u16_d16"] = t["ds_read_u16_d16"] = {load<Width{2, false, false, true}>};
  t["ds_load_u16_d16_hi"] = t["ds_read_u16_d16_hi"] = {load<Width{2, false, true, true}>};
  t["ds_load_2addr_b32"] = t["ds_read2_b32"] = {load_two<4, 1>};
  t["ds_load_2addr_b64"] = t["ds_read2_b64"] = {load_two<8, 1>};
  t["ds_load_2addr_stride64_b32"] = t["ds_read2st64_b32"] = {load_two<4, 64>};
  t["ds_load_2addr_stride64_b64"] = t["ds_read2st64_b64"] = {load_two<8, 64>};
  t["ds_store_2addr_b32"] = t["ds_write2_b32"] = {store_two<4, 1>};
  t["ds_store_2addr_b64"] = t["ds_write2_b64"] = {store_two<8, 1>};
  t["ds_store_2addr_stride64_b32"] = t["ds_write2st64_b32"] = {store_two<4, 64>};
  t["ds_store_2addr_stride64_b64"] = t["ds_write2st64_b64"] = {store_two<8, 64>};
}

}  // namespace rocmforge::gpu::isa
