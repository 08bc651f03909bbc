// Instructions from llvm-objdump's text.

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/isa/instruction.h"

namespace rocmforge::gpu::isa {
namespace {

std::string_view trimmed(std::string_view s) {
  const size_t from = s.find_first_not_of(" \t\n"), to = s.find_last_not_of(" \t\n");
  return from == std::string_view::npos ? std::string_view() : s.substr(from, to - from + 1);
}

// At commas outside of brackets.
std::vector<std::string_view> split(std::string_view s) {
  std::vector<std::string_view> parts;
  size_t from = 0;
  int depth = 0;
  for (size_t k = 0; k < s.size(); k++) {
    depth += (s[k] == '[' || s[k] == '(') - (s[k] == ']' || s[k] == ')');
    if (s[k] == ',' && depth == 0) {
      parts.push_back(trimmed(s.substr(from, k - from)));
      from = k + 1;
    }
  }
  if (const auto last = trimmed(s.substr(from)); !last.empty()) parts.push_back(last);
  return parts;
}

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

bool set_scalar(Operand& o, uint16_t index, uint8_t n) {
  o.kind = OperandKind::scalar;
  o.index = index;
  o.n = n;
  return true;
}

bool parse_named(std::string_view s, Operand& o) {
  struct Named {
    std::string_view name;
    uint16_t index;
    uint8_t n;
  };
  static constexpr Named kNames[] = {{"vcc_lo", kVcc, 1},   {"vcc_hi", kVcc + 1, 1},  {"vcc", kVcc, 2},
                                     {"null", kNull, 1},    {"m0", kM0, 1},           {"exec", kExec, 2},
                                     {"exec_lo", kExec, 1}, {"exec_hi", kExec + 1, 1}};
  for (const Named& known : kNames) {
    if (s == known.name) return set_scalar(o, known.index, known.n);
  }
  return false;
}

// v1, v[2:3], s4, s[4:7], a[0:3], ttmp9
bool parse_register(std::string_view s, Operand& o) {
  const bool is_ttmp = s.starts_with("ttmp");
  const size_t n_letters = is_ttmp ? 4 : 1;
  if (s.size() <= n_letters || (!is_ttmp && s[0] != 'v' && s[0] != 's' && s[0] != 'a')) return false;
  const std::string digits(s.substr(n_letters));
  unsigned first = 0, last = 0;
  if (digits[0] == '[') {
    if (std::sscanf(digits.c_str(), "[%u:%u]", &first, &last) != 2 || last < first) return false;
  } else if (std::all_of(digits.begin(), digits.end(), is_digit)) {
    first = last = static_cast<unsigned>(std::atoi(digits.c_str()));
  } else {
    return false;
  }
  if (last > 255) return false;
  o.n = static_cast<uint8_t>(last - first + 1);
  o.index = static_cast<uint16_t>(first + (is_ttmp ? kTtmp : s[0] == 'a' ? kAccumulators : 0));
  o.kind = !is_ttmp && (s[0] == 'v' || s[0] == 'a') ? OperandKind::vector : OperandKind::scalar;
  return o.kind == OperandKind::vector || o.index + o.n <= kNumScalars;
}

// hwreg(HW_REG_MODE, 4, 2): its number, the first bit, and how many less one. The mode alone is known.
bool parse_hardware_register(std::string_view s, Operand& o) {
  unsigned first = 0, n = 32;
  for (const std::string_view name : {"hwreg(HW_REG_MODE", "hwreg(HW_REG_WAVE_MODE"}) {
    if (!s.starts_with(name)) continue;
    const std::string rest(s.substr(name.size()));
    if (rest != ")" && std::sscanf(rest.c_str(), ", %u, %u)", &first, &n) != 2) return false;
    o.kind = OperandKind::constant;
    o.bits = 1 | first << 6 | (n - 1) << 11;
    return first < 32 && n - 1 < 32;
  }
  return false;
}

bool parse_constant(std::string_view s, Operand& o) {
  const std::string text(s);
  char* end = nullptr;
  o.kind = OperandKind::constant;
  o.is_literal = text.find("0x") != std::string::npos;
  if (o.is_literal || text.find('.') == std::string::npos) {
    o.bits = static_cast<uint32_t>(std::strtoll(text.c_str(), &end, 0));
  } else {
    o.value = std::strtod(text.c_str(), &end);
    o.is_float = true;
    o.bits = std::bit_cast<uint32_t>(static_cast<float>(o.value));
  }
  return end != text.c_str() && *end == 0;
}

// What stands between commas, without modifiers: v1, -v1, |v1|, -|v1|, neg(1.0), sext(v1), vcc_lo, null, off, 12, 0x1F.
bool parse_operand(std::string_view s, Operand& o) {
  if (s.size() > 1 && s[0] == '-' && !is_digit(s[1])) {
    o.neg = true;
    s.remove_prefix(1);
  }
  if (s.starts_with("neg(") && s.ends_with(")")) {
    o.neg = true;
    s = s.substr(4, s.size() - 5);
  }
  if (s.starts_with("sext(") && s.ends_with(")")) {
    o.sext = true;
    s = s.substr(5, s.size() - 6);
  }
  if (s.size() > 2 && s.front() == '|' && s.back() == '|') {
    o.abs = true;
    s = s.substr(1, s.size() - 2);
  }
  if (s == "off") return true;
  if (parse_hardware_register(s, o)) return true;
  return parse_named(s, o) || parse_register(s, o) || (!s.empty() && parse_constant(s, o));
}

// [1,0,1]
uint8_t parse_bits(std::string_view s) {
  uint32_t bits = 0, k = 0;
  for (const char c : s) {
    if (c == '0' || c == '1') bits |= static_cast<uint32_t>(c - '0') << k++;
  }
  return static_cast<uint8_t>(bits);
}

bool parse_part(std::string_view s, Part& part) {
  static constexpr std::string_view kParts[] = {"DWORD", "BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1"};
  for (uint8_t k = 0; k < std::size(kParts); k++) {
    if (s == kParts[k]) return part = static_cast<Part>(k), true;
  }
  return false;
}

// Sources of an SDWA instruction are known only when all operands are.
struct SourceParts {
  Part of[2] = {Part::dword, Part::dword};
};

// As CDNA, RDNA before gfx12, and gfx12 print it.
bool parse_scope(std::string_view s, Scope& scope) {
  static constexpr std::pair<std::string_view, Scope> kScopes[] = {{"sc0", Scope::block},
                                                                   {"sc1", Scope::device},
                                                                   {"glc", Scope::device},
                                                                   {"scope:SCOPE_CU", Scope::wave},
                                                                   {"scope:SCOPE_SE", Scope::block},
                                                                   {"scope:SCOPE_DEV", Scope::device},
                                                                   {"scope:SCOPE_SYS", Scope::system}};
  for (const auto& [name, known] : kScopes) {
    if (s == name) return scope = std::max(scope, known), true;
  }
  return false;
}

// quad_perm:[1,0,3,2], dpp8:[7,6,5,4,3,2,1,0]
bool parse_select(std::string_view s, size_t n, std::array<uint8_t, 8>& select) {
  size_t k = 0;
  for (const char c : s) {
    if (!is_digit(c)) continue;
    if (k == n || static_cast<size_t>(c - '0') >= n) return false;
    select[k++] = static_cast<uint8_t>(c - '0');
  }
  return k == n;
}

bool parse_dpp(std::string_view name, std::string_view value, int32_t number, Dpp& dpp) {
  using Move = Dpp::Move;
  static constexpr std::pair<std::string_view, Move> kByAmount[] = {
      {"row_shl", Move::shift_left},        {"row_shr", Move::shift_right},       {"row_ror", Move::rotate_right},
      {"row_newbcast", Move::share},        {"row_share", Move::share},           {"row_xmask", Move::exclusive_or},
      {"wave_shl", Move::wave_shift_left},  {"wave_shr", Move::wave_shift_right}, {"wave_rol", Move::wave_rotate_left},
      {"wave_ror", Move::wave_rotate_right}};
  for (const auto& [known, move] : kByAmount) {
    if (name != known) continue;
    dpp.move = move;
    dpp.amount = static_cast<uint8_t>(number);
    return number >= 0 && number < 16;
  }
  if (name == "quad_perm") return dpp.move = Move::quad, parse_select(value, 4, dpp.select);
  if (name == "dpp8") return dpp.move = Move::eight, dpp.zeroes = true, parse_select(value, 8, dpp.select);
  if (name == "row_mirror") return dpp.move = Move::mirror, true;
  if (name == "row_half_mirror") return dpp.move = Move::half_mirror, true;
  if (name == "row_bcast") {
    dpp.move = number == 15 ? Move::broadcast_15 : Move::broadcast_31;
    return number == 15 || number == 31;
  }
  if (name == "row_mask") return dpp.rows = static_cast<uint8_t>(number), true;
  if (name == "bank_mask") return dpp.banks = static_cast<uint8_t>(number), true;
  if (name == "bound_ctrl") return dpp.zeroes = true, true;  // printed only where it is set, as 0 or as 1
  if (name == "fi") return dpp.fetches_inactive = number == 1, true;
  return false;
}

bool parse_modifier(std::string_view s, Instruction& i, SourceParts& sources) {
  const size_t colon = s.find(':');
  const std::string_view name = s.substr(0, colon);
  const std::string_view value = colon == std::string_view::npos ? std::string_view() : s.substr(colon + 1);
  const auto number = [&] { return static_cast<int32_t>(std::strtol(std::string(value).c_str(), nullptr, 0)); };
  if (name == "offset" || name == "offset0") return i.offset = number(), true;
  if (name == "offset1") return i.offset1 = number(), true;
  if (name == "op_sel_hi") return i.op_sel_hi = parse_bits(value), true;
  if (name == "op_sel") return i.op_sel = parse_bits(value), true;
  if (name == "neg_lo") return i.neg_lo = parse_bits(value), true;
  if (name == "neg_hi") return i.neg_hi = parse_bits(value), true;
  if (s == "clamp") return i.clamp = true;
  if (s == "mul:2") return i.omod = 1, true;
  if (s == "mul:4") return i.omod = 2, true;
  if (s == "div:2") return i.omod = 3, true;
  if (name == "dst_sel") return parse_part(value, i.o[0].part);
  if (name == "src0_sel") return parse_part(value, sources.of[0]);
  if (name == "src1_sel") return parse_part(value, sources.of[1]);
  if (name == "dst_unused") {
    i.unused = value == "UNUSED_PRESERVE" ? Unused::preserve : value == "UNUSED_SEXT" ? Unused::sext : Unused::pad;
    return true;
  }
  if (i.dpp && parse_dpp(name, value, number(), *i.dpp)) return true;
  if (s == "offen") return i.has_offset_register = true;
  if (s == "idxen") return i.has_index_register = true;
  if (s == "glc" || s == "sc0" || s == "th:TH_ATOMIC_RETURN") i.returns = true;
  if (parse_scope(s, i.scope) || i.returns) return true;
  return s == "slc" || s == "dlc" || s == "nt" || name == "th";
}

std::string plain_name(std::string name, bool& is_sdwa, bool& is_dpp) {
  if (name.starts_with("v_dual_")) name = "v_" + name.substr(7);
  is_dpp = name.ends_with("_dpp");
  if (is_dpp) name.resize(name.size() - 4);
  is_sdwa = name.ends_with("_sdwa");
  if (is_sdwa) name.resize(name.size() - 5);
  if (name.ends_with("_e32") || name.ends_with("_e64")) name.resize(name.size() - 4);
  return name;
}

// vmcnt(0) lgkmcnt(1), or a number alone in the forms of gfx11's stores and of gfx12.
void parse_waits(std::string_view text, Instruction& i) {
  const auto number_behind = [&](std::string_view name) {
    const size_t at = text.find(name);
    return at == std::string_view::npos ? kNoWait : static_cast<int16_t>(std::atoi(text.data() + at + name.size()));
  };
  const auto alone = [&] { return static_cast<int16_t>(std::strtol(std::string(text).c_str(), nullptr, 0)); };
  if (i.name == "s_waitcnt") {
    i.waits[kLoads] = number_behind("vmcnt(");
    i.waits[kLds] = number_behind("lgkmcnt(");
  } else if (i.name == "s_waitcnt_vscnt") {
    const size_t comma = text.find(',');
    text.remove_prefix(comma == std::string_view::npos ? 0 : comma + 1);
    i.waits[kStores] = alone();
  } else if (i.name == "s_wait_loadcnt_dscnt" || i.name == "s_wait_storecnt_dscnt") {
    const int packed = alone();
    i.waits[i.name == "s_wait_loadcnt_dscnt" ? kLoads : kStores] = static_cast<int16_t>(packed >> 8 & 63);
    i.waits[kLds] = static_cast<int16_t>(packed & 63);
  } else {
    const Counter counter = i.name == "s_wait_loadcnt"    ? kLoads
                            : i.name == "s_wait_storecnt" ? kStores
                            : i.name == "s_wait_dscnt"    ? kLds
                                                          : kScalarLoads;
    i.waits[counter] = alone();
  }
}

bool is_wait(const std::string& name) {
  static constexpr std::string_view kWaits[] = {
      "s_waitcnt",    "s_waitcnt_vscnt", "s_wait_loadcnt",       "s_wait_storecnt",
      "s_wait_dscnt", "s_wait_kmcnt",    "s_wait_loadcnt_dscnt", "s_wait_storecnt_dscnt"};
  return std::ranges::find(kWaits, name) != std::end(kWaits);
}

Class class_of(const std::string& name) {
  const std::string_view n = name;
  if (n.find("atomic_") != n.npos) return Class::atomic;
  if (n.starts_with("ds_")) return Class::lds;
  if (n.starts_with("scratch_") || n.starts_with("buffer_load") || n.starts_with("buffer_store")) return Class::scratch;
  if (n.starts_with("global_load") || n.starts_with("flat_load")) return Class::global_load;
  if (n.starts_with("global_store") || n.starts_with("flat_store")) return Class::global_store;
  if (n.starts_with("s_load")) return Class::scalar_load;
  if (n.starts_with("v_wmma") || n.starts_with("v_mfma")) return Class::matrix;
  if (n.starts_with("v_")) return Class::vector;
  if (is_wait(name)) return Class::wait;
  if (n.starts_with("s_barrier")) return Class::barrier;
  if (n.starts_with("s_branch") || n.starts_with("s_cbranch")) return Class::branch;
  static constexpr std::string_view kOther[] = {
      "s_nop",           "s_delay_alu",      "s_clause",  "s_set_inst_prefetch_distance",
      "s_sendmsg",       "s_waitcnt_depctr", "s_endpgm",  "s_code_end",
      "s_inst_prefetch", "global_inv",       "global_wb", "s_wait_alu"};
  if (std::ranges::find(kOther, n) != std::end(kOther) || n.starts_with("buffer_")) return Class::other;
  return Class::scalar;
}

uint8_t n_outputs_of(const Instruction& i) {
  const std::string_view n = i.name;
  switch (i.kind) {
    case Class::global_store:
    case Class::wait:
    case Class::barrier:
    case Class::branch:
    case Class::other:
      return 0;
    case Class::atomic:
      return i.returns ? 1 : 0;
    case Class::lds:
      return n.find("read") != n.npos || n.find("load") != n.npos || n.find("permute") != n.npos ||
                     n.find("_rtn_") != n.npos
                 ? 1
                 : 0;
    case Class::scratch:
      return n.find("load") != n.npos ? 1 : 0;
    case Class::scalar:
      return n.starts_with("s_cmp") || n.starts_with("s_bitcmp") ? 0 : 1;
    case Class::vector: {
      if (n.starts_with("v_cmpx") && i.n_operands == 2) return 0;
      if (n == "v_swap_b32") return 2;
      const bool has_carry = n.starts_with("v_div_scale") || n.find("_co_") != n.npos || n.starts_with("v_addc") ||
                             n.starts_with("v_subb") || n.starts_with("v_mad_u64_u32") || n.starts_with("v_mad_i64");
      return has_carry ? 2 : 1;
    }
    default:
      return 1;
  }
}

bool modifiers_fit(const Instruction& i, uint8_t accepts) {
  const bool packed = i.op_sel_hi != 0 || i.neg_lo != 0 || i.neg_hi != 0;
  return (!(i.clamp || i.omod != 0) || (accepts & kOutputModifiers) != 0) && (!packed || (accepts & kPacked) != 0) &&
         (i.op_sel == 0 || (accepts & (kPacked | kHalves)) != 0) && (!i.is_sdwa || (accepts & kSdwa) != 0);
}

// Of instructions without registers: "sc0 sc1", "scope:SCOPE_DEV", "0x3".
void parse_words(std::string_view text, Instruction& i) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (is_digit(text[0])) i.offset = static_cast<int32_t>(std::strtol(std::string(text).c_str(), nullptr, 0));
    parse_scope(text.substr(0, end), i.scope);
    text = trimmed(text.substr(end));
  }
}

