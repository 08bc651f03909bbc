// Floating point under a mode register that rounds otherwise than to nearest, or flushes denormals: sources are flushed
// where they lie and put back, and the handler runs with the host's rounding changed.

#include <cfenv>
#include <string_view>
#include <vector>

#include "gpu/isa/lanes.h"

namespace rocmforge::gpu::isa {
namespace {

bool is_one_of(const std::string& name, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (name.find(part) != name.npos) return true;
  }
  return false;
}

FloatForm form_of(std::string_view type, bool is_packed) {
  if (type == "f16") return is_packed ? FloatForm::packed_f16 : FloatForm::f16;
  if (type == "f32") return FloatForm::f32;
  return type == "f64" ? FloatForm::f64 : FloatForm::none;
}

// The bits of the mode that are for a form: f32 has its own.
uint32_t bits_for(FloatForm form, uint32_t mode, uint32_t shift) {
  return mode >> (shift + (form == FloatForm::f32 ? 0 : 2)) & 3;
}
bool takes_denormals(FloatForm form, uint32_t mode) {
  return form == FloatForm::none || (bits_for(form, mode, 4) & 1) != 0;
}
bool gives_denormals(FloatForm form, uint32_t mode) {
  return form == FloatForm::none || (bits_for(form, mode, 4) & 2) != 0;
}

uint32_t flushed_half(uint32_t half) {
  return (half & 0x7C00) == 0 ? half & 0x8000 : half;
}
void flush(FloatForm form, uint32_t& low, uint32_t* high) {
  if (form == FloatForm::f32 && (low & 0x7F800000) == 0) low &= 0x80000000;
  if (form == FloatForm::f16) low = (low & 0xFFFF0000) | flushed_half(low & 0xFFFF);
  if (form == FloatForm::packed_f16) low = flushed_half(low & 0xFFFF) | flushed_half(low >> 16) << 16;
  if (form == FloatForm::f64 && high != nullptr && (*high & 0x7FF00000) == 0) {
    *high &= 0x80000000;
    low = 0;
  }
}
// Of the active lanes, or of all.
void flush(Wave& w, const Operand& o, FloatForm form, bool all) {
  const uint32_t step = form == FloatForm::f64 ? 2 : 1;
  for (uint32_t r = o.index; r + step <= uint32_t{o.index} + o.n; r += step) {
    if (o.kind == OperandKind::scalar) flush(form, w.s[r], step == 2 ? &w.s[r + 1] : nullptr);
    if (o.kind != OperandKind::vector) continue;
    for (uint32_t l = 0; l < w.n_lanes(); l++) {
      if (all || w.is_active(l)) flush(form, w.at(r, l), step == 2 ? &w.at(r + 1, l) : nullptr);
    }
  }
}

bool holds(const Operand& o, OperandKind kind, uint32_t index) {
  return o.kind == kind && index >= o.index && index < uint32_t{o.index} + o.n;
}

// Sources as they were, put back but for what the instruction has written.
class Sources {
 public:
  Sources(Wave& w, const Instruction& i) : w_(w), i_(i) {
    const bool adds_up = is_one_of(i.name, {"_fmac_", "_mac_"});
    for (uint32_t k = adds_up ? 0 : i.n_outputs; k < i.n_operands && k - i.n_outputs + 1 <= i.n_float_sources; k++) {
      const Operand& o = i.o[k];
      for (uint32_t r = o.index; r < uint32_t{o.index} + o.n; r++) {
        if (o.kind == OperandKind::scalar) scalars_.emplace_back(r, w.s[r]);
        for (uint32_t h = 0; o.kind == OperandKind::vector && h < w.n_halves; h++) {
          vectors_.push_back({r, h, w.v[h * w.n_registers + r]});
        }
      }
      flush(w, o, i.from, true);
    }
  }
  ~Sources() {
    for (const auto& [index, value] : scalars_) {
      if (!is_output(OperandKind::scalar, index)) w_.s[index] = value;
    }
    for (const Saved& saved : vectors_) {
      Lanes& now = w_.v[saved.half * w_.n_registers + saved.index];
      for (uint32_t l = 0; l < kHalf; l++) {
        const bool is_written = is_output(OperandKind::vector, saved.index) && (w_.exec(saved.half) >> l & 1) != 0;
        if (!is_written) now[l] = saved.lanes[l];
      }
    }
  }
  Sources(const Sources&) = delete;
  Sources& operator=(const Sources&) = delete;

