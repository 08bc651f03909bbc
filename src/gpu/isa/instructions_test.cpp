// What instructions do, against the arithmetic of the host: for all values where there are few, else for random ones
// and those at the edges.

#include <bit>
#include <cmath>
#include <limits>

#include "gpu/isa/lanes.h"
#include "support/machine_program.h"
#include "tensor/half.h"

namespace rocmforge::gpu::isa {
namespace {

using testing::OneWave;

// Any bits: an edge value as often as a random one.
uint32_t any_bits(std::mt19937_64& rng) {
  static constexpr uint32_t kEdges[] = {0,          1,          2,          31,         32,         0x7FFFFFFF,
                                        0x80000000, 0xFFFFFFFF, 0xFFFF,     0x10000,    0x3F800000, 0xBF800000,
                                        0x7F800000, 0xFF800000, 0x7FC00000, 0x00800000, 0x007FFFFF, 0x7F7FFFFF};
  return rng() % 4 == 0 ? kEdges[rng() % std::size(kEdges)] : static_cast<uint32_t>(rng());
}
// Any f32 that is no NaN, often denormal or near the ends of the range.
float any_float(std::mt19937_64& rng) {
  for (;;) {
    const float v = f32(any_bits(rng));
    if (!std::isnan(v)) return v;
  }
}

// f(a, b) for v0 and v1 of many waves; the result is in v2.
template <class F>
void expect_words(const std::string& text, F f, const std::string& target = "gfx1100") {
  SCOPED_TRACE(text);
  auto rng = rocmforge::testing::seeded_rng();
  OneWave w(target);
  for (int round = 0; round < 200; round++) {
    for (uint32_t l = 0; l < w.wave.n_lanes(); l++) {
      w.v(0, l) = any_bits(rng);
      w.v(1, l) = any_bits(rng);
      w.v(2, l) = any_bits(rng);
      w.v(3, l) = w.v(2, l);
    }
    w.run(text);
    for (uint32_t l = 0; l < w.wave.n_lanes(); l++) {
      ASSERT_EQ(w.v(2, l), f(w.v(0, l), w.v(1, l), w.v(3, l))) << std::hex << w.v(0, l) << " " << w.v(1, l);
    }
  }
}

TEST(MachineCodeInstructions, IntegersAreTheHosts) {
  using U = uint32_t;
  expect_words("v_add_nc_u32_e32 v2, v0, v1", [](U a, U b, U) { return a + b; });
  expect_words("v_subrev_nc_u32_e32 v2, v0, v1", [](U a, U b, U) { return b - a; });
  const auto sum = [](U a, U b, U) { return a > 0xFFFFFFFF - b ? 0xFFFFFFFF : a + b; };
  expect_words("v_add_nc_u32_e64 v2, v0, v1 clamp", sum);
  expect_words("v_add_u32_e64 v2, v0, v1 clamp", sum);
  for (const char* text :
       {"v_sub_nc_u32_e64 v2, v0, v1 clamp", "v_sub_u32_e64 v2, v0, v1 clamp", "v_subrev_u32_e64 v2, v1, v0 clamp"}) {
    expect_words(text, [](U a, U b, U) { return a < b ? 0 : a - b; });
  }
  expect_words("v_mul_hi_u32 v2, v0, v1", [](U a, U b, U) { return static_cast<U>(uint64_t{a} * b >> 32); });
  expect_words("v_ashrrev_i32_e32 v2, v0, v1",
               [](U a, U b, U) { return static_cast<U>(static_cast<int32_t>(b) >> (a % 32)); });
  expect_words("v_lshl_add_u32 v2, v0, 5, v1", [](U a, U b, U) { return a * 32 + b; });
  expect_words("v_bfi_b32 v2, v0, v1, -1", [](U a, U b, U) { return b | ~a; });
  expect_words("v_alignbit_b32 v2, v0, v1, 8", [](U a, U b, U) { return a << 24 | b >> 8; });
  expect_words("v_perm_b32 v2, v0, v1, 0x0c0d0207",
               [](U a, U b, U) { return 0x00FF0000u | (b >> 16 & 255) << 8 | a >> 24; });
  expect_words("v_max_i32_e32 v2, v0, v1",
               [](U a, U b, U) { return static_cast<U>(std::max(static_cast<int32_t>(a), static_cast<int32_t>(b))); });
  expect_words("v_bfe_i32 v2, v0, 4, 8", [](U a, U, U) { return static_cast<U>(static_cast<int8_t>(a >> 4)); });
  expect_words("v_bcnt_u32_b32 v2, v0, v1", [](U a, U b, U) { return static_cast<U>(std::popcount(a)) + b; });
  expect_words("v_mul_u32_u24_e32 v2, v0, v1", [](U a, U b, U) { return (a & 0xFFFFFF) * (b & 0xFFFFFF); });
  expect_words("v_cvt_f32_u32_e32 v2, v0", [](U a, U, U) { return b32(static_cast<float>(a)); });
}

TEST(MachineCodeInstructions, HalvesOfRegistersStayAsTheTargetHasIt) {
  using U = uint32_t;
  expect_words("v_mul_lo_u16 v2, v0, v1", [](U a, U b, U old) { return (old & 0xFFFF0000) | (a * b & 0xFFFF); });
  expect_words("v_mul_lo_u16_e32 v2, v0, v1", [](U a, U b, U) { return a * b & 0xFFFF; }, "gfx942");
  expect_words("v_pk_add_u16 v2, v0, v1",
               [](U a, U b, U) { return ((a + b) & 0xFFFF) | ((a >> 16) + (b >> 16)) << 16; });
  expect_words("v_pk_add_u16 v2, v0, v1 op_sel:[1,0] op_sel_hi:[0,1]",
               [](U a, U b, U) { return (((a >> 16) + b) & 0xFFFF) | (a + (b >> 16)) << 16; });
}

TEST(MachineCodeInstructions, HalvesAreAddedAndMultipliedTwoAtATime) {
  using U = uint32_t;
  const auto halves = [](float low, float high) { return f32_to_f16(low) | f32_to_f16(high) << 16; };
  // -1184 is 0xe4a0.
  OneWave w;
  for (U l = 0; l < 32; l++) {
    w.v(0, l) = halves(1152.0f + static_cast<float>(l), 1184.0f);
    w.v(1, l) = halves(0.5f, -2.0f);
    w.v(2, l) = halves(0.25f, 3.0f);
  }
  w.run("v_pk_add_f16 v3, 0xe4a0, v0 op_sel_hi:[0,1]");
  w.run("v_pk_fma_f16 v4, v3, v1, v2");
  w.run("v_pk_fma_f16 v5, v1, v2, v2 neg_lo:[1,0,0] op_sel_hi:[0,1,1]");
  for (U l = 0; l < 32; l++) {
    const float first = static_cast<float>(l) - 32.0f;
    EXPECT_EQ(w.v(3, l), halves(first, 0.0f));
    EXPECT_EQ(w.v(4, l), halves(first * 0.5f + 0.25f, 3.0f));
    EXPECT_EQ(w.v(5, l), halves(0.125f, 4.5f));
  }
}

TEST(MachineCodeInstructions, TwoProductsOfHalvesAreAddedToTheDestination) {
  const auto halves = [](float low, float high) { return f32_to_f16(low) | f32_to_f16(high) << 16; };
  OneWave w("gfx1030");
  for (uint32_t l = 0; l < 32; l++) {
    w.v(0, l) = halves(static_cast<float>(l), -3.0f);
    w.v(1, l) = halves(0.5f, 1024.0f);
    w.v(2, l) = b32(0x1p-10f);
  }
  w.run("v_dot2c_f32_f16_e32 v2, v0, v1");
  for (uint32_t l = 0; l < 32; l++) {
    EXPECT_EQ(w.v(2, l), b32(0x1p-10f + 0.5f * static_cast<float>(l) - 3072.0f));
  }
}

TEST(MachineCodeInstructions, SdwaTakesPartsOfSources) {
  using U = uint32_t;
  expect_words(
      "v_add_u32_sdwa v2, v0, v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_2 src1_sel:WORD_1",
      [](U a, U b, U) { return (a >> 16 & 255) + (b >> 16); }, "gfx942");
  expect_words(
      "v_cvt_f32_i32_sdwa v2, sext(v0) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1",
      [](U a, U, U) { return b32(static_cast<int8_t>(a >> 8)); }, "gfx942");
}

TEST(MachineCodeInstructions, FourProductsOfBytesAreSummed) {
  const auto sum = [](uint32_t a, uint32_t b, uint32_t c) {
    for (int k = 0; k < 32; k += 8)
      c += static_cast<uint32_t>(static_cast<int8_t>(a >> k) * static_cast<int8_t>(b >> k));
    return c;
  };
  expect_words("v_dot4_i32_iu8 v2, v0, v1, v2 neg_lo:[1,1,0]", sum);
  expect_words("v_dot4c_i32_i8_e32 v2, v0, v1", sum, "gfx942");
  expect_words("v_dot4_i32_iu8 v2, v0, v1, v2 neg_lo:[1,0,0]", [](uint32_t a, uint32_t b, uint32_t c) {
    for (int k = 0; k < 32; k += 8)
      c += static_cast<uint32_t>(static_cast<int8_t>(a >> k) * static_cast<uint8_t>(b >> k));
    return c;
  });
}

TEST(MachineCodeInstructions, CarriesMakeSumsOf64Bits) {
  auto rng = rocmforge::testing::seeded_rng();
  for (const std::string target : {"gfx1100", "gfx942"}) {
    OneWave w(target);
    const bool wide = target == "gfx942";
    const std::string vcc = wide ? "vcc" : "vcc_lo";
    for (int round = 0; round < 200; round++) {
      for (uint32_t l = 0; l < w.wave.n_lanes(); l++) {
        for (uint32_t r = 0; r < 4; r++) w.v(r, l) = any_bits(rng);
      }
      w.run((wide ? "v_add_co_u32_e32 v4, " : "v_add_co_u32 v4, ") + vcc + ", v0, v2");
      w.run((wide ? "v_addc_co_u32_e32 v5, " : "v_add_co_ci_u32_e32 v5, ") + vcc + ", v1, v3, " + vcc);
      w.run((wide ? "v_sub_co_u32_e32 v6, " : "v_sub_co_u32 v6, ") + vcc + ", v0, v2");
      w.run((wide ? "v_subb_co_u32_e32 v7, " : "v_sub_co_ci_u32_e32 v7, ") + vcc + ", v1, v3, " + vcc);
      w.run("v_mad_u64_u32 v[8:9], s[4:5], v0, v1, v[2:3]");
      for (uint32_t l = 0; l < w.wave.n_lanes(); l++) {
        ASSERT_EQ(w.get64(4, l), w.get64(0, l) + w.get64(2, l));
        ASSERT_EQ(w.get64(6, l), w.get64(0, l) - w.get64(2, l));
        ASSERT_EQ(w.get64(8, l), uint64_t{w.v(0, l)} * w.v(1, l) + w.get64(2, l));
      }
    }
  }
}

TEST(MachineCodeInstructions, HalvesAreConvertedForAllValues) {
  OneWave w;
  for (uint32_t first = 0; first < 0x10000; first += 32) {
    for (uint32_t l = 0; l < 32; l++) w.v(0, l) = (first + l) | 0xABCD0000u;
    w.run("v_cvt_f32_f16_e32 v1, v0");
    w.run("v_cvt_f16_f32_e32 v2, v1");
    for (uint32_t l = 0; l < 32; l++) {
      const float expected = to_float(F16{static_cast<uint16_t>(first + l)});
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(f32(w.v(1, l))));
      } else {
        ASSERT_EQ(w.v(1, l), b32(expected));
        ASSERT_EQ(w.v(2, l) & 0xFFFF, first + l);
      }
    }
  }
}