Instruction parse_one(std::string_view text) {
  Instruction i;
  i.text = text;
  const size_t space = text.find(' ');
  bool is_dpp = false;
  i.name = plain_name(std::string(text.substr(0, space)), i.is_sdwa, is_dpp);
  if (is_dpp) i.dpp = std::make_unique<Dpp>();
  const std::string_view rest = space == std::string_view::npos ? std::string_view() : trimmed(text.substr(space));
  i.kind = class_of(i.name);
  const Entry entry = find_handler(i.name);
  i.run = entry.run;
  if (is_wait(i.name)) return parse_waits(rest, i), std::move(i);
  if (i.kind == Class::other) return parse_words(rest, i), std::move(i);

  bool understood = true, has_op_sel_hi = false;
  SourceParts sources;
  for (const std::string_view part : split(rest)) {
    const size_t end = part.find(' ', part.starts_with("hwreg(") ? part.find(')') : 0);
    if (i.n_operands == i.o.size()) {
      understood = false;
      break;
    }
    understood &= parse_operand(part.substr(0, end), i.o[i.n_operands++]);
    for (size_t from = end; from != std::string_view::npos;) {
      from = part.find_first_not_of(' ', from);
      if (from == std::string_view::npos) break;
      const size_t to = part.find(' ', from);
      const auto modifier = part.substr(from, to == std::string_view::npos ? to : to - from);
      has_op_sel_hi |= modifier.starts_with("op_sel_hi");
      understood &= parse_modifier(modifier, i, sources);
      from = to;
    }
  }
  i.n_outputs = n_outputs_of(i);
  if (i.is_sdwa) {
    for (uint32_t k = 0; k < 2 && i.n_outputs + k < i.n_operands; k++) i.o[i.n_outputs + k].part = sources.of[k];
  }
  // 16-bit constants in the instruction itself are printed without their sign.
  const bool takes_k = i.name == "s_addk_i32" || i.name == "s_mulk_i32" || i.name == "s_movk_i32" ||
                       (i.name.starts_with("s_cmpk_") && i.name.ends_with("_i32"));
  if (takes_k && i.o[1].kind == OperandKind::constant) {
    i.o[1].bits = static_cast<uint32_t>(static_cast<int16_t>(i.o[1].bits));
  }
  find_forms(i);
  if (!understood || !modifiers_fit(i, entry.accepts)) i.run = nullptr;
  // Where nothing is printed the upper halves of packed instructions come from the sources' upper halves.
  const bool mixes = i.name.starts_with("v_fma_mix");
  if ((entry.accepts & kPacked) != 0 && !has_op_sel_hi && !mixes) i.op_sel_hi = 7;
  return i;
}

