// Vector instructions that look at other lanes, or give a scalar.

#include "gpu/isa/lanes.h"

namespace rocmforge::gpu::isa {
namespace {

// Bits of the mask that belong to lanes below: kHigh looks at lanes 32 .. 63.
template <bool kHigh>
void v_mbcnt(Wave& w, const Instruction& i) {
  for (uint32_t h = 0; h < w.n_halves; h++) {
    Lanes ra, rb;
    const uint32_t *a = w.lanes(i.o[1], h, ra), *b = w.lanes(i.o[2], h, rb);
    put(w, h, w.reg(i.o[0].index, h), [&](uint32_t l) {
      const uint32_t lane = h * kHalf + l;
      const uint64_t below = (uint64_t{1} << lane) - 1;
      const auto mine = static_cast<uint32_t>(kHigh ? below >> 32 : below);
      return b[l] + static_cast<uint32_t>(std::popcount(a[l] & mine));
    });
  }
}
void v_readfirstlane_b32(Wave& w, const Instruction& i) {
  const uint32_t lane = w.exec() != 0 ? static_cast<uint32_t>(std::countr_zero(w.exec())) : 0;
  w.set(i.o[0], i.o[1].kind == OperandKind::vector ? w.at(i.o[1].index, lane) : w.scalar(i.o[1]));
}
void v_readlane_b32(Wave& w, const Instruction& i) {
  w.set(i.o[0], w.at(i.o[1].index, w.scalar(i.o[2]) % w.n_lanes()));
}
void v_writelane_b32(Wave& w, const Instruction& i) {
  w.at(i.o[0].index, w.scalar(i.o[2]) % w.n_lanes()) = w.scalar(i.o[1]);
}

// Addresses are in bytes and wrap at the wave; lanes outside of EXEC give 0.
void ds_bpermute_b32(Wave& w, const Instruction& i) {
  std::array<uint32_t, 2 * kHalf> from;
  const uint32_t last = w.n_lanes() - 1, offset = static_cast<uint32_t>(i.offset);
  for (uint32_t h = 0; h < w.n_halves; h++) {
    const uint32_t *values = w.reg(i.o[2].index, h), exec = w.exec(h);
    for (uint32_t l = 0; l < kHalf; l++) from[h * kHalf + l] = (exec >> l & 1) != 0 ? values[l] : 0;
  }
  for (uint32_t h = 0; h < w.n_halves; h++) {
    const uint32_t* address = w.reg(i.o[1].index, h);
    put(w, h, w.reg(i.o[0].index, h), [&](uint32_t l) { return from[(address[l] + offset) / 4 & last]; });
  }
  w.load_begins(kLds, i.o[0], 1, true);
}
// To each of the active lanes, in lane order; lanes that none sends to get 0.
void ds_permute_b32(Wave& w, const Instruction& i) {
  std::array<uint32_t, 2 * kHalf> result{};
  each_lane(w, [&](uint32_t l) {
    const uint32_t to = (w.at(i.o[1].index, l) + static_cast<uint32_t>(i.offset)) / 4 % w.n_lanes();
    result[to] = w.at(i.o[2].index, l);
  });
  each_lane(w, [&](uint32_t l) { w.at(i.o[0].index, l) = result[l]; });
  w.load_begins(kLds, i.o[0], 1, true);
}

// Each lane takes the lane of its row, or of the row beside, that four bits of two scalars name. op_sel: lanes that are
// not active may be taken from; lanes without a source take 0, else keep what they hold.
template <bool kOtherRow>
void v_permlane16(Wave& w, const Instruction& i) {
  std::array<uint32_t, 2 * kHalf> from{};
  for (uint32_t l = 0; l < w.n_lanes(); l++) from[l] = w.at(i.o[1].index, l);
  const bool fetches_inactive = (i.op_sel & 1) != 0, zeroes = (i.op_sel & 2) != 0;
  const uint64_t select = w.scalar(i.o[2]) | uint64_t{w.scalar(i.o[3])} << 32;
  each_lane(w, [&](uint32_t l) {
    const uint32_t row = l / 16 * 16 ^ (kOtherRow ? 16 : 0);
    const uint32_t source = row + static_cast<uint32_t>(select >> 4 * (l % 16) & 15);
    if (fetches_inactive || w.is_active(source))
      w.at(i.o[0].index, l) = from[source];
    else if (zeroes)
      w.at(i.o[0].index, l) = 0;
  });
}

}  // namespace

void add_lane_crossing(Table& t) {
  t["v_mbcnt_lo_u32_b32"] = {v_mbcnt<false>};
  t["v_mbcnt_hi_u32_b32"] = {v_mbcnt<true>};
  t["v_readfirstlane_b32"] = {v_readfirstlane_b32};
  t["v_readlane_b32"] = {v_readlane_b32};
  t["v_writelane_b32"] = {v_writelane_b32};
  t["ds_bpermute_b32"] = {ds_bpermute_b32};
  t["ds_permute_b32"] = {ds_permute_b32};
  t["v_permlane16_b32"] = {v_permlane16<false>, kHalves};
  t["v_permlanex16_b32"] = {v_permlane16<true>, kHalves};
}

}  // namespace rocmforge::gpu::isa
