// Scalar loads; loads, stores and atomics of global, flat and scratch memory.

#include <atomic>

#include "gpu/isa/access.h"

namespace rocmforge::gpu::isa {
namespace {

uint64_t extended(int32_t offset) {
  return static_cast<uint64_t>(static_cast<int64_t>(offset));
}

template <uint32_t kWords>
void s_load(Wave& w, const Instruction& i) {
  uint64_t at = w.scalar64(i.o[1]) + extended(i.offset);
  if (i.o[2].kind == OperandKind::scalar)
    at += w.scalar(i.o[2]);
  else
    at += extended(static_cast<int32_t>(i.o[2].bits));
  const std::byte* from = w.memory_at(i, at & ~uint64_t{3}, 4 * kWords, false);
  if (from == nullptr) return;
  std::memcpy(&w.s[i.o[0].index], from, 4 * kWords);
  w.load_begins(w.generation() >= 12 ? kScalarLoads : kLds, i.o[0], kWords, false);
}

// A lane's address: of two registers, or of a scalar base and 32 bits.
uint64_t global_address(const Wave& w, const Instruction& i, const Operand& address, const Operand* base,
                        uint32_t lane) {
  const uint64_t at = base != nullptr && base->kind == OperandKind::scalar
                          ? w.scalar64(*base) + w.at(address.index, lane)
                          : w.lane64(address, lane);
  return at + extended(i.offset);
}
const Operand* operand_or_null(const Instruction& i, uint32_t k) {
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

template <Width kW, bool kFlat>
void load(Wave& w, const Instruction& i) {
  Lines lines(w, kW.bytes);
  for (uint64_t left = w.exec(); left != 0; left &= left - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(left));
    const uint64_t at = global_address(w, i, i.o[1], operand_or_null(i, 2), l);
    const std::byte* from = w.memory_at(i, at, kW.bytes, false);
    if (from == nullptr) return;
    lines.add(at);
    put_loaded<kW>(w, i.o[0], 0, l, from);
  }
  w.load_begins(kLoads, i.o[0], kW.words(), true);
  // It may have been an address of shared memory, as far as the counters know.
  if (kFlat) w.load_begins(kLds, i.o[0], kW.words(), false);
}
template <Width kW>
void store(Wave& w, const Instruction& i) {
  Lines lines(w, kW.bytes);
  for (uint64_t left = w.exec(); left != 0; left &= left - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(left));
    const uint64_t at = global_address(w, i, i.o[0], operand_or_null(i, 2), l);
    std::byte* to = w.memory_at(i, at, kW.bytes, true);
    if (to == nullptr) return;
    lines.add(at);
    store_from<kW>(w, i.o[1], l, to);
  }
  w.store_begins(w.generation() >= 10 ? kStores : kLoads);
}

// Offsets are from the start of the lane's own memory.
std::byte* scratch_at(Wave& w, const Instruction& i, const Operand& address, const Operand* base, uint32_t lane,
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
  w.store_begins(w.generation() >= 10 ? kStores : kLoads);
}

// [dst,] address, value, base. Blocks run on several threads.
template <auto kF>
void atomic(Wave& w, const Instruction& i) {
  const uint32_t first = i.n_outputs;
  for (uint64_t left = w.exec(); left != 0; left &= left - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(left));
    const uint64_t at = global_address(w, i, i.o[first], operand_or_null(i, first + 2), l);
    std::byte* where = w.memory_at(i, at, 4, true);
    if (where == nullptr) return;
    if (at % 4 != 0) return w.fail(i, "an atomic at an address that is not aligned");
    const uint32_t value = w.at(i.o[first + 1].index, l);
    std::atomic_ref<uint32_t> word(*reinterpret_cast<uint32_t*>(where));
    uint32_t old = word.load();
    while (!word.compare_exchange_weak(old, kF(old, value))) continue;
    if (i.returns) w.at(i.o[0].index, l) = old;
  }
  if (i.returns)
    w.load_begins(kLoads, i.o[0], 1, true);
  else
    w.store_begins(w.generation() >= 10 ? kStores : kLoads);
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
  t["global_atomic_add_u32"] = t["global_atomic_add"] = {atomic<([](uint32_t a, uint32_t b) { return a + b; })>};
}

}  // namespace rocmforge::gpu::isa