// Of 32-bit sources alone; a comparison that writes EXEC is left out, too.
void finish_dpp(Instruction& i) {
  Instruction& plain = i.dpp->plain;
  plain = parse_one(i.text);
  plain.dpp.reset();
  const Operand& source = i.o[i.n_outputs];
  const bool is_modelled = i.run != nullptr && i.kind == Class::vector && i.n_operands > i.n_outputs &&
                           source.kind == OperandKind::vector && source.n == 1 && !i.name.starts_with("v_cmpx");
  plain.o[i.n_outputs].index = kMoved;
  i.run = is_modelled ? run_dpp : nullptr;
  i.from = i.to = FloatForm::none;  // the plain one's
}

bool overlap(const Operand& a, const Operand& b) {
  return a.kind == b.kind && a.index < b.index + b.n && b.index < a.index + a.n;
}

}  // namespace

Instruction parse_instruction(const std::string& text) {
  const size_t dual = text.find(" :: ");
  if (dual == std::string::npos) {
    Instruction i = parse_one(trimmed(text));
    if (i.dpp) finish_dpp(i);
    return i;
  }
  Instruction i = parse_one(trimmed(std::string_view(text).substr(0, dual)));
  i.second = std::make_unique<Instruction>(parse_one(trimmed(std::string_view(text).substr(dual + 4))));
  if (i.second->run == nullptr) i.run = nullptr;
  for (uint32_t k = 0; k < i.second->n_operands; k++) i.second_reads_first |= overlap(i.o[0], i.second->o[k]);
  i.text = text;
  return i;
}

}  // namespace rocmforge::gpu::isa
