#pragma once
// The state of a wave, as instructions see it. A wave of 64 lanes is two halves of 32; what works lane by lane does one
// half after the other.

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gpu/isa/code_object.h"
#include "gpu/isa/instruction.h"
#include "gpu/isa/lds.h"
#include "gpu/isa/memory.h"
#include "gpu/isa/visibility.h"

namespace rocmforge::gpu::isa {

inline constexpr uint32_t kHalf = 32;                       // lanes
inline constexpr uint32_t kScratchDescriptor = 0x5C7A7C40;  // the first word of a wave's descriptor of scratch memory
inline constexpr uint8_t kPlainMode = 0xF0;                 // rounds to nearest, keeps denormals
using Lanes = std::array<uint32_t, kHalf>;

enum class Ends : uint8_t { load, store, atomic, write_back };  // what a wait makes known

// A memory operation that nobody has waited for.
struct Pending {
  uint16_t first;  // register it will write
  uint8_t n;       // registers; 0: a store
  OperandKind kind;
  bool is_ordered;  // whether it ends after those before it
  bool is_lds_store = false;
  Ends ends = Ends::load;
  uint32_t store = 0;  // its number among the wave's stores
};

// Bytes that memory instructions asked for, and of the 64-byte lines that these lie in; cycles of LDS beyond the first;
// waits for loads that found some under way, and how many.
struct Traffic {
  uint64_t requested_bytes = 0, line_bytes = 0;
  uint64_t lds_accesses = 0, lds_extra_cycles = 0;
  uint64_t load_waits = 0, loads_under_way = 0;
  Traffic& operator+=(const Traffic& other) {
    requested_bytes += other.requested_bytes;
    line_bytes += other.line_bytes;
    lds_accesses += other.lds_accesses;
    lds_extra_cycles += other.lds_extra_cycles;
    load_waits += other.load_waits;
    loads_under_way += other.loads_under_way;
    return *this;
  }
};

enum class State : uint8_t { running, at_barrier, done, failed };

struct Wave {
  const Kernel* kernel = nullptr;
  const MemoryMap* memory = nullptr;
  Lds* lds = nullptr;
  uint32_t number = 0;  // in its block
  uint32_t n_halves = 1;
  uint32_t n_registers = 256;  // of a half
  std::vector<Lanes> v;        // half by half
  std::array<uint32_t, kNumScalars> s{};
  bool scc = false;
  uint8_t mode = kPlainMode;   // two bits each: rounding of f32, of f16 and f64, denormals of f32, of f16 and f64
  bool has_signalled = false;  // to a barrier that it has not waited at
  State state = State::running;
  uint32_t pc = 0;                 // an index of an instruction
  std::vector<std::byte> scratch;  // private_bytes for each lane
  std::array<std::vector<Pending>, kNumCounters> pending;
  Range last_range;  // of the access before
  Visibility visibility;
  bool counts_traffic = false;
  Traffic traffic;
  std::string failure;  // why it failed

  uint32_t generation() const { return kernel->target.generation; }
  uint32_t n_lanes() const { return n_halves * kHalf; }

  void fail(const Instruction& i, const std::string& why);

  uint64_t exec() const { return mask(kExec); }
  uint32_t exec(uint32_t half) const { return s[kExec + half]; }
  bool is_active(uint32_t lane) const { return (s[kExec + lane / kHalf] >> lane % kHalf & 1) != 0; }

  uint32_t* reg(uint32_t index, uint32_t half) { return v[half * n_registers + index].data(); }
  const uint32_t* reg(uint32_t index, uint32_t half) const { return v[half * n_registers + index].data(); }
  uint32_t& at(uint32_t index, uint32_t lane) { return v[lane / kHalf * n_registers + index][lane % kHalf]; }
  uint32_t at(uint32_t index, uint32_t lane) const { return v[lane / kHalf * n_registers + index][lane % kHalf]; }

  // A bit for each lane, in one scalar register or in two.
  uint64_t mask(uint32_t index) const {
    if (index == kNull) return 0;
    return n_halves == 1 ? s[index] : s[index] | static_cast<uint64_t>(s[index + 1]) << 32;
  }
  void set_mask(uint32_t index, uint64_t value) {
    if (index == kNull) return;
    s[index] = static_cast<uint32_t>(value);
    if (n_halves == 2) s[index + 1] = static_cast<uint32_t>(value >> 32);
  }
  uint64_t mask(const Operand& o) const {
    return o.kind == OperandKind::constant ? scalar64(o) : mask(static_cast<uint32_t>(o.index));
  }

