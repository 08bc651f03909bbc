// The rules are those of AMD's documents of the instruction sets, under "manually inserted wait states", and, where
// these are silent, what LLVM's backend takes care of. A wait state is an instruction, or one of the n + 1 of s_nop n.

#include "gpu/isa/hazards.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "gpu/isa/scalar_hazard.h"

namespace rocmforge::gpu::isa {
namespace {

// ---- what instructions touch ----

bool is_vector_unit(const Instruction& i) {
  return i.kind == Class::vector || i.kind == Class::matrix;
}
bool is_device_memory(const Instruction& i) {
  return i.kind == Class::global_load || i.kind == Class::global_store || i.kind == Class::scratch ||
         i.kind == Class::atomic;
}
bool is_memory(const Instruction& i) {
  return is_device_memory(i) || i.kind == Class::lds;
}
bool is_dot(const Instruction& i) {
  return i.name.starts_with("v_dot");
}
bool is_transcendental(const Instruction& i) {
  static constexpr std::string_view kNames[] = {"v_rcp_", "v_rsq_", "v_sqrt_", "v_exp_", "v_log_", "v_sin_", "v_cos_"};
  return !i.name.ends_with("_f64") &&
         std::ranges::any_of(kNames, [&](std::string_view name) { return i.name.starts_with(name); });
}
bool adds_to_destination(const Instruction& i) {
  static constexpr std::string_view kNames[] = {"v_fmac_", "v_mac_", "v_dot2c_", "v_dot4c_", "v_pk_fmac_"};
  return std::ranges::any_of(kNames, [&](std::string_view name) { return i.name.starts_with(name); });
}

bool overlap(const Operand& a, const Operand& b) {
  const bool are_registers = a.kind == OperandKind::vector || a.kind == OperandKind::scalar;
  return are_registers && a.kind == b.kind && a.index < b.index + b.n && b.index < a.index + a.n;
}
Operand scalars(uint16_t index, uint8_t n) {
  Operand o;
  o.kind = OperandKind::scalar;
  o.index = index;
  o.n = n;
  return o;
}
const Operand kVccPair = scalars(kVcc, 2), kExecPair = scalars(kExec, 2);

// f(operand, its number) for what an instruction, and the other half of a dual one, writes or reads; true: one is
// meant.
template <class F>
bool any_output(const Instruction& i, F f) {
  for (uint32_t k = 0; k < i.n_outputs; k++) {
    if (f(i.o[k])) return true;
  }
  const bool writes_exec = i.name.starts_with("v_cmpx");
  if (writes_exec && f(kExecPair)) return true;
  return i.second && any_output(*i.second, f);
}
template <class F>
bool any_source(const Instruction& i, F f) {
  for (uint32_t k = adds_to_destination(i) ? 0 : i.n_outputs; k < i.n_operands; k++) {
    if (f(i.o[k], k)) return true;
  }
  if (i.name.starts_with("v_div_fmas") && f(kVccPair, i.n_operands)) return true;
  return i.second && any_source(*i.second, f);
}
bool writes(const Instruction& i, const Operand& o) {
  return any_output(i, [&](const Operand& to) { return overlap(to, o); });
}
bool reads(const Instruction& i, const Operand& o) {
  return any_source(i, [&](const Operand& from, uint32_t) { return overlap(from, o); });
}
// Registers of one kind that `first` writes and `then` reads, or writes.
bool feeds(const Instruction& first, const Instruction& then, OperandKind kind) {
  return any_output(first, [&](const Operand& o) { return o.kind == kind && reads(then, o); });
}
bool overwrites(const Instruction& first, const Instruction& then) {
  return any_output(first, [&](const Operand& o) { return o.kind == OperandKind::vector && writes(then, o); });
}

// ---- how many wait states must lie between two instructions ----

struct Rules {
  bool is_cdna = false, is_gfx942 = false;
  bool waits_for_transcendentals = false;  // gfx1100 and gfx1101
  bool has_wmma = false;
  uint32_t passes = 0;  // of a product of matrices: 16 x 16 x 16
  explicit Rules(const Target& target)
      : is_cdna(target.generation == 9),
        is_gfx942(target.has_several_l2),
        waits_for_transcendentals(target.name == "gfx1100" || target.name == "gfx1101"),
        has_wmma(target.generation >= 11),
        passes(is_gfx942 ? 4 : 8) {}
};

uint32_t after_matrix(const Rules& rules, const Instruction& first, const Instruction& then) {
  const Operand& d = first.o[0];
  uint32_t need = 0;
  if (then.kind == Class::matrix) {
    for (const uint32_t k : {1, 2}) {
      if (overlap(d, then.o[k])) need = rules.passes + 3;
    }
    const Operand& c = then.o[3];
    const bool is_same = c.kind == d.kind && c.index == d.index;
    if (overlap(d, c) && !is_same) need = std::max(need, rules.is_gfx942 ? rules.passes + 1 : rules.passes);
    return need;
  }
  if (!is_vector_unit(then) && !is_memory(then)) return 0;
  if (feeds(first, then, OperandKind::vector) || overwrites(first, then)) return rules.passes + 3;
  return writes(then, first.o[3]) ? rules.passes - 1 : 0;
}

uint32_t after_dot(const Instruction& first, const Instruction& then) {
  constexpr uint32_t kStates = 3;
  if (!is_vector_unit(then) && !is_memory(then)) return 0;
  const bool is_same = first.name == then.name;
  const bool adds_up = is_same && any_source(then, [&](const Operand& o, uint32_t k) {
                         const bool is_sum = k == 0 || k == 3;
                         return !is_sum && overlap(o, first.o[0]);
                       });
  if (is_same) return adds_up ? kStates : 0;
  return feeds(first, then, OperandKind::vector) || overwrites(first, then) ? kStates : 0;
}

uint32_t after_vector_unit(const Rules& rules, const Instruction& first, const Instruction& then) {
  uint32_t need = 0;
  const auto at_least = [&](uint32_t states, bool is_needed) {
    if (is_needed) need = std::max(need, states);
  };
  const bool is_scalar_use = feeds(first, then, OperandKind::scalar);
  const bool moves_lane = then.name == "v_readlane_b32" || then.name == "v_writelane_b32";
  at_least(4, is_scalar_use && then.name.starts_with("v_div_fmas"));
  at_least(4, moves_lane && then.o[2].kind == OperandKind::scalar && writes(first, then.o[2]));
  at_least(5, is_scalar_use && is_device_memory(then));
  at_least(4, then.kind == Class::matrix && writes(first, kExecPair));
  at_least(2, then.dpp != nullptr && feeds(first, then, OperandKind::vector));
  at_least(5, then.dpp != nullptr && writes(first, kExecPair));
  at_least(2, then.kind == Class::matrix && !is_dot(first) && feeds(first, then, OperandKind::vector));
  if (!rules.is_gfx942) return need;
  const bool reads_lane = then.name == "v_readlane_b32" || then.name == "v_readfirstlane_b32";
  const bool is_vector_use = is_vector_unit(then) && feeds(first, then, OperandKind::vector);
  at_least(2, is_scalar_use && is_vector_unit(then));
  at_least(4, (reads_lane || moves_lane) && writes(first, kExecPair));
  at_least(1, reads_lane && is_vector_use);
  at_least(1, is_vector_use && is_transcendental(first) && !is_transcendental(then));
  at_least(1, is_vector_use && first.is_sdwa && first.o[0].part != Part::dword);
  return need;
}

uint32_t wait_states(const Rules& rules, const Instruction& first, const Instruction& then) {
  if (!rules.is_cdna) return 0;
  if (first.kind == Class::matrix) return after_matrix(rules, first, then);
  if (is_vector_unit(first)) {
    return std::max(is_dot(first) ? after_dot(first, then) : 0, after_vector_unit(rules, first, then));
  }
  // Wide stores take their data late.
  const Operand& data = first.o[first.name.starts_with("buffer_") ? 0 : 1];
  const bool is_wide_store = is_device_memory(first) && first.n_outputs == 0 && data.n > 2;
  return is_wide_store && is_vector_unit(then) && writes(then, data) ? (rules.is_gfx942 ? 2 : 1) : 0;
}

// ---- paths ----

// What lies between the first instruction and the one that is looked at.
struct Between {
  uint32_t n_states = 0, n_vector = 0, n_transcendental = 0;
  bool was_waited = false;  // for results of the vector unit
};

bool is_hazard(const Rules& rules, const Instruction& first, const Instruction& then, const Between& between) {
  if (wait_states(rules, first, then) > between.n_states) return true;
  if (rules.has_wmma && first.kind == Class::matrix && then.kind == Class::matrix && between.n_vector == 0) {
    return overlap(first.o[0], then.o[1]) || overlap(first.o[0], then.o[2]);
  }
  constexpr uint32_t kMostVector = 5, kMostTranscendental = 1;
  return rules.waits_for_transcendentals && is_transcendental(first) && is_vector_unit(then) && !between.was_waited &&
         between.n_vector <= kMostVector && between.n_transcendental <= kMostTranscendental &&
         feeds(first, then, OperandKind::vector);
}

void pass(const Instruction& i, Between& between) {
  constexpr int32_t kVectorResults = 0xF000;  // of s_waitcnt_depctr: 0 there waits
  between.n_states += i.name == "s_nop" ? static_cast<uint32_t>(i.offset) + 1 : 1;
  between.n_vector += is_vector_unit(i) ? 1 : 0;
  between.n_transcendental += is_transcendental(i) ? 1 : 0;
  between.was_waited |= is_memory(i) || i.name.starts_with("buffer_gl") ||
                        (i.name == "s_waitcnt_depctr" && (i.offset & kVectorResults) == 0);
}

constexpr uint32_t kFarthest = 19;  // wait states that any rule asks for

// The first instruction from `at` on that comes too early.
const Instruction* too_early(const Kernel& kernel, const Rules& rules, const Instruction& first, uint32_t at,
                             Between between) {
  while (at < kernel.instructions.size() && between.n_states < kFarthest) {
    const Instruction& i = kernel.instructions[at];
    if (is_hazard(rules, first, i, between)) return &i;
    if (i.name == "s_endpgm") return nullptr;
    pass(i, between);
    if (i.kind == Class::branch) {
      const Instruction* found = too_early(kernel, rules, first, i.target, between);
      if (found != nullptr || i.name == "s_branch") return found;
    }
    at++;
  }
  return nullptr;
}

}  // namespace

std::string find_hazard(const Kernel& kernel) {
  const Rules rules(kernel.target);
  for (uint32_t k = 0; k < kernel.instructions.size(); k++) {
    const Instruction& first = kernel.instructions[k];
    if (!is_vector_unit(first) && !is_device_memory(first)) continue;
    if (const Instruction* then = too_early(kernel, rules, first, k + 1, {}); then != nullptr) {
      return fmt::format("{}: \"{}\" at {:x} comes too early after \"{}\" at {:x}", kernel.name, then->text,
                         then->address, first.text, first.address);
    }
  }
  if (const auto at = find_old_scalar(kernel)) {
    const Instruction& reader = kernel.instructions[*at];
    return fmt::format("{}: \"{}\" at {:x} may read an old scalar, without s_wait_alu", kernel.name, reader.text,
                       reader.address);
  }
  return {};
}

}  // namespace rocmforge::gpu::isa
