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
  std::array<uint32_t, 2 * kHalf> from{};
  each_lane(w, [&](uint32_t l) { from[l] = w.at(i.o[2].index, l); });
  std::array<uint32_t, 2 * kHalf> result{};
  each_lane(w, [&](uint32_t l) {
    const uint32_t lane = (w.at(i.o[1].index, l) + static_cast<uint32_t>(i.offset)) / 4 % w.n_lanes();
    result[l] = from[lane];
  });
  each_lane(w, [&](uint32_t l) { w.at(i.o[0].index, l) = result[l]; });
  w.load_begins(kLds, i.o[0], 1, true);
}

}  // namespace

void add_lane_crossing(Table& t) {
  t["v_mbcnt_lo_u32_b32"] = {v_mbcnt<false>};
  t["v_mbcnt_hi_u32_b32"] = {v_mbcnt<true>};
  t["v_readfirstlane_b32"] = {v_readfirstlane_b32};
  t["v_readlane_b32"] = {v_readlane_b32};
  t["v_writelane_b32"] = {v_writelane_b32};
  t["ds_bpermute_b32"] = {ds_bpermute_b32};
}

}  // namespace rocmforge::gpu::isa
