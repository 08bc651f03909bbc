#pragma once
// One decoded instruction of AMD machine code, and its operands.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace rocmforge::gpu::isa {

struct Wave;
struct Instruction;
struct Dpp;
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

// How far an access looks past caches, or a cache operation reaches.
enum class Scope : uint8_t { wave, block, device, system };

// What an instruction takes of floats, or gives.
enum class FloatForm : uint8_t { none, f16, packed_f16, f32, f64, mixed };

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
  Scope scope = Scope::wave;
  int32_t offset = 0, offset1 = 0;
  uint32_t target = 0;  // of a branch: an index of an instruction
  std::array<int16_t, kNumCounters> waits = {kNoWait, kNoWait, kNoWait, kNoWait};
  FloatForm from = FloatForm::none, to = FloatForm::none;
  uint8_t n_float_sources = 3;
  bool has_offset_register = false;  // of a buffer instruction
  bool has_index_register = false;
  std::unique_ptr<Instruction> second;  // of a dual instruction
  bool second_reads_first = false;      // what the first half writes
  std::unique_ptr<Dpp> dpp;
  std::string name;  // without _e32, _e64, _sdwa, _dpp and v_dual_
  std::string text;

  Instruction();
  ~Instruction();
  Instruction(Instruction&&) noexcept;
  Instruction& operator=(Instruction&&) noexcept;
};

// How the lanes of a DPP instruction's first source are moved.
struct Dpp {
  enum class Move : uint8_t {
    quad,         // select within 4
    eight,        // select within 8
    shift_left,   // rows of 16: from the lane `amount` above
    shift_right,  // from the lane below
    rotate_right,
    wave_shift_left,  // by one, over all lanes
    wave_shift_right,
    wave_rotate_left,
    wave_rotate_right,
    mirror,
    half_mirror,
    broadcast_15,  // the last lane of each row, to the next row
    broadcast_31,  // the last of the lower half, to the upper half
    share,         // one lane of each row, to the row
    exclusive_or
  };
  Move move = Move::quad;
  uint8_t amount = 0;
  std::array<uint8_t, 8> select{};
  uint8_t rows = 15, banks = 15;  // a bit for each row of 16 lanes that is written, and for each 4 of a row
  bool zeroes = false;            // lanes without a source take a zero; else they are not written
  bool fetches_inactive = false;
  Instruction plain;  // whose first source is the moved one
};

// The register of moved lanes: no vector instruction of one that has DPP names it.
inline constexpr uint16_t kMoved = kAccumulators;
// Where the lane of a wave of n takes its value; no value: nowhere.
std::optional<uint32_t> source_of(const Dpp& dpp, uint32_t lane, uint32_t n);
void run_dpp(Wave& w, const Instruction& i);

void find_forms(Instruction& i);
// For a wave whose mode is not the plain one.
void run_in_mode(Wave& w, const Instruction& i);

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