TEST(MachineCodeInstructions, ComparisonsOfFloatsKnowNan) {
  auto rng = rocmforge::testing::seeded_rng();
  OneWave w;
  const std::pair<const char*, bool (*)(float, float)> kAll[] = {
      {"lt", [](float a, float b) { return a < b; }},          {"eq", [](float a, float b) { return a == b; }},
      {"le", [](float a, float b) { return a <= b; }},         {"gt", [](float a, float b) { return a > b; }},
      {"ge", [](float a, float b) { return a >= b; }},         {"nlt", [](float a, float b) { return !(a < b); }},
      {"neq", [](float a, float b) { return !(a == b); }},     {"ngt", [](float a, float b) { return !(a > b); }},
      {"u", [](float a, float b) { return a != a || b != b; }}};
  for (const auto& [name, is] : kAll) {
    for (int round = 0; round < 50; round++) {
      for (uint32_t l = 0; l < 32; l++) {
        w.v(0, l) = any_bits(rng);
        w.v(1, l) = any_bits(rng);
      }
      w.wave.set_mask(kExec, rng());
      w.run(std::string("v_cmp_") + name + "_f32_e64 s3, v0, |v1|");
      for (uint32_t l = 0; l < 32; l++) {
        const bool expected = w.wave.is_active(l) && is(f32(w.v(0, l)), std::fabs(f32(w.v(1, l))));
        ASSERT_EQ(w.wave.s[3] >> l & 1, expected ? 1u : 0u) << name;
      }
    }
  }
}

