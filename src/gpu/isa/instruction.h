#pragma once
// One decoded instruction of AMD machine code, and its operands.

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace rocmforge::gpu::isa {

struct Wave;
struct Instruction;
using Handler = void (*)(Wave&, const Instruction&);

enum class OperandKind : uint8_t { off, vector, scalar, constant };

// Which part of a 32-bit source an SDWA instruction takes, or of its destination it writes.
enum class Part : uint8_t { dword, byte0, byte1, byte2, byte3, word0, word1 };
enum class Unused : uint8_t { pad, sext, preserve };  // what an SDWA instruction does to the rest of its destination

// Scalar registers that are not s0 .. s101, by the number they have here.
inline constexpr uint16_t kVcc = 106, kTtmp = 108, kNull = 124, kM0 = 125, kExec = 126, kNumScalars = 128;
// Accumulation registers of CDNA follow the vector registers.
inline constexpr uint16_t kAccumulators = 256;

struct Operand {
  OperandKind kind = OperandKind::off;
  bool neg = false, abs = false;
  bool is_float = false;    // an inline constant written as 1.0
  bool is_literal = false;  // the 32 bits behind the instruction, written as 0x1F
  bool sext = false;        // of an SDWA source
  Part part = Part::dword;
  uint8_t n = 1;       // registers
  uint16_t index = 0;  // the first register
  uint32_t bits = 0;   // a constant
  double value = 0;    // a constant that is_float
};

// What decoding knows of a handler; a modifier that the handler does not look at is an error.
enum Accepts : uint8_t {
  kNothing = 0,
  kOutputModifiers = 1,  // clamp, mul:2 ...
  kPacked = 2,           // op_sel, op_sel_hi, neg_lo, neg_hi
  kHalves = 4,           // op_sel alone
  kSdwa = 8,
};

// For counts and checks.
enum class Class : uint8_t {
  scalar,
  vector,
  matrix,
  scalar_load,
  global_load,
  global_store,
  lds,
  scratch,
  atomic,
  wait,
  barrier,
  branch,
  other
};

// Counters of memory operations under way. gfx9 has the first two, gfx11 the first three, gfx12 all four.
enum Counter : uint8_t { kLoads, kLds, kStores, kScalarLoads, kNumCounters };
inline constexpr int16_t kNoWait = INT16_MAX;

struct Instruction {
  Handler run = nullptr;  // null: an instruction that is not modelled; running it is an error
  uint64_t address = 0;   // in the code object
  std::array<Operand, 6> o;
  uint8_t n_operands = 0;
  uint8_t n_outputs = 0;  // the first operands
  Class kind = Class::other;
  bool is_sdwa = false;
  Unused unused = Unused::pad;
  uint8_t op_sel = 0, op_sel_hi = 0, neg_lo = 0, neg_hi = 0, omod = 0;
  bool clamp = false;
  bool returns = false;  // an atomic that gives the old value
  int32_t offset = 0, offset1 = 0;
  uint32_t target = 0;  // of a branch: an index of an instruction
  std::array<int16_t, kNumCounters> waits = {kNoWait, kNoWait, kNoWait, kNoWait};
  std::unique_ptr<Instruction> second;  // of a dual instruction
  bool second_reads_first = false;      // what the first half writes
  std::string name;                     // without _e32, _e64, _sdwa and v_dual_
  std::string text;
};

// The handler and what it accepts; a null handler where there is none.
struct Entry {
  Handler run = nullptr;
  uint8_t accepts = kNothing;
};
Entry find_handler(const std::string& name);

// Reads one line of llvm-objdump's, without address. Never fails: what is not understood becomes an instruction without
// a handler. Branches are left to the caller.
Instruction parse_instruction(const std::string& text);

}  // namespace rocmforge::gpu::isa