 private:
  struct Saved {
    uint32_t index, half;
    Lanes lanes;
  };
  bool is_output(OperandKind kind, uint32_t index) const {
    for (uint32_t k = 0; k < i_.n_outputs; k++) {
      if (holds(i_.o[k], kind, index)) return true;
    }
    return false;
  }
  Wave& w_;
  const Instruction& i_;
  std::vector<std::pair<uint32_t, uint32_t>> scalars_;
  std::vector<Saved> vectors_;
};

// Functions and roundings to integers are as always.
int rounding_of(const Instruction& i, uint32_t mode) {
  static constexpr int kRoundings[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  const bool is_fixed = i.to == FloatForm::none ||
                        is_one_of(i.name, {"rndne", "_exp_", "_log_", "_sin_", "_cos_", "_rcp_", "_rsq_", "_sqrt_"});
  return kRoundings[is_fixed ? 0 : bits_for(i.to, mode, 0)];
}

}  // namespace

void find_forms(Instruction& i) {
  const std::string& n = i.name;
  const bool may_be =
      (n.starts_with("v_") && i.kind == Class::vector) || (n.starts_with("s_") && i.kind == Class::scalar);
  if (!may_be || is_one_of(n, {"v_dot", "_class_"})) return;
  if (n.starts_with("v_fma_mix") || n.starts_with("v_cvt_pk") || n.find("bf16") != n.npos) {
    i.from = i.to = FloatForm::mixed;
    return;
  }
  const bool is_packed = n.starts_with("v_pk_");
  const size_t last = n.rfind('_');
  i.from = form_of(std::string_view(n).substr(last + 1), is_packed);
  i.to = i.from;
  if (const size_t cvt = n.find("_cvt_"); cvt != n.npos) {
    i.to = form_of(std::string_view(n).substr(cvt + 5, n.find('_', cvt + 5) - cvt - 5), false);
  }
  if (is_one_of(n, {"_cmp", "_frexp_exp_"})) i.to = FloatForm::none;
  if (n.find("_ldexp_") != n.npos) i.n_float_sources = 1;
}

void run_in_mode(Wave& w, const Instruction& i) {
  const bool takes_parts = i.from == FloatForm::f16 && (i.op_sel != 0 || i.is_sdwa);
  if (i.from == FloatForm::mixed || takes_parts) {
    return w.fail(i, "an instruction that is not modelled but with plain rounding and denormals");
  }
  std::optional<Sources> sources;
  if (!takes_denormals(i.from, w.mode)) sources.emplace(w, i);
  const int before = std::fegetround();
  std::fesetround(rounding_of(i, w.mode));
  i.run(w, i);
  std::fesetround(before);
  if (!gives_denormals(i.to, w.mode)) flush(w, i.o[0], i.to, false);
}

namespace {

constexpr uint32_t kModeRegister = 1;

// The operand is the register's number, then the first bit and how many, less one.
void set_mode(Wave& w, const Instruction& i, uint32_t value) {
  const uint32_t first = i.o[0].bits >> 6 & 31, n = (i.o[0].bits >> 11 & 31) + 1;
  if ((i.o[0].bits & 63) != kModeRegister || first + n > 8) {
    return w.fail(i, "hardware registers but for rounding and denormals are not modelled");
  }
  const uint32_t mask = ((1u << n) - 1) << first;
  w.mode = static_cast<uint8_t>((w.mode & ~mask) | (value << first & mask));
}
void s_setreg_b32(Wave& w, const Instruction& i) {
  set_mode(w, i, w.scalar(i.o[1]));
}
void s_round_mode(Wave& w, const Instruction& i) {
  w.mode = static_cast<uint8_t>((w.mode & 0xF0) | (i.o[0].bits & 15));
}
void s_denorm_mode(Wave& w, const Instruction& i) {
  w.mode = static_cast<uint8_t>((w.mode & 0x0F) | (i.o[0].bits & 15) << 4);
}

}  // namespace

void add_modes(Table& t) {
  t["s_setreg_b32"] = t["s_setreg_imm32_b32"] = {s_setreg_b32};
  t["s_round_mode"] = {s_round_mode};
  t["s_denorm_mode"] = {s_denorm_mode};
}

}  // namespace rocmforge::gpu::isa
