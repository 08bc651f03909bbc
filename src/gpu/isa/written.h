#pragma once
// Which registers a wave has written: reading one before is an error, unless the kernel begins with it. Of an operand
// of several registers one must have been written: compilers leave the others out where they do not matter.

#include <bitset>

#include "gpu/isa/instruction.h"

namespace rocmforge::gpu::isa {

class Written {
 public:
  // Those that mean something when a wave begins.
  void begin() {
    vectors_.reset();
    scalars_.reset();
    for (const uint16_t index : {kNull, kM0, kExec, static_cast<uint16_t>(kExec + 1)}) scalars_.set(index);
    vectors_.set(0);
  }
  void set_scalar(uint32_t index) { scalars_.set(index); }

  // False: it reads a register that was not written. Counts its outputs as written.
  bool follow(const Instruction& i) {
    bool good = reads_written(i);
    if (i.second) good &= reads_written(*i.second);
    if (!good && i.name.starts_with("v_mov_b")) return true;  // a copy alone is no use
    write(i);
    if (i.second) write(*i.second);
    return good;
  }

 private:
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
  std::bitset<kNumScalars + 1> scalars_;  // null has a second half that nobody looks at
};

}  // namespace rocmforge::gpu::isa