// Quotients by the sequence that clang emits are the host's, bit for bit.
TEST(MachineCodeInstructions, DivisionOfFloatsIsIeee) {
  auto rng = rocmforge::testing::seeded_rng();
  OneWave w;
  for (int round = 0; round < 2000; round++) {
    for (uint32_t l = 0; l < 32; l++) {
      w.v(0, l) = b32(any_float(rng));
      w.v(1, l) = b32(any_float(rng));
    }
    for (const char* text :
         {"v_div_scale_f32 v2, null, v1, v1, v0", "v_rcp_f32_e32 v3, v2", "v_fma_f32 v4, -v2, v3, 1.0",
          "v_fmac_f32_e32 v3, v4, v3", "v_div_scale_f32 v4, vcc_lo, v0, v1, v0", "v_mul_f32_e32 v5, v4, v3",
          "v_fma_f32 v6, -v2, v5, v4", "v_fmac_f32_e32 v5, v6, v3", "v_fma_f32 v2, -v2, v5, v4",
          "v_div_fmas_f32 v2, v2, v3, v5", "v_div_fixup_f32 v7, v2, v1, v0"}) {
      w.run(text);
    }
    for (uint32_t l = 0; l < 32; l++) {
      const float n = f32(w.v(0, l)), d = f32(w.v(1, l)), expected = n / d;
      if (std::isnan(expected))
        ASSERT_TRUE(std::isnan(f32(w.v(7, l))));
      else
        ASSERT_EQ(w.v(7, l), b32(expected)) << n << " / " << d;
    }
  }
}

