// Scalar loads; loads and stores of global, flat and scratch memory.

#include "gpu/isa/access.h"

namespace rocmforge::gpu::isa {
namespace {

template <uint32_t kWords>
void s_load(Wave& w, const Instruction& i) {
  uint64_t at = w.scalar64(i.o[1]) + extended(i.offset);
  if (i.o[2].kind == OperandKind::scalar)
    at += w.scalar(i.o[2]);
  else
    at += extended(static_cast<int32_t>(i.o[2].bits));
  const std::byte* from = w.memory_at(i, at & ~uint64_t{3}, 4 * kWords, false);
  if (from == nullptr) return;
  if (w.visibility.is_followed()) {
    if (!is_good(w, i, w.visibility.scalar_load(w.last_range, at & ~uint64_t{3}, 4 * kWords))) return;
  }
  std::memcpy(&w.s[i.o[0].index], from, 4 * kWords);
  w.load_begins(w.generation() >= 12 ? kScalarLoads : kLds, i.o[0], kWords, false);
}

template <Width kW, bool kFlat>
void load(Wave& w, const Instruction& i) {
  Lines lines(w, kW.bytes);
  for (uint64_t left = w.exec(); left != 0; left &= left - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(left));
    const uint64_t at = global_address(w, i, i.o[1], operand_or_null(i, 2), l);
    const std::byte* from = w.memory_at(i, at, kW.bytes, false);
    if (from == nullptr) return;
    // Read first: what the other wave passed on before it stored what is read is heard of.
    put_loaded<kW>(w, i.o[0], 0, l, from);
    if (w.visibility.is_followed() && !is_good(w, i, w.visibility.load(w.last_range, at, kW.bytes, i.scope))) return;
    lines.add(at);
  }
  // A flat load may have been of shared memory, as far as the counters know. Before gfx10 the two come in any order.
  const bool is_ordered = !kFlat || w.generation() >= 10;
  w.load_begins(kLoads, i.o[0], kW.words(), is_ordered);
  if (i.scope >= Scope::device) w.pending[kLoads].back().ends = Ends::atomic;
  if (kFlat) w.load_begins(kLds, i.o[0], kW.words(), is_ordered);
}
template <Width kW>
void store(Wave& w, const Instruction& i) {
  Lines lines(w, kW.bytes);
  const uint32_t number = w.visibility.issue_store();
  const StoreKind kind{i.scope, std::has_single_bit(w.exec())};
  for (uint64_t left = w.exec(); left != 0; left &= left - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(left));
    const uint64_t at = global_address(w, i, i.o[0], operand_or_null(i, 2), l);
    std::byte* to = w.memory_at(i, at, kW.bytes, true);
    if (to == nullptr) return;
    lines.add(at);
    std::byte data[kW.bytes];
    store_from<kW>(w, i.o[1], l, data);
    if (w.visibility.is_followed() && !is_good(w, i, w.visibility.store(w.last_range, at, kW.bytes, kind, data)))
      return;
    std::memcpy(to, data, kW.bytes);
  }
  w.store_begins(number);
}

template <Width kW>
void load_scratch(Wave& w, const Instruction& i) {
  for (uint64_t left = w.exec(); left != 0; left &= left - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(left));
    const std::byte* from = scratch_at(w, i, i.o[1], operand_or_null(i, 2), l, kW.bytes);
    if (from == nullptr) return;
    put_loaded<kW>(w, i.o[0], 0, l, from);
  }
  w.load_begins(kLoads, i.o[0], kW.words(), true);
}
template <Width kW>
void store_scratch(Wave& w, const Instruction& i) {
  for (uint64_t left = w.exec(); left != 0; left &= left - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(left));
    std::byte* to = scratch_at(w, i, i.o[0], operand_or_null(i, 2), l, kW.bytes);
    if (to == nullptr) return;
    store_from<kW>(w, i.o[1], l, to);
  }
  w.store_begins(w.store_counter());
}

template <Width kW>
struct AddGlobalLoad {
  static void to(Table& t, std::initializer_list<std::string> names) {
    for (const std::string& name : names) {
      t["global_load_" + name] = {load<kW, false>};
      t["flat_load_" + name] = {load<kW, true>};
      t["scratch_load_" + name] = {load_scratch<kW>};
    }
  }
};
template <Width kW>
struct AddGlobalStore {
  static void to(Table& t, std::initializer_list<std::string> names) {
    for (const std::string& name : names) {
      t["global_store_" + name] = t["flat_store_" + name] = {store<kW>};
      t["scratch_store_" + name] = {store_scratch<kW>};
    }
  }
};

}  // namespace

void add_memory(Table& t) {
  t["s_load_b32"] = t["s_load_dword"] = {s_load<1>};
  t["s_load_b64"] = t["s_load_dwordx2"] = {s_load<2>};
  t["s_load_b96"] = {s_load<3>};
  t["s_load_b128"] = t["s_load_dwordx4"] = {s_load<4>};
  t["s_load_b256"] = t["s_load_dwordx8"] = {s_load<8>};
  t["s_load_b512"] = t["s_load_dwordx16"] = {s_load<16>};
  add_loads<AddGlobalLoad>(t, "");
  add_stores<AddGlobalStore>(t, "");
}

}  // namespace rocmforge::gpu::isa
