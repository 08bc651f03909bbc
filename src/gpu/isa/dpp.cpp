// Vector instructions whose first source is taken of other lanes.

#include <utility>

#include "gpu/isa/lanes.h"

namespace rocmforge::gpu::isa {

Instruction::Instruction() = default;
Instruction::~Instruction() = default;
Instruction::Instruction(Instruction&&) noexcept = default;
Instruction& Instruction::operator=(Instruction&&) noexcept = default;

std::optional<uint32_t> source_of(const Dpp& dpp, uint32_t lane, uint32_t n) {
  constexpr uint32_t kRow = 16;
  const uint32_t place = lane % kRow, row = lane - place;
  const auto valid = [](bool is, uint32_t source) { return is ? std::optional(source) : std::nullopt; };
  switch (dpp.move) {
    case Dpp::Move::quad:
      return lane / 4 * 4 + dpp.select[lane % 4];
    case Dpp::Move::eight:
      return lane / 8 * 8 + dpp.select[lane % 8];
    case Dpp::Move::shift_left:
      return valid(place + dpp.amount < kRow, lane + dpp.amount);
    case Dpp::Move::shift_right:
      return valid(place >= dpp.amount, lane - dpp.amount);
    case Dpp::Move::rotate_right:
      return row + (place + kRow - dpp.amount) % kRow;
    case Dpp::Move::wave_shift_left:
      return valid(lane + 1 < n, lane + 1);
    case Dpp::Move::wave_shift_right:
      return valid(lane != 0, lane - 1);
    case Dpp::Move::wave_rotate_left:
      return (lane + 1) % n;
    case Dpp::Move::wave_rotate_right:
      return (lane + n - 1) % n;
    case Dpp::Move::mirror:
      return row + kRow - 1 - place;
    case Dpp::Move::half_mirror:
      return lane / 8 * 8 + 7 - lane % 8;
    case Dpp::Move::broadcast_15:
      return valid(row != 0, row - 1);
    case Dpp::Move::broadcast_31:
      return valid(lane >= kHalf, kHalf - 1);
    case Dpp::Move::share:
      return row + dpp.amount;
    case Dpp::Move::exclusive_or:
      return row + (place ^ dpp.amount);
  }
  return std::nullopt;
}

void run_dpp(Wave& w, const Instruction& i) {
  const Dpp& dpp = *i.dpp;
  const uint32_t from = i.o[i.n_outputs].index, n = w.n_lanes();
  std::array<Lanes, 2> moved{}, before;
  uint64_t written = 0;
  for (uint32_t lane = 0; lane < n; lane++) {
    const auto source = source_of(dpp, lane, n);
    const bool has_source = source && (dpp.fetches_inactive || w.is_active(*source));
    if (has_source) moved[lane / kHalf][lane % kHalf] = w.at(from, *source);
    const bool is_meant = (dpp.rows >> lane / 16 & 1) != 0 && (dpp.banks >> lane % 16 / 4 & 1) != 0;
    if (is_meant && (has_source || dpp.zeroes)) written |= uint64_t{1} << lane;
  }
  for (uint32_t h = 0; h < w.n_halves; h++) {
    before[h] = std::exchange(w.v[h * w.n_registers + kMoved], moved[h]);
  }
  const uint64_t exec = w.exec();
  w.set_mask(kExec, exec & written);
  run_one(w, dpp.plain);
  w.set_mask(kExec, exec);
  for (uint32_t h = 0; h < w.n_halves; h++) w.v[h * w.n_registers + kMoved] = before[h];
}

}  // namespace rocmforge::gpu::isa