  uint32_t scalar(const Operand& o) const {
    if (o.kind == OperandKind::constant) return o.bits;
    return o.index == kNull ? 0 : s[o.index];
  }
  // A literal has no sign, an inline integer has one, and an inline float is a double.
  uint64_t scalar64(const Operand& o) const {
    if (o.kind == OperandKind::constant) {
      if (o.is_float) return std::bit_cast<uint64_t>(o.value);
      return o.is_literal ? o.bits : static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(o.bits)));
    }
    if (o.index == kNull) return 0;
    return s[o.index] | static_cast<uint64_t>(s[o.index + 1]) << 32;
  }
  void set(const Operand& o, uint32_t value) {
    if (o.index != kNull) s[o.index] = value;
  }
  void set64(const Operand& o, uint64_t value) {
    if (o.index == kNull) return;
    s[o.index] = static_cast<uint32_t>(value);
    s[o.index + 1] = static_cast<uint32_t>(value >> 32);
  }

  // A half's values of a source. `room` is used where they are not simply a register's. `sign` is the sign bit of the
  // type; word: 1 for the upper half of a 64-bit source.
  const uint32_t* lanes(const Operand& o, uint32_t half, Lanes& room, uint32_t sign = 0x80000000u,
                        uint32_t word = 0) const {
    const bool is_vector = o.kind == OperandKind::vector;
    const bool is_plain = !o.neg && !o.abs && o.part == Part::dword;
    if (is_vector && is_plain) return reg(o.index + word, half);
    if (is_vector) {
      std::memcpy(room.data(), reg(o.index + word, half), sizeof room);
    } else {
      room.fill(word == 0 ? scalar(o) : static_cast<uint32_t>(scalar64(o) >> 32));
    }
    if (!is_plain) modify(o, room, sign);
    return room.data();
  }
  uint64_t lane64(const Operand& o, uint32_t lane) const {
    if (o.kind != OperandKind::vector) return scalar64(o);
    return at(o.index, lane) | static_cast<uint64_t>(at(o.index + 1, lane)) << 32;
  }

  // Where n_bytes of device memory lie; null, and failed, when they may not be touched.
  std::byte* memory_at(const Instruction& i, uint64_t address, uint32_t n_bytes, bool write) {
    if (!last_range.holds(address, n_bytes, write) && !find_range(i, address, n_bytes, write)) return nullptr;
    return reinterpret_cast<std::byte*>(address);
  }

  void load_begins(Counter counter, const Operand& to, uint32_t n, bool is_ordered) {
    pending[counter].push_back({to.index, static_cast<uint8_t>(n), to.kind, is_ordered});
  }
  void store_begins(Counter counter, bool is_lds = false) {
    pending[counter].push_back({0, 0, OperandKind::off, true, is_lds});
  }
  // Of device memory. One number is for all lanes of an instruction.
  Counter store_counter() const { return generation() >= 10 ? kStores : kLoads; }
  void store_begins(uint32_t store) {
    pending[store_counter()].push_back({0, 0, OperandKind::off, true, false, Ends::store, store});
  }
  void atomic_begins(const Operand* returned, uint32_t store) {
    if (returned != nullptr)
      pending[kLoads].push_back({returned->index, returned->n, returned->kind, true, false, Ends::atomic, store});
    else
      pending[store_counter()].push_back({0, 0, OperandKind::off, true, false, Ends::atomic, store});
  }
  void write_back_begins() {
    pending[store_counter()].push_back({0, 0, OperandKind::off, true, false, Ends::write_back});
  }

  void ended(const Pending& p);

 private:
  bool find_range(const Instruction& i, uint64_t address, uint32_t n_bytes, bool write);
  static void modify(const Operand& o, Lanes& room, uint32_t sign);
};

// As the wave's mode has it.
inline void run_one(Wave& w, const Instruction& i) {
  w.mode == kPlainMode || i.from == FloatForm::none ? i.run(w, i) : run_in_mode(w, i);
}

// Retires what a wait instruction waits for.
void wait_for_memory(Wave& w, const Instruction& i);
// Fails when the instruction touches a register that a memory operation is still to write.
void check_waits(Wave& w, const Instruction& i);

}  // namespace rocmforge::gpu::isa