TEST(MachineCodeInstructions, DivisionOfDoublesIsIeee) {
  auto rng = rocmforge::testing::seeded_rng();
  OneWave w;
  const auto any_double = [&] {
    for (;;) {
      const auto v = std::bit_cast<double>(rng() % 4 == 0 ? rng() & 0x800FFFFFFFFFFFFFull : rng());
      if (!std::isnan(v)) return v;
    }
  };
  for (int round = 0; round < 500; round++) {
    for (uint32_t l = 0; l < 32; l++) {
      w.set64(0, l, std::bit_cast<uint64_t>(any_double()));
      w.set64(2, l, std::bit_cast<uint64_t>(any_double()));
    }
    for (const char* text :
         {"v_div_scale_f64 v[4:5], null, v[2:3], v[2:3], v[0:1]", "v_rcp_f64_e32 v[6:7], v[4:5]",
          "v_fma_f64 v[8:9], -v[4:5], v[6:7], 1.0", "v_fma_f64 v[6:7], v[6:7], v[8:9], v[6:7]",
          "v_fma_f64 v[8:9], -v[4:5], v[6:7], 1.0", "v_fma_f64 v[6:7], v[6:7], v[8:9], v[6:7]",
          "v_div_scale_f64 v[8:9], vcc_lo, v[0:1], v[2:3], v[0:1]", "v_mul_f64 v[10:11], v[8:9], v[6:7]",
          "v_fma_f64 v[4:5], -v[4:5], v[10:11], v[8:9]", "v_div_fmas_f64 v[4:5], v[4:5], v[6:7], v[10:11]",
          "v_div_fixup_f64 v[12:13], v[4:5], v[2:3], v[0:1]"}) {
      w.run(text);
    }
    for (uint32_t l = 0; l < 32; l++) {
      const auto n = std::bit_cast<double>(w.get64(0, l)), d = std::bit_cast<double>(w.get64(2, l));
      const auto got = std::bit_cast<double>(w.get64(12, l));
      if (std::isnan(n / d))
        ASSERT_TRUE(std::isnan(got));
      else
        ASSERT_EQ(got, n / d) << std::hexfloat << n << " / " << d;
    }
  }
}

