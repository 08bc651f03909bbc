// Buffer instructions: [data,] address registers or off, descriptor, offset of the wave. A buffer is the wave's scratch
// memory, or memory by a base, a stride and a number of records; loads beyond the last record give 0, and stores there
// do nothing.

#include <optional>

#include "gpu/isa/access.h"

namespace rocmforge::gpu::isa {
namespace {

bool is_scratch(const Wave& w, const Instruction& i) {
  return w.s[i.o[2].index] == kScratchDescriptor;
}

// The four words of a descriptor.
struct Buffer {
  uint64_t base = 0;
  uint32_t stride = 0, n_records = 0, out_of_bounds = 0;
  bool is_modelled = true;
};
Buffer buffer_of(const Wave& w, const Instruction& i) {
  const uint32_t* words = &w.s[i.o[2].index];
  const bool is_cdna = w.generation() == 9;
  Buffer b{words[0] | uint64_t{words[1] & 0xFFFF} << 32, words[1] >> 16 & 0x3FFF, words[2],
           is_cdna ? 4 : words[3] >> 28 & 3};
  const bool swizzles = (words[1] & 0xC0000000u) != 0, adds_lane = (words[3] >> 23 & 1) != 0;
  b.is_modelled = !swizzles && !adds_lane;
  return b;
}

struct Place {
  uint64_t address = 0;
  bool is_inside = false;
};
Place place_of(const Wave& w, const Instruction& i, const Buffer& b, uint32_t lane, uint32_t n_bytes) {
  uint32_t next = i.o[1].index;
  const uint64_t index = i.has_index_register ? w.at(next++, lane) : 0;
  const uint64_t offset = static_cast<uint32_t>(i.offset) + uint64_t{i.has_offset_register ? w.at(next, lane) : 0};
  const uint64_t of_wave = w.scalar(i.o[3]);
  const uint64_t end = b.stride * index + offset + of_wave + n_bytes;
  Place place{b.base + b.stride * index + offset + of_wave, false};
  switch (b.out_of_bounds) {
    case 0:
      place.is_inside = index < b.n_records && (b.stride == 0 || offset + n_bytes <= b.stride);
      break;
    case 1:
      place.is_inside = index < b.n_records;
      break;
    case 2:
      place.is_inside = b.n_records != 0;
      break;
    case 3:
      place.is_inside = end <= b.n_records;
      break;
    default:  // CDNA: bytes where there is no stride, else records
      place.is_inside = b.stride == 0 ? end <= b.n_records : index < b.n_records;
  }
  return place;
}

std::byte* scratch_of(Wave& w, const Instruction& i, uint32_t lane, uint32_t n_bytes) {
  if (w.scalar(i.o[3]) != 0) return w.fail(i, "scratch memory from an offset of the wave is not modelled"), nullptr;
  return scratch_at(w, i, i.o[1], nullptr, lane, n_bytes);
}

template <Width kW>
void load(Wave& w, const Instruction& i) {
  const bool scratch = is_scratch(w, i);
  const Buffer buffer = scratch ? Buffer{} : buffer_of(w, i);
  if (!buffer.is_modelled) return w.fail(i, "a swizzled buffer is not modelled");
  Lines lines(w, kW.bytes);
  for (uint64_t left = w.exec(); left != 0; left &= left - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(left));
    static constexpr std::byte kZeros[kW.bytes] = {};
    const std::byte* from = kZeros;
    if (scratch) {
      from = scratch_of(w, i, l, kW.bytes);
    } else if (const Place place = place_of(w, i, buffer, l, kW.bytes); place.is_inside) {
      from = w.memory_at(i, place.address, kW.bytes, false);
      lines.add(place.address);
      if (from != nullptr && w.visibility.is_followed() &&
          !is_good(w, i, w.visibility.load(w.last_range, place.address, kW.bytes, i.scope))) {
        return;
      }
    }
    if (from == nullptr) return;
    put_loaded<kW>(w, i.o[0], 0, l, from);
  }
  w.load_begins(kLoads, i.o[0], kW.words(), true);
}

template <Width kW>
void store(Wave& w, const Instruction& i) {
  const bool scratch = is_scratch(w, i);
  const Buffer buffer = scratch ? Buffer{} : buffer_of(w, i);
  if (!buffer.is_modelled) return w.fail(i, "a swizzled buffer is not modelled");
  Lines lines(w, kW.bytes);
  const std::optional<uint32_t> number = scratch ? std::nullopt : std::optional(w.visibility.issue_store());
  const StoreKind kind{i.scope, std::has_single_bit(w.exec())};
  for (uint64_t left = w.exec(); left != 0; left &= left - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(left));
    std::byte data[kW.bytes];
    store_from<kW>(w, i.o[0], l, data);
    std::byte* to = nullptr;
    if (scratch) {
      to = scratch_of(w, i, l, kW.bytes);
    } else {
      const Place place = place_of(w, i, buffer, l, kW.bytes);
      if (!place.is_inside) continue;
      to = w.memory_at(i, place.address, kW.bytes, true);
      lines.add(place.address);
      if (to != nullptr && w.visibility.is_followed() &&
          !is_good(w, i, w.visibility.store(w.last_range, place.address, kW.bytes, kind, data))) {
        return;
      }
    }
    if (to == nullptr) return;
    std::memcpy(to, data, kW.bytes);
  }
  number ? w.store_begins(*number) : w.store_begins(w.store_counter());
}

template <Width kW>
struct AddBufferLoad {
  static void to(Table& t, std::initializer_list<std::string> names) {
    for (const std::string& name : names) t["buffer_load_" + name] = {load<kW>};
  }
};
template <Width kW>
struct AddBufferStore {
  static void to(Table& t, std::initializer_list<std::string> names) {
    for (const std::string& name : names) t["buffer_store_" + name] = {store<kW>};
  }
};

}  // namespace

void add_buffers(Table& t) {
  add_loads<AddBufferLoad>(t, "");
  add_stores<AddBufferStore>(t, "");
}

}  // namespace rocmforge::gpu::isa
