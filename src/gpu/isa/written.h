#pragma once
// Which registers a wave has written: reading one before is an error, unless the kernel begins with it. Of an operand
// of several registers one must have been written: compilers leave the others out where they do not matter. Compilers
// also copy and spill values that nobody wrote, where the copy is not used: only its use is an error.

#include <bitset>
#include <set>
#include <utility>

#include "gpu/isa/instruction.h"

namespace rocmforge::gpu::isa {

class Written {
 public:
  // Those that mean something when a wave begins.
  void begin() {
    vectors_.reset();
    scalars_.reset();
    spilled_.clear();
    for (const uint16_t index : {kNull, kM0, kExec, static_cast<uint16_t>(kExec + 1)}) scalars_.set(index);
    vectors_.set(0);
  }
  void set_vector(uint32_t index) { vectors_.set(index); }
  void set_scalar(uint32_t index) { scalars_.set(index); }

  // False: it reads a register that was not written. Counts its outputs as written.
  bool follow(const Instruction& i) {
    if (spill(i)) return true;
    if (!spilled_.empty() && i.name == "v_readlane_b32" && spilled_.contains(lane_of(i.o[1], i.o[2]))) {
      scalars_.reset(i.o[0].index);
      return true;
    }
    const bool is_first_good = reads_written(i), is_second_good = !i.second || reads_written(*i.second);
    if (is_first_good) write(i);
    if (i.second && is_second_good) write(*i.second);
    return (is_first_good || is_copy(i)) && (is_second_good || is_copy(*i.second));
  }

 private:
  using Lane = std::pair<uint16_t, uint32_t>;  // of a vector register
  static Lane lane_of(const Operand& vector, const Operand& lane) { return {vector.index, lane.bits}; }
  static bool is_copy(const Instruction& i) { return i.name.starts_with("v_mov_b") || i.name == "v_pk_mov_b32"; }
  // True: it stores a scalar that nobody wrote.
  bool spill(const Instruction& i) {
    const Operand& from = i.o[1];
    const bool may_be = i.n_operands == 3 && i.o[2].kind == OperandKind::constant && from.kind == OperandKind::scalar;
    if (!may_be || i.name != "v_writelane_b32") return false;
    if (scalars_[from.index]) return spilled_.erase(lane_of(i.o[0], i.o[2])), false;
    vectors_.set(i.o[0].index);
    spilled_.insert(lane_of(i.o[0], i.o[2]));
    return true;
  }
  bool reads_written(const Instruction& i) const {
    for (uint32_t k = i.n_outputs; k < i.n_operands; k++) {
      const Operand& o = i.o[k];
      bool any = o.kind == OperandKind::off || o.kind == OperandKind::constant;
      for (uint32_t r = o.index; r < uint32_t{o.index} + o.n && !any; r++) {
        any = o.kind == OperandKind::vector ? vectors_[r] : scalars_[r];
      }
      if (!any) return false;
    }
    return true;
  }
  void write(const Instruction& i) {
    for (uint32_t k = 0; k < i.n_outputs; k++) {
      const Operand& o = i.o[k];
      for (uint32_t r = o.index; r < uint32_t{o.index} + o.n; r++) {
        if (o.kind == OperandKind::vector) vectors_.set(r);
        if (o.kind == OperandKind::scalar) scalars_.set(r);
      }
    }
  }

  std::bitset<2 * kAccumulators> vectors_;
  std::set<Lane> spilled_;                // lanes that hold a scalar which nobody wrote
  std::bitset<kNumScalars + 1> scalars_;  // null has a second half that nobody looks at
};

}  // namespace rocmforge::gpu::isa
