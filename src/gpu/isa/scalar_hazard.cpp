#include "gpu/isa/scalar_hazard.h"

#include <algorithm>
#include <bitset>
#include <string_view>
#include <vector>

namespace rocmforge::gpu::isa {
namespace {

using Pairs = std::bitset<kNumScalars / 2>;

void add(Pairs& pairs, const Operand& o) {
  if (o.kind != OperandKind::scalar || o.index >= kNull) return;
  for (uint32_t at = o.index; at < uint32_t{o.index} + o.n; at++) pairs.set(at / 2);
}

bool is_vector_unit(const Instruction& i) {
  return i.kind == Class::vector || i.kind == Class::matrix;
}
// Whose destination is a source, too.
bool adds_to_destination(const Instruction& i) {
  static constexpr std::string_view kNames[] = {"s_addk_", "s_mulk_", "s_bitset", "s_fmac_", "s_cmov"};
  return std::ranges::any_of(kNames, [&](std::string_view name) { return i.name.starts_with(name); });
}

Pairs sources_of(const Instruction& i) {
  Pairs pairs;
  for (uint32_t k = adds_to_destination(i) ? 0 : i.n_outputs; k < i.n_operands; k++) add(pairs, i.o[k]);
  if (i.name.starts_with("v_div_fmas")) pairs.set(kVcc / 2);
  if (i.second) pairs |= sources_of(*i.second);
  return pairs;
}

// What is known where an instruction begins.
struct Known {
  Pairs read;     // by the vector unit, on any path
  Pairs written;  // after that by the scalar unit, without a wait since
  bool is_reached = false;

  // Whether it learns something.
  bool join(const Known& other) {
    const Known before = *this;
    read |= other.read;
    written |= other.written;
    is_reached = true;
    return read != before.read || written != before.written || !before.is_reached;
  }
};

Known after(const Instruction& i, Known known) {
  constexpr int32_t kScalarResults = 1;  // of s_wait_alu: 0 there waits
  if (i.name == "s_wait_alu" && (i.offset & kScalarResults) == 0) known.written.reset();
  if (is_vector_unit(i)) known.read |= sources_of(i);
  if (i.kind == Class::scalar) {
    Pairs outputs;
    for (uint32_t k = 0; k < i.n_outputs; k++) add(outputs, i.o[k]);
    known.written |= outputs & known.read;
  }
  return known;
}

}  // namespace

std::optional<uint32_t> find_old_scalar(const Kernel& kernel) {
  const std::vector<Instruction>& code = kernel.instructions;
  if (kernel.target.generation != 12 || code.empty()) return {};
  std::vector<Known> before(code.size());
  before[0].is_reached = true;
  std::vector<uint32_t> todo = {0};
  while (!todo.empty()) {
    const uint32_t at = todo.back();
    todo.pop_back();
    const Instruction& i = code[at];
    const Known known = after(i, before[at]);
    const auto go_on_at = [&](uint32_t next) {
      if (next < code.size() && before[next].join(known)) todo.push_back(next);
    };
    if (i.kind == Class::branch) go_on_at(i.target);
    if (i.name != "s_branch" && i.name != "s_endpgm") go_on_at(at + 1);
  }
  for (uint32_t at = 0; at < code.size(); at++) {
    const Instruction& i = code[at];
    const bool can_read = is_vector_unit(i) || i.kind == Class::scalar;
    if (can_read && (sources_of(i) & before[at].written).any()) return at;
  }
  return {};
}

}  // namespace rocmforge::gpu::isa