// A value for each place, so that every element that lies elsewhere shows.
TEST(MachineCodeInstructions, MatricesLieAsTheTargetHasThem) {
  for (const std::string target : {"gfx1100", "gfx1201", "gfx90a", "gfx942"}) {
    SCOPED_TRACE(target);
    OneWave w(target);
    const bool is_mfma = target.starts_with("gfx9"), is_split = target == "gfx1201";
    const uint32_t n_lanes = w.wave.n_lanes(), n_inputs = is_mfma ? 2 : is_split ? 4 : 8, n_outputs = is_mfma ? 4 : 8;
    float a[16][16], b[16][16], c[16][16];
    for (uint32_t r = 0; r < 16; r++) {
      for (uint32_t k = 0; k < 16; k++) {
        a[r][k] = static_cast<float>(static_cast<int>(r * 16 + k) - 100);
        b[r][k] = static_cast<float>(static_cast<int>(r * 16 + k) % 61 - 30);
        c[r][k] = static_cast<float>(1000 * r + k);
      }
    }
    const auto input_place = [&](uint32_t lane, uint32_t element) {
      const uint32_t group = is_mfma ? 4 : is_split ? 8 : 0;
      return std::pair(lane % 16, lane / 16 * group + element);
    };
    const auto output_row = [&](uint32_t lane, uint32_t r) {
      return is_mfma ? lane / 16 * 4 + r : is_split ? lane / 16 * 8 + r : 2 * r + lane / 16;
    };
    for (uint32_t l = 0; l < n_lanes; l++) {
      for (uint32_t r = 0; r < n_inputs; r++) {
        const auto [row, k] = input_place(l, 2 * r);
        w.v(r, l) = f32_to_f16(a[row][k]) | f32_to_f16(a[row][k + 1]) << 16;
        w.v(8 + r, l) = f32_to_f16(b[k][row]) | f32_to_f16(b[k + 1][row]) << 16;
      }
      for (uint32_t r = 0; r < n_outputs; r++) w.v(16 + r, l) = b32(c[output_row(l, r)][l % 16]);
    }
    w.run(target == "gfx942"   ? "v_mfma_f32_16x16x16_f16 a[0:3], v[0:1], v[8:9], v[16:19]"
          : target == "gfx90a" ? "v_mfma_f32_16x16x16f16 a[0:3], v[0:1], v[8:9], v[16:19]"
          : is_split           ? "v_wmma_f32_16x16x16_f16 v[24:31], v[0:3], v[8:11], v[16:23]"
                               : "v_wmma_f32_16x16x16_f16 v[24:31], v[0:7], v[8:15], v[16:23]");
    for (uint32_t l = 0; l < n_lanes; l++) {
      for (uint32_t r = 0; r < n_outputs; r++) {
        const uint32_t row = output_row(l, r);
        double expected = c[row][l % 16];
        for (uint32_t k = 0; k < 16; k++) expected += double{a[row][k]} * b[k][l % 16];
        ASSERT_EQ(f32(w.v((is_mfma ? kAccumulators : 24u) + r, l)), static_cast<float>(expected));
      }
    }
  }
}

// Of f16 and bf16, as factors and as sums.
TEST(MachineCodeInstructions, MatricesOfGfx90aHaveNoDenormals) {
  for (const std::string target : {"gfx90a", "gfx942"}) {
    SCOPED_TRACE(target);
    const bool keeps = target == "gfx942";
    const auto product = [&](const std::string& type, uint32_t a, uint32_t b, float c) {
      OneWave w(target);
      for (uint32_t l = 0; l < 64; l++) {
        for (const uint32_t r : {0u, 1u}) w.v(r, l) = w.v(8 + r, l) = 0;
        w.v(0, l) = l < 16 ? a : 0;  // k = 0
        w.v(8, l) = l < 16 ? b : 0;
        for (uint32_t r = 16; r < 20; r++) w.v(r, l) = b32(c);
      }
      w.run("v_mfma_f32_16x16x16" + type + " v[24:27], v[0:1], v[8:9], v[16:19]");
      return f32(w.v(25, 33));
    };
    const std::string f16 = keeps ? "_f16" : "f16", bf16 = keeps ? "_bf16" : "bf16_1k";
    EXPECT_EQ(product(f16, 0x0400, 0x3C00, 0), 0x1p-14f);
    EXPECT_EQ(product(f16, 0x03FF, 0x3C00, 0), keeps ? 1023 * 0x1p-24f : 0.0f);
    EXPECT_EQ(product(f16, 0x3C00, 0x8001, 0), keeps ? -0x1p-24f : 0.0f);
    EXPECT_EQ(product(f16, 0, 0, 0x1p-130f), keeps ? 0x1p-130f : 0.0f);
    EXPECT_EQ(product(bf16, 0x0080, 0x3F80, 0), 0x1p-126f);
    EXPECT_EQ(product(bf16, 0x0040, 0x3F80, 0), keeps ? 0x1p-127f : 0.0f);
  }
}

