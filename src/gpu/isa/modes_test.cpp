// Rounding and denormals as the mode register has them, against the host with the same rounding.

#include <cfenv>
#include <cmath>

#include "gpu/isa/lanes.h"
#include "support/machine_program.h"

namespace rocmforge::gpu::isa {
namespace {

using testing::OneWave;

constexpr int kRoundings[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};

// The host's result, computed while it rounds so.
template <class T, class F>
T rounded(int rounding, F f, T a, T b) {
  const int before = std::fegetround();
  std::fesetround(rounding);
  volatile T x = a, y = b;
  volatile T result = f(x, y);
  std::fesetround(before);
  return result;
}
void run_in_mode_of(OneWave& w, const std::string& text) {
  const Instruction i = parse_instruction(text);
  ASSERT_NE(i.run, nullptr) << text;
  run_one(w.wave, i);
  ASSERT_NE(w.wave.state, State::failed) << w.wave.failure;
}
float some_float(std::mt19937_64& rng) {
  return std::ldexp(static_cast<float>(rng() >> 40), static_cast<int>(rng() % 20) - 10) *
         (rng() % 2 == 0 ? 1.0f : -1.0f);
}

TEST(MachineCodeModes, RoundAsTheHostDoes) {
  auto rng = rocmforge::testing::seeded_rng();
  uint32_t n_different = 0;
  for (uint32_t mode = 0; mode < 4; mode++) {
    OneWave w;
    run_in_mode_of(w, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), " + std::to_string(mode | mode << 2));
    for (int round = 0; round < 50; round++) {
      for (uint32_t l = 0; l < 32; l++) {
        w.v(0, l) = b32(some_float(rng));
        w.v(1, l) = b32(some_float(rng));
        w.set64(4, l, std::bit_cast<uint64_t>(static_cast<double>(some_float(rng)) / 3));
        w.set64(6, l, std::bit_cast<uint64_t>(static_cast<double>(some_float(rng)) / 7));
      }
      run_in_mode_of(w, "v_add_f32_e32 v2, v0, v1");
      run_in_mode_of(w, "v_mul_f32_e32 v3, v0, v1");
      run_in_mode_of(w, "v_add_f64 v[8:9], v[4:5], v[6:7]");
      run_in_mode_of(w, "v_rndne_f32_e32 v10, v0");
      for (uint32_t l = 0; l < 32; l++) {
        const float a = f32(w.v(0, l)), b = f32(w.v(1, l));
        const auto sum = [](auto x, auto y) { return x + y; };
        const auto product = [](auto x, auto y) { return x * y; };
        EXPECT_EQ(f32(w.v(2, l)), rounded<float>(kRoundings[mode], sum, a, b));
        EXPECT_EQ(f32(w.v(3, l)), rounded<float>(kRoundings[mode], product, a, b));
        EXPECT_EQ(std::bit_cast<double>(w.get64(8, l)),
                  rounded<double>(kRoundings[mode], sum, std::bit_cast<double>(w.get64(4, l)),
                                  std::bit_cast<double>(w.get64(6, l))));
        EXPECT_EQ(f32(w.v(10, l)),
                  rounded<float>(FE_TONEAREST, [](float x, float) { return std::nearbyint(x); }, a, b));
        n_different += f32(w.v(3, l)) != rounded<float>(FE_TONEAREST, product, a, b) ? 1 : 0;
      }
    }
  }
  EXPECT_GT(n_different, 500u);
}

TEST(MachineCodeModes, RoundHalvesByTheirOwnBits) {
  OneWave w;
  for (uint32_t l = 0; l < 32; l++) w.v(0, l) = b32(1.0f + 0x1p-12f);
  run_in_mode_of(w, "s_round_mode 0x1");  // f32 up, halves to nearest
  run_in_mode_of(w, "v_cvt_f16_f32_e32 v1, v0");
  EXPECT_EQ(w.v(1, 0) & 0xFFFF, 0x3C00u);
  run_in_mode_of(w, "s_round_mode 0x4");
  run_in_mode_of(w, "v_cvt_f16_f32_e32 v1, v0");
  EXPECT_EQ(w.v(1, 0) & 0xFFFF, 0x3C01u);
}

TEST(MachineCodeModes, FlushWhatTheyAreToldTo) {
  constexpr uint32_t kDenormal = 0x00400000, kNormal = 0x3F800000, kSmallest = 0x00800000;
  // Bit 0 of a mode: denormals are taken; bit 1: they are given.
  for (uint32_t mode = 0; mode < 4; mode++) {
    OneWave w;
    run_in_mode_of(w, "s_denorm_mode " + std::to_string(mode | 3 << 2));
    w.wave.s[kExec] = 0x7FFFFFFF;
    for (uint32_t l = 0; l < 32; l++) {
      w.v(0, l) = kDenormal | 0x80000000;
      w.v(1, l) = kNormal;
      w.v(2, l) = kSmallest;
      w.v(3, l) = b32(0.5f);
      w.v(5, l) = w.v(7, l) = kDenormal;
      w.v(8, l) = 2;  // no float: an exponent
    }
    run_in_mode_of(w, "v_mul_f32_e32 v4, v0, v1");
    EXPECT_EQ(w.v(4, 3), mode == 3 ? kDenormal | 0x80000000 : 0x80000000);
    EXPECT_EQ(w.v(0, 3), kDenormal | 0x80000000) << "the source stays";
    run_in_mode_of(w, "v_mul_f32_e32 v5, v2, v3");
    EXPECT_EQ(w.v(5, 3), (mode & 2) != 0 ? kDenormal : 0u);
    EXPECT_EQ(w.v(5, 31), kDenormal) << "a lane that is not active stays";
    run_in_mode_of(w, "v_cmp_eq_f32_e32 vcc_lo, 0, v0");
    EXPECT_EQ(w.wave.s[kVcc], (mode & 1) != 0 ? 0u : 0x7FFFFFFFu);
    run_in_mode_of(w, "v_ldexp_f32 v6, v1, v8");
    EXPECT_EQ(w.v(6, 3), b32(4.0f));
    run_in_mode_of(w, "v_fmac_f32_e32 v7, v1, v1");
    EXPECT_EQ(w.v(7, 3), kNormal);
    EXPECT_EQ(w.v(7, 31), kDenormal);
    run_in_mode_of(w, "v_xor_b32_e32 v9, v0, v1");
    EXPECT_EQ(w.v(9, 3), (kDenormal | 0x80000000) ^ kNormal) << "no instruction of floats";
  }
}

TEST(MachineCodeModes, FlushHalvesAndDoubles) {
  OneWave w;
  run_in_mode_of(w, "s_denorm_mode 0x3");
  for (uint32_t l = 0; l < 32; l++) {
    w.v(0, l) = 0x00013C00;  // 1 and a denormal
    w.v(1, l) = 0x3C003C00;
    w.set64(2, l, 0x000F000000000000);
    w.set64(4, l, std::bit_cast<uint64_t>(1.0));
    w.v(8, l) = 0x00000001;
  }
  run_in_mode_of(w, "v_pk_fma_f16 v6, v0, v1, 0");
  EXPECT_EQ(w.v(6, 0), 0x00003C00u);
  run_in_mode_of(w, "v_mul_f64 v[10:11], v[2:3], v[4:5]");
  EXPECT_EQ(w.get64(10, 0), 0u);
  run_in_mode_of(w, "v_cvt_f32_f16_e32 v12, v8");
  EXPECT_EQ(w.v(12, 0), 0u);
  run_in_mode_of(w, "s_denorm_mode 0xf");
  run_in_mode_of(w, "v_cvt_f32_f16_e32 v12, v8");
  EXPECT_EQ(f32(w.v(12, 0)), 0x1p-24f);
}

// A kernel that asks for flushed denormals in its descriptor begins so, and may not touch the mode's other bits.
TEST(MachineCodeModes, BeginAsTheDescriptorSays) {
  const auto run_with = [](uint32_t mode, const std::string& middle) {
    Kernel kernel = testing::program({"s_load_b64 s[2:3], s[0:1], null", "v_mov_b32_e32 v1, 0x400000",
                                      "v_mul_f32_e32 v1, 1.0, v1", "v_lshlrev_b32_e32 v2, 2, v0",
                                      "s_waitcnt lgkmcnt(0)", middle, "global_store_b32 v2, v1, s[2:3]", "s_endpgm"});
    kernel.descriptor.rsrc1 = 63 | mode << 12;
    static std::array<uint32_t, 32> words;
    words.fill(1);
    MemoryMap memory;
    memory.allow(words.data(), sizeof words, true);
    const uint32_t* args = words.data();
    Launch launch;
    launch.grid = {1, 1, 1};
    launch.n_threads = 32;
    const auto report = run(kernel, launch, std::as_bytes(std::span(&args, 1)), memory);
    return std::pair(report.ok() ? "" : report.error().message, words[5]);
  };
  EXPECT_EQ(run_with(0xF0, "s_nop 0"), std::pair(std::string(), 0x00400000u));
  EXPECT_EQ(run_with(0xC0, "s_nop 0"), std::pair(std::string(), 0u));
  EXPECT_NE(run_with(0xF0, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 8, 1), 1").first.find("not modelled"),
            std::string::npos);
}

}  // namespace
}  // namespace rocmforge::gpu::isa
