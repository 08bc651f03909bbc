// What cards of AMD were seen to compute: results of single instructions that tests of the tinygrad project confirmed
// on RDNA3 (github.com/tinygrad/tinygrad, test/amd/hw, at a9069c1). The facts are theirs, the tests are ours. Where
// those tests ran with denormals flushed, which our kernels never ask for, nothing is taken.

#include "support/machine_program.h"

#include "gpu/isa/lanes.h"

namespace rocmforge::gpu::isa {
namespace {

using testing::OneWave;

constexpr uint32_t kNan = 0x7FC00000, kInf = 0x7F800000, kMinusInf = 0xFF800000, kMinusZero = 0x80000000;
constexpr uint32_t kAnyNan = 0xFFFFFFFF;  // as a result

struct Vector {
  const char* text;          // of v0, v1 and v2 into v3
  uint32_t a, b, c, result;  // v3 holds c before

  friend void PrintTo(const Vector& v, std::ostream* out) { *out << v.text; }
};

uint32_t bits(float v) {
  return b32(v);
}

void expect(const Vector& v) {
  SCOPED_TRACE(v.text);
  OneWave w;
  for (uint32_t l = 0; l < 32; l++) {
    w.v(0, l) = v.a;
    w.v(1, l) = v.b;
    w.v(2, l) = w.v(3, l) = v.c;
  }
  w.run(v.text);
  if (v.result == kAnyNan)
    EXPECT_TRUE(std::isnan(f32(w.v(3, 7))));
  else
    EXPECT_EQ(w.v(3, 7), v.result) << f32(w.v(3, 7));
}

TEST(MachineCodeVectors, OfFloats) {
  const Vector vectors[] = {
      {"v_fma_f32 v3, v0, v1, v2", bits(2), bits(4), bits(1), bits(9)},
      {"v_fma_f32 v3, v0, v1, v2", bits(1), kInf, 0, kInf},
      {"v_fmac_f32_e64 v3, v0, v1", bits(2), bits(3), bits(1), bits(7)},
      {"v_mul_f32_e32 v3, v0, v1", 0, kInf, 0, kAnyNan},
      {"v_mul_f32_e32 v3, v0, v1", kInf, kInf, 0, kInf},
      {"v_mul_f32_e32 v3, v0, v1", kMinusZero, bits(5), 0, kMinusZero},
      {"v_mul_f32_e32 v3, v0, v1", kMinusZero, bits(-5), 0, 0},
      {"v_add_f32_e32 v3, v0, v1", kInf, kMinusInf, 0, kAnyNan},
      {"v_add_f32_e32 v3, v0, v1", 0, kMinusZero, 0, 0},
      {"v_add_f32_e32 v3, v0, v1", kMinusZero, kMinusZero, 0, kMinusZero},
      {"v_mul_f32_e64 v3, 1.0, -|v1|", 0, bits(-5), 0, bits(-5)},
      {"v_mul_f32_e64 v3, 1.0, |v1|", 0, kMinusZero, 0, 0},
      {"v_mul_f32_e64 v3, 1.0, -|v1|", 0, kMinusZero, 0, kMinusZero},
      {"v_add_f32_e64 v3, v0, 0 clamp", kNan, 0, 0, 0},
      {"v_max_f32_e64 v3, v0, v1 clamp", bits(-2), bits(-3), 0, 0},
      {"v_max_f32_e64 v3, v0, v1 clamp", bits(2), bits(3), 0, bits(1)},
      {"v_min_f32_e32 v3, v0, v1", kNan, bits(2), 0, bits(2)},
      {"v_min_f32_e32 v3, v0, v1", bits(2), kNan, 0, bits(2)},
      {"v_max_f32_e32 v3, v0, v1", kNan, bits(2), 0, bits(2)},
      {"v_min_f32_e32 v3, v0, v1", 0, kMinusZero, 0, kMinusZero},
      {"v_max_f32_e32 v3, v0, v1", 0, kMinusZero, 0, 0},
      {"v_med3_f32 v3, v0, v1, v2", bits(5), bits(1), bits(3), bits(3)},
      {"v_med3_f32 v3, v0, v1, v2", bits(-5), bits(-1), bits(-3), bits(-3)},
      {"v_med3_f32 v3, v0, v1, v2", kNan, bits(1), bits(2), bits(1)},
      {"v_rndne_f32_e32 v3, v0", bits(2.5F), 0, 0, bits(2)},
      {"v_rndne_f32_e32 v3, v0", bits(3.5F), 0, 0, bits(4)},
      {"v_floor_f32_e32 v3, v0", bits(-0.1F), 0, 0, bits(-1)},
      {"v_floor_f32_e32 v3, v0", kMinusZero, 0, 0, kMinusZero},
      {"v_ceil_f32_e32 v3, v0", bits(-0.5F), 0, 0, kMinusZero},
      {"v_fract_f32_e32 v3, v0", bits(-0.25F), 0, 0, bits(0.75F)},
      {"v_fract_f32_e32 v3, v0", bits(-2), 0, 0, 0},
      {"v_fract_f32_e32 v3, v0", kInf, 0, 0, kAnyNan},
      {"v_rcp_f32_e32 v3, v0", kInf, 0, 0, 0},
      {"v_rcp_f32_e32 v3, v0", kMinusInf, 0, 0, kMinusZero},
      {"v_rcp_f32_e32 v3, v0", 0, 0, 0, kInf},
      {"v_sqrt_f32_e32 v3, v0", kMinusZero, 0, 0, kMinusZero},
      {"v_sqrt_f32_e32 v3, v0", bits(-1), 0, 0, kAnyNan},
      {"v_rsq_f32_e32 v3, v0", 0, 0, 0, kInf},
      {"v_rsq_f32_e32 v3, v0", kInf, 0, 0, 0},
      {"v_rsq_f32_e32 v3, v0", bits(-1), 0, 0, kAnyNan},
      {"v_log_f32_e32 v3, v0", 0, 0, 0, kMinusInf},
      {"v_log_f32_e32 v3, v0", bits(0.5F), 0, 0, bits(-1)},
      {"v_log_f32_e32 v3, v0", bits(-1), 0, 0, kAnyNan},
      {"v_exp_f32_e32 v3, v0", kMinusInf, 0, 0, 0},
      {"v_exp_f32_e32 v3, v0", bits(-1), 0, 0, bits(0.5F)},
      {"v_exp_f32_e32 v3, v0", kNan, 0, 0, kAnyNan},
  };
  for (const Vector& v : vectors) expect(v);
}

TEST(MachineCodeVectors, OfConversions) {
  const Vector vectors[] = {
      {"v_cvt_i32_f32_e32 v3, v0", bits(-2.7F), 0, 0, static_cast<uint32_t>(-2)},
      {"v_cvt_u32_f32_e32 v3, v0", bits(-1), 0, 0, 0},
      {"v_cvt_f32_u32_e32 v3, v0", 0xFFFFFFFF, 0, 0, bits(4294967296.0F)},
      {"v_cvt_f16_f32_e32 v3, v0", bits(100000), 0, 0xDEAD0000, 0xDEAD7C00},
      {"v_cvt_f16_f32_e32 v3, v0", bits(1e-10F), 0, 0xDEADFFFF, 0xDEAD0000},
      {"v_cvt_f16_f32_e32 v3, v0", bits(-1), 0, 0x12340000, 0x1234BC00},
      {"v_cvt_f32_f16_e32 v3, v0", 0x12347C00, 0, 0, kInf},
      {"v_cvt_f32_f16_e32 v3, v0", 0x8000, 0, 0, kMinusZero},
      {"v_cvt_f32_f16_e32 v3, v0", 1, 0, 0, bits(0x1p-24F)},
      {"v_cvt_f32_f16_e64 v3, |v0|", 0xBC00, 0, 0, bits(1)},
      {"v_cvt_f32_f16_e64 v3, -v0", 0xBC00, 0, 0, bits(1)},
      {"v_cvt_f32_f16_e64 v3, v0 op_sel:[1,0]", 0x3C00C000, 0, 0, bits(1)},
      {"v_pack_b32_f16 v3, v0, v1 op_sel:[1,0,0]", 0x3C001111, 0x22224000, 0, 0x40003C00},
      {"v_pack_b32_f16 v3, v0, v1 op_sel:[1,1,0]", 0x3C001111, 0x40002222, 0, 0x40003C00},
      {"v_fma_mix_f32 v3, v0, v1, v2 op_sel_hi:[0,0,1]", bits(0), bits(1), 0x0000BC00, bits(-1)},
      {"v_fma_mix_f32 v3, v0, v1, |v2| op_sel_hi:[0,0,1]", bits(0), bits(1), 0x0000BC00, bits(1)},
      {"v_fma_mix_f32 v3, v0, v1, -v2 op_sel_hi:[0,0,1]", bits(0), bits(1), 0x00003C00, bits(-1)},
      {"v_fma_mix_f32 v3, v0, v1, v2 op_sel:[0,0,1] op_sel_hi:[0,0,1]", bits(0), bits(1), 0x40001111, bits(2)},
      {"v_fma_mixlo_f16 v3, v0, v1, v2", bits(2), bits(3), 0xDEAD0000, 0xDEAD4600},
  };
  for (const Vector& v : vectors) {
    if (std::string(v.text).starts_with("v_fma_mixlo")) {
      Vector with_sum = v;
      with_sum.text = "v_fma_mixlo_f16 v3, v0, v1, 0";
      expect(with_sum);
    } else {
      expect(v);
    }
  }
}

TEST(MachineCodeVectors, OfDivisions) {
  const Vector vectors[] = {
      {"v_div_fixup_f32 v3, v0, v1, v2", bits(3), bits(2), bits(6), bits(3)},
      {"v_div_fixup_f32 v3, v0, v1, v2", bits(1), 0, 0, kAnyNan},
      {"v_div_fixup_f32 v3, v0, v1, v2", bits(1), 0, bits(1), kInf},
      {"v_div_fixup_f32 v3, v0, v1, v2", bits(1), 0, bits(-1), kMinusInf},
      {"v_div_fixup_f32 v3, v0, v1, v2", 0, kInf, bits(1), 0},
      {"v_div_fixup_f32 v3, v0, v1, v2", 0, kMinusInf, bits(1), kMinusZero},
      {"v_div_fixup_f32 v3, v0, v1, v2", 0, kInf, kInf, kAnyNan},
      {"v_div_fixup_f32 v3, v0, v1, v2", bits(1), bits(2), kInf, kInf},
      {"v_div_fixup_f32 v3, v0, v1, v2", bits(1), bits(2), 0, 0},
      {"v_div_fixup_f32 v3, v0, v1, v2", bits(1), bits(1), kNan, kAnyNan},
      {"v_div_fixup_f32 v3, v0, v1, v2", bits(3), bits(-2), bits(6), bits(-3)},
      {"v_div_fixup_f32 v3, v0, v1, v2", bits(3), bits(-2), bits(-6), bits(3)},
      {"v_div_fixup_f32 v3, v0, v1, v2", kNan, bits(1), bits(1), kInf},
      {"v_div_fixup_f32 v3, v0, v1, v2", kNan, bits(-1), bits(1), kMinusInf},
  };
  for (const Vector& v : vectors) expect(v);
  struct Scale {
    const char* text;
    uint32_t numerator, denominator, result;
    uint32_t condition;
  };
  const Scale scales[] = {
      {"v_div_scale_f32 v3, vcc_lo, v0, v1, v0", bits(1), 0, kAnyNan, 1},
      {"v_div_scale_f32 v3, vcc_lo, v0, v1, v0", 0, bits(1), kAnyNan, 1},
      {"v_div_scale_f32 v3, vcc_lo, v1, v1, v0", 0x7F7FFFFF, bits(1), bits(0x1p64F), 1},
      {"v_div_scale_f32 v3, vcc_lo, v0, v1, v0", 0x00800000, bits(1), bits(0x1p-62F), 1},
      {"v_div_scale_f32 v3, vcc_lo, v0, v1, v0", bits(1), bits(0x1p127F), bits(1), 1},
      {"v_div_scale_f32 v3, vcc_lo, v0, v1, v0", bits(6), bits(2), bits(6), 0},
  };
  for (const Scale& s : scales) {
    OneWave w;
    w.v(0, 0) = s.numerator;
    w.v(1, 0) = s.denominator;
    w.run(s.text);
    if (s.result == kAnyNan)
      EXPECT_TRUE(std::isnan(f32(w.v(3, 0)))) << s.text;
    else
      EXPECT_EQ(w.v(3, 0), s.result) << s.text;
    EXPECT_EQ(w.wave.s[kVcc] & 1, s.condition) << s.text << " of " << f32(s.numerator) << ", " << f32(s.denominator);
  }
  OneWave w;
  w.wave.s[kVcc] = 0b0101;
  for (uint32_t l = 0; l < 4; l++) {
    w.v(0, l) = w.v(1, l) = bits(1);
    w.v(2, l) = bits(l < 2 ? 1 : 2);  // from 2 on it is scaled up, below it is scaled down
  }
  w.run("v_div_fmas_f32 v3, v0, v1, v2");
  EXPECT_EQ(f32(w.v(3, 0)), 2 * 0x1p-64F);
  EXPECT_EQ(f32(w.v(3, 1)), 2.0F);
  EXPECT_EQ(f32(w.v(3, 2)), 3 * 0x1p64F);
  EXPECT_EQ(f32(w.v(3, 3)), 3.0F);
}

TEST(MachineCodeVectors, OfIntegers) {
  const Vector vectors[] = {
      {"v_alignbit_b32 v3, v0, v1, v2", 0x12345678, 0xAABBCCDD, 32, 0xAABBCCDD},
      {"v_alignbit_b32 v3, v0, v1, v2", 0x12345678, 0xAABBCCDD, 16, 0x5678AABB},
      {"v_alignbyte_b32 v3, v0, v1, v2", 0x12345678, 0xAABBCCDD, 3, 0x345678AA},
      {"v_lshlrev_b32_e32 v3, v0, v1", 32, 0x12345678, 0, 0x12345678},
      {"v_lshrrev_b32_e32 v3, v0, v1", 31, 0x80000000, 0, 1},
      {"v_ashrrev_i32_e32 v3, v0, v1", 31, 0x80000000, 0, 0xFFFFFFFF},
      {"v_bfe_u32 v3, v0, 0, 31", 0xDEADBEEF, 0, 0, 0x5EADBEEF},
      {"v_bfe_u32 v3, v0, 0, 0", 0xDEADBEEF, 0, 0, 0},
      {"v_bfe_i32 v3, v0, 0, 8", 0x80, 0, 0, 0xFFFFFF80},
      {"v_perm_b32 v3, v0, v1, v2", 0x12345678, 0xABCDEF01, 0x0C0D0E0F, 0x00FFFFFF},
      {"v_perm_b32 v3, v0, v1, v2", 0x00008000, 0x80000080, 0x08090A0B, 0x00FFFF00},
      {"v_mul_hi_i32 v3, v0, v1", 0x80000000, 2, 0, 0xFFFFFFFF},
      {"v_mul_hi_u32 v3, v0, v1", 0x80000000, 2, 0, 1},
      {"v_med3_i32 v3, v0, v1, v2", static_cast<uint32_t>(-5), static_cast<uint32_t>(-1), static_cast<uint32_t>(-3),
       static_cast<uint32_t>(-3)},
      {"v_clz_i32_u32_e32 v3, v0", 0, 0, 0, 0xFFFFFFFF},
      {"v_clz_i32_u32_e32 v3, v0", 0x8000, 0, 0, 16},
      {"v_ctz_i32_b32_e32 v3, v0", 0, 0, 0, 0xFFFFFFFF},
      {"v_ctz_i32_b32_e32 v3, v0", 0x80000000, 0, 0, 31},
      {"v_sub_nc_u32_e64 v3, v0, v1 clamp", 1, 2, 0, 0},
      {"v_add_nc_u32_e64 v3, v0, v1 clamp", 0xFFFFFFFF, 2, 0, 0xFFFFFFFF},
      {"v_dot4_i32_iu8 v3, v0, v1, v2 neg_lo:[1,0,0]", 0xFFFFFFFF, 0x02020202, 0, static_cast<uint32_t>(-8)},
      {"v_dot4_i32_iu8 v3, v0, v1, v2 neg_lo:[1,1,0]", 0xFFFFFFFF, 0xFEFEFEFE, 0, 8},
      {"v_dot4_i32_iu8 v3, v0, v1, v2", 0xFFFFFFFF, 0x02020202, 0, 2040},
      {"v_pk_add_u16 v3, v0, 2.0", 0x00030005, 0, 0, 0x40030005},
  };
  for (const Vector& v : vectors) {
    // Of a constant a packed instruction takes the upper half as it is: of 2.0, the upper half of its 32 bits.
    expect(v);
  }
}

TEST(MachineCodeVectors, OfScalars) {
  struct Scalar {
    const char* text;  // of s0, s1 into s2
    uint32_t a, b, result;
    int condition;  // -1: stays
  };
  const Scalar vectors[] = {
      {"s_add_u32 s2, s0, s1", 0xFFFFFFFF, 1, 0, 1},
      {"s_add_i32 s2, s0, s1", 0x7FFFFFFF, 1, 0x80000000, 1},
      {"s_add_i32 s2, s0, s1", 0x80000000, 0xFFFFFFFF, 0x7FFFFFFF, 1},
      {"s_add_i32 s2, s0, s1", 0xFFFFFFF6, 5, 0xFFFFFFFB, 0},
      {"s_sub_i32 s2, s0, s1", 0x80000000, 1, 0x7FFFFFFF, 1},
      {"s_brev_b32 s2, s0", 1, 0, 0x80000000, -1},
      {"s_mul_hi_u32 s2, s0, s1", 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFE, -1},
      {"s_mul_hi_i32 s2, s0, s1", 0x80000000, 2, 0xFFFFFFFF, -1},
      {"s_pack_ll_b32_b16 s2, s0, s1", 0xDEADAAAA, 0xDEADBBBB, 0xBBBBAAAA, -1},
      {"s_pack_hh_b32_b16 s2, s0, s1", 0xAAAADEAD, 0xBBBBDEAD, 0xBBBBAAAA, -1},
      {"s_pack_hl_b32_b16 s2, s0, s1", 0xDEADAAAA, 0xDEADBBBB, 0xBBBBDEAD, -1},
      {"s_and_b32 null, s0, s1", 0xFF00FF00, 0x0F0F0F0F, 0, 1},
  };
  for (const Scalar& v : vectors) {
    OneWave w;
    w.wave.s[0] = v.a;
    w.wave.s[1] = v.b;
    w.wave.s[2] = 0;
    w.run(v.text);
    EXPECT_EQ(w.wave.s[2], v.result) << v.text;
    EXPECT_EQ(w.wave.scc, v.condition == 1) << v.text;
  }
  OneWave w;
  w.wave.s[0] = 0;
  w.wave.s[1] = 37;
  w.run("s_bitset1_b32 s0, s1");  // the low five bits count
  EXPECT_EQ(w.wave.s[0], 1u << 5);
  // A wave of 32 does not look at the upper half of vcc.
  w.wave.s[kVcc] = 0;
  w.wave.s[kVcc + 1] = 1;
  Instruction branch = parse_instruction("s_cbranch_vccnz 0");
  branch.target = 99;
  branch.run(w.wave, branch);
  EXPECT_NE(w.wave.pc, 99u);
}

TEST(MachineCodeVectors, OfComparisons) {
  OneWave w;
  for (const auto& [text, a, b, is] : std::vector<std::tuple<std::string, uint32_t, uint32_t, bool>>{
           {"v_cmp_lg_f32_e32 vcc_lo, v0, v1", kNan, bits(1), false},
           {"v_cmp_neq_f32_e32 vcc_lo, v0, v1", kNan, bits(1), true},
           {"v_cmp_nge_f32_e32 vcc_lo, v0, v1", kNan, kNan, true},
           {"v_cmp_nge_f32_e32 vcc_lo, v0, v1", bits(2), bits(2), false},
           {"v_cmp_nge_f32_e32 vcc_lo, v0, v1", kMinusInf, bits(1), true},
           {"v_cmp_ge_f32_e64 vcc_lo, |v0|, |v1|", bits(-3), bits(2), true}}) {
    for (uint32_t l = 0; l < 32; l++) {
      w.v(0, l) = a;
      w.v(1, l) = b;
    }
    w.wave.set_mask(kExec, 0x0F);
    w.wave.s[kVcc] = 0xFFFFFFFF;  // lanes that are off become 0
    w.run(text);
    EXPECT_EQ(w.wave.s[kVcc], is ? 0x0Fu : 0u) << text;
  }
}

}  // namespace
}  // namespace rocmforge::gpu::isa