// gfx12 alone has them.
TEST(MachineCodeInstructions, ScalarsOfFloatsAreThoseOfTheHost) {
  auto rng = rocmforge::testing::seeded_rng();
  OneWave w("gfx1201");
  const auto expect_bits = [&](const std::string& text, float expected) {
    w.run(text);
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(f32(w.wave.s[2]))) << text;
    else
      EXPECT_EQ(w.wave.s[2], b32(expected)) << text;
  };
  for (int round = 0; round < 2000; round++) {
    const float a = any_float(rng), b = any_float(rng), c = any_float(rng);
    w.wave.s[0] = b32(a);
    w.wave.s[1] = b32(b);
    expect_bits("s_add_f32 s2, s0, s1", a + b);
    expect_bits("s_sub_f32 s2, s0, s1", a - b);
    expect_bits("s_mul_f32 s2, s0, s1", a * b);
    w.wave.s[2] = b32(c);
    expect_bits("s_fmac_f32 s2, s0, s1", std::fma(a, b, c));
    expect_bits("s_floor_f32 s2, s0", std::floor(a));
    expect_bits("s_trunc_f32 s2, s0", std::trunc(a));
    w.run("s_cmp_ngt_f32 s0, s1");
    EXPECT_EQ(w.wave.scc, !(a > b));
    w.run("s_cmp_lg_f32 s0, s1");
    EXPECT_EQ(w.wave.scc, a < b || a > b);
  }
  w.wave.s[0] = b32(-3);
  expect_bits("v_s_exp_f32 s2, s0", 0.125f);
  expect_bits("v_s_rcp_f32 s2, -s0", 1.0f / 3);
}

TEST(MachineCodeInstructions, LanesReadOthers) {
  OneWave w("gfx942");
  for (uint32_t l = 0; l < 64; l++) {
    w.v(0, l) = 4 * (63 - l);
    w.v(1, l) = 1000 + l;
  }
  w.wave.set_mask(kExec, ~(uint64_t{1} << 5));
  w.run("ds_bpermute_b32 v2, v0, v1");
  w.run("v_readlane_b32 s4, v1, 40");
  w.run("v_readfirstlane_b32 s5, v1");
  w.run("v_mbcnt_lo_u32_b32 v3, -1, 0");
  w.run("v_mbcnt_hi_u32_b32 v3, -1, v3");
  for (uint32_t l = 0; l < 64; l++) {
    if (l == 5) continue;
    EXPECT_EQ(w.v(2, l), l == 58 ? 0 : 1000 + 63 - l);  // lane 5 takes no part
    EXPECT_EQ(w.v(3, l), l);
  }
  EXPECT_EQ(w.wave.s[4], 1040u);
  EXPECT_EQ(w.wave.s[5], 1000u);
}

TEST(MachineCodeInstructions, ScalarsSetTheirCondition) {
  OneWave w;
  w.wave.s[0] = 0xFFFFFFFF;
  w.run("s_add_u32 s2, s0, 1");
  EXPECT_TRUE(w.wave.scc);
  w.run("s_addc_u32 s3, 0, 0");
  EXPECT_EQ(w.wave.s[3], 1u);
  w.run("s_add_i32 s2, 0x7fffffff, 1");
  EXPECT_TRUE(w.wave.scc);
  w.run("s_and_b32 s2, s0, 0");
  EXPECT_FALSE(w.wave.scc);
  w.run("s_cselect_b32 s2, 3, 4");
  EXPECT_EQ(w.wave.s[2], 4u);
  w.run("s_cmpk_lg_i32 s0, 0xffff");  // printed without its sign
  EXPECT_FALSE(w.wave.scc);
  w.run("s_bfe_u32 s2, s0, 0x80004");
  EXPECT_EQ(w.wave.s[2], 0xFFu);
}

TEST(MachineCodeInstructions, WhatIsNotModelledIsNamed) {
  const Instruction unknown = parse_instruction("v_frobnicate_f32_e32 v0, v1");
  EXPECT_EQ(unknown.run, nullptr);
  // Modifiers that a handler does not look at must not be dropped.
  EXPECT_EQ(parse_instruction("v_xor_b32_e64 v0, v1, v2 clamp").run, nullptr);
  EXPECT_EQ(parse_instruction("v_mov_b32_dpp v0, v1 row_frob:1 row_mask:0xf bank_mask:0xf").run, nullptr);
  EXPECT_EQ(parse_instruction("v_mov_b64_dpp v[0:1], v[2:3] row_newbcast:1 row_mask:0xf bank_mask:0xf").run, nullptr);
  EXPECT_EQ(parse_instruction("v_add_f32_e32 v0, v1, what").run, nullptr);
}

}  // namespace
}  // namespace rocmforge::gpu::isa
