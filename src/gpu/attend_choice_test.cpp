// Which kernel computes attention, without a device.

#include "gpu/attend_choice.h"

#include <gtest/gtest.h>

namespace rocmforge::gpu {
namespace {

constexpr AttendDevice kHopper{true, true}, kAmpere{false, true}, kOther{};

AttendQuery query(uint32_t n_rows, uint32_t most_rows, uint32_t head_size = 128) {
  AttendQuery out{};
  out.args.n_heads = 32;
  out.args.n_kv_heads = 8;
  out.args.head_size = out.args.value_size = head_size;
  out.n_rows = n_rows;
  out.most_rows = most_rows;
  out.longest = 1000;
  out.max_mixed_rows = 64;
  return out;
}

TEST(AttendChoice, RowsOfOneSequenceAreComputedTogether) {
  const AttendQuery prompt = query(512, 512);
  EXPECT_EQ(choose_attend_together(kHopper, prompt)->kernel, FixedKernel::attend_hopper_128);
  EXPECT_EQ(choose_attend_together(kAmpere, prompt)->kernel, FixedKernel::attend_tiles_128);
  EXPECT_EQ(choose_attend_together(kOther, query(512, 512, 64))->kernel, FixedKernel::attend_tiles_64);
  // Few rows, a recorded pass, short runs, floats in the cache, large heads.
  EXPECT_FALSE(choose_attend_together(kHopper, query(64, 64)));
  EXPECT_FALSE(choose_attend_together(kHopper, query(128, 0)));
  EXPECT_FALSE(choose_attend_together(kHopper, query(512, 15)));
  EXPECT_FALSE(choose_attend_together(kHopper, query(512, 512, 256)));
  AttendQuery floats = prompt;
  floats.caches_halves = false;
  EXPECT_FALSE(choose_attend_together(kHopper, floats));
}

TEST(AttendChoice, WithoutFragmentsRowsGoOneByOne) {
  AttendDevice device = kOther;
  EXPECT_TRUE(choose_attend_together(device, query(512, 512)));
  device.has_fragments = false;
  EXPECT_FALSE(choose_attend_together(device, query(512, 512)));
  EXPECT_EQ(choose_attend_by_row(device, query(512, 512)).kernel, FixedKernel::attend_f16_128);
}

TEST(AttendChoice, HoppersTilesLeaveAlibiChunksAndCapsToTheOthers) {
  AttendQuery alibi = query(512, 512), chunks = alibi, capped = alibi;
  alibi.args.alibi_bias = 8;
  chunks.args.chunk = 999;
  capped.args.softcap = 50;
  EXPECT_EQ(choose_attend_together(kHopper, alibi)->kernel, FixedKernel::attend_tiles_alibi_128);
  EXPECT_EQ(choose_attend_together(kHopper, chunks)->kernel, FixedKernel::attend_tiles_128);
  EXPECT_EQ(choose_attend_together(kHopper, capped)->kernel, FixedKernel::attend_tiles_128);
  chunks.args.chunk = 1000;  // none ends within a sequence
  EXPECT_EQ(choose_attend_together(kHopper, chunks)->kernel, FixedKernel::attend_hopper_128);
}

TEST(AttendChoice, RowByRowEveryCardHasAKernel) {
  EXPECT_EQ(choose_attend_by_row(kHopper, query(1, 1)).kernel, FixedKernel::attend_matrix_128);
  EXPECT_EQ(choose_attend_by_row(kHopper, query(64, 1)).kernel, FixedKernel::attend_rows_128);
  EXPECT_EQ(choose_attend_by_row(kAmpere, query(64, 1)).kernel, FixedKernel::attend_matrix_128);
  EXPECT_EQ(choose_attend_by_row(kOther, query(64, 1)).kernel, FixedKernel::attend_f16_128);
  EXPECT_EQ(choose_attend_by_row(kOther, query(64, 1, 256)).kernel, FixedKernel::attend_f16_256);
  AttendQuery other = query(64, 1);
  other.caches_halves = false;
  EXPECT_EQ(choose_attend_by_row(kHopper, other).kernel, FixedKernel::attend_f32_128);
  other.args.value_size = 64;
  EXPECT_EQ(choose_attend_by_row(kHopper, other).kernel, FixedKernel::attend_any_f32_128);
  EXPECT_EQ(choose_attend_by_row(kHopper, query(64, 1, 576)).kernel, FixedKernel::attend_any_f16_576);
}

}  // namespace
}  // namespace rocmforge::gpu
