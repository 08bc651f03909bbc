// Lanes that take of other lanes, atomics and buffers, against what the host computes.

#include <algorithm>

#include "gpu/isa/lanes.h"
#include "support/machine_program.h"

namespace rocmforge::gpu::isa {
namespace {

using testing::OneWave;
using testing::program;

// ---- lanes of other lanes ----

// What lane l takes of v1, which holds 100 + the lane; ~0: it keeps what it holds, 7.
constexpr uint32_t kKeeps = ~0u;
template <class F>
void expect_moved(const std::string& how, const std::string& target, F source) {
  SCOPED_TRACE(how);
  OneWave w(target);
  const uint32_t n = w.wave.n_lanes();
  for (uint32_t l = 0; l < n; l++) {
    w.v(0, l) = 7;
    w.v(1, l) = 100 + l;
  }
  w.run("v_mov_b32_dpp v0, v1 " + how);
  for (uint32_t l = 0; l < n; l++) {
    const uint32_t from = source(l);
    EXPECT_EQ(w.v(0, l), from == kKeeps ? 7 : 100 + from) << l;
    EXPECT_EQ(w.v(1, l), 100 + l);
  }
}

TEST(MachineCodeLanes, MoveWithinRows) {
  const std::string all = " row_mask:0xf bank_mask:0xf";
  expect_moved("quad_perm:[1,0,3,2]" + all, "gfx1100", [](uint32_t l) { return l ^ 1; });
  expect_moved("quad_perm:[3,3,0,1]" + all, "gfx942", [](uint32_t l) {
    constexpr uint32_t kSelect[] = {3, 3, 0, 1};
    return l / 4 * 4 + kSelect[l % 4];
  });
  expect_moved("row_shl:3" + all, "gfx1100", [](uint32_t l) { return l % 16 < 13 ? l + 3 : kKeeps; });
  expect_moved("row_shr:1" + all, "gfx942", [](uint32_t l) { return l % 16 != 0 ? l - 1 : kKeeps; });
  expect_moved("row_ror:5" + all, "gfx1100", [](uint32_t l) { return l / 16 * 16 + (l + 11) % 16; });
  expect_moved("row_mirror" + all, "gfx1100", [](uint32_t l) { return l ^ 15; });
  expect_moved("row_half_mirror" + all, "gfx942", [](uint32_t l) { return l ^ 7; });
  expect_moved("row_share:9" + all, "gfx1100", [](uint32_t l) { return l / 16 * 16 + 9; });
  expect_moved("row_newbcast:9" + all, "gfx942", [](uint32_t l) { return l / 16 * 16 + 9; });
  expect_moved("row_xmask:6" + all, "gfx1100", [](uint32_t l) { return l ^ 6; });
  expect_moved("dpp8:[7,6,5,4,3,2,1,0]", "gfx1100", [](uint32_t l) { return l ^ 7; });
  expect_moved("wave_shr:1" + all, "gfx942", [](uint32_t l) { return l != 0 ? l - 1 : kKeeps; });
  expect_moved("wave_rol:1" + all, "gfx942", [](uint32_t l) { return (l + 1) % 64; });
  expect_moved("row_bcast:15" + all, "gfx942", [](uint32_t l) { return l >= 16 ? l / 16 * 16 - 1 : kKeeps; });
  expect_moved("row_bcast:31 row_mask:0xc bank_mask:0xf", "gfx942", [](uint32_t l) { return l >= 32 ? 31 : kKeeps; });
  expect_moved("row_mirror row_mask:0x1 bank_mask:0x6", "gfx1100",
               [](uint32_t l) { return l < 16 && l / 4 % 2 != l / 8 ? l ^ 15 : kKeeps; });
}

TEST(MachineCodeLanes, ThatAreNotActiveAreNoSource) {
  for (const std::string end : {"", " bound_ctrl:1", " fi:1"}) {
    OneWave w;
    for (uint32_t l = 0; l < 32; l++) {
      w.v(0, l) = 7;
      w.v(1, l) = 100 + l;
    }
    w.wave.s[kExec] = 0x0000FFFE;
    w.run("v_mov_b32_dpp v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf" + end);
    EXPECT_EQ(w.v(0, 0), 7u);
    EXPECT_EQ(w.v(0, 1), end.empty() ? 7u : end == " fi:1" ? 100u : 0u);
    EXPECT_EQ(w.v(0, 2), 101u);
    EXPECT_EQ(w.v(0, 20), 7u);
    EXPECT_EQ(w.wave.s[kExec], 0x0000FFFEu);
  }
}

// A sum over rows, as compilers write it: both sources and the destination are one register.
TEST(MachineCodeLanes, AddUpInPlace) {
  OneWave w("gfx942");
  for (uint32_t l = 0; l < 64; l++) w.v(3, l) = b32(static_cast<float>(1 << l % 16));
  for (const char* how : {"row_shr:1", "row_shr:2", "row_shr:4", "row_shr:8"}) {
    w.run(std::string("v_add_f32_dpp v3, v3, v3 ") + how + " row_mask:0xf bank_mask:0xf bound_ctrl:1");
  }
  for (uint32_t l = 0; l < 64; l++) EXPECT_EQ(f32(w.v(3, l)), static_cast<float>((2 << l % 16) - 1));
}

TEST(MachineCodeLanes, AreNamedByScalars) {
  OneWave w;
  for (uint32_t l = 0; l < 32; l++) w.v(1, l) = 100 + l;
  w.wave.s[4] = 0x01234567;
  w.wave.s[5] = 0x89ABCDEF;
  w.run("v_permlane16_b32 v0, v1, s4, s5");
  w.run("v_permlanex16_b32 v2, v1, s4, s5");
  for (uint32_t l = 0; l < 32; l++) {
    const uint32_t place = l % 16 < 8 ? 7 - l % 16 : 23 - l % 16;
    EXPECT_EQ(w.v(0, l), 100 + l / 16 * 16 + place);
    EXPECT_EQ(w.v(2, l), 100 + (l / 16 ^ 1) * 16 + place);
  }
  for (uint32_t l = 0; l < 32; l++) w.v(3, l) = 4 * (31 - l);
  w.run("ds_permute_b32 v4, v3, v1");
  for (uint32_t l = 0; l < 32; l++) EXPECT_EQ(w.v(4, l), 131 - l);
}

// ---- atomics ----

struct AtomicCase {
  std::string global, before, lds;  // names: of gfx11, of gfx9, of shared memory
  uint32_t (*f)(uint32_t old, uint32_t v);
};
const AtomicCase kAtomics[] = {
    {"add_u32", "add", "add_rtn_u32", [](uint32_t a, uint32_t b) { return a + b; }},
    {"sub_u32", "sub", "sub_rtn_u32", [](uint32_t a, uint32_t b) { return a - b; }},
    {"min_u32", "umin", "min_rtn_u32", [](uint32_t a, uint32_t b) { return a < b ? a : b; }},
    {"max_u32", "umax", "max_rtn_u32", [](uint32_t a, uint32_t b) { return a > b ? a : b; }},
    {"min_i32", "smin", "min_rtn_i32", [](uint32_t a, uint32_t b) { return as_signed(a) < as_signed(b) ? a : b; }},
    {"max_i32", "smax", "max_rtn_i32", [](uint32_t a, uint32_t b) { return as_signed(a) > as_signed(b) ? a : b; }},
    {"and_b32", "and", "and_rtn_b32", [](uint32_t a, uint32_t b) { return a & b; }},
    {"or_b32", "or", "or_rtn_b32", [](uint32_t a, uint32_t b) { return a | b; }},
    {"xor_b32", "xor", "xor_rtn_b32", [](uint32_t a, uint32_t b) { return a ^ b; }},
    {"swap_b32", "swap", "storexchg_rtn_b32", [](uint32_t, uint32_t b) { return b; }},
    {"inc_u32", "inc", "inc_rtn_u32", [](uint32_t a, uint32_t b) { return a >= b ? 0 : a + 1; }},
    {"dec_u32", "dec", "dec_rtn_u32", [](uint32_t a, uint32_t b) { return a == 0 || a > b ? b : a - 1; }},
    {"add_f32", "add_f32", "add_rtn_f32", [](uint32_t a, uint32_t b) { return b32(f32(a) + f32(b)); }},
};

// One wave whose memory is `words`.
class WaveWithMemory : public OneWave {
 public:
  explicit WaveWithMemory(const std::string& target = "gfx1100") : OneWave(target) {
    memory_.allow(words.data(), words.size() * 4, true);
    wave.memory = &memory_;
    const auto address = reinterpret_cast<uint64_t>(words.data());
    wave.s[2] = static_cast<uint32_t>(address);
    wave.s[3] = static_cast<uint32_t>(address >> 32);
  }
  alignas(8) std::array<uint32_t, 128> words{};

 private:
  MemoryMap memory_;
};

TEST(MachineCodeAtomics, AreTheHostsInMemoryAndInSharedMemory) {
  auto rng = rocmforge::testing::seeded_rng();
  const auto any = [&] { return rng() % 3 == 0 ? static_cast<uint32_t>(rng() % 3) : static_cast<uint32_t>(rng()); };
  for (const AtomicCase& c : kAtomics) {
    SCOPED_TRACE(c.global);
    for (const bool old_names : {false, true}) {
      WaveWithMemory w(old_names ? "gfx942" : "gfx1100");
      const uint32_t n = w.wave.n_lanes();
      std::vector<uint32_t> before(n), values(n);
      for (uint32_t l = 0; l < n; l++) {
        w.words[l] = before[l] = any() & 0xBF7FFFFF;  // no NaN as a float
        w.v(2, l) = values[l] = any() & 0xBF7FFFFF;
        w.v(1, l) = 4 * l;
      }
      w.run("global_atomic_" +
            (old_names ? c.before + " v5, v1, v2, s[2:3] sc0" : c.global + " v5, v1, v2, s[2:3] glc"));
      for (uint32_t l = 0; l < n; l++) {
        EXPECT_EQ(w.v(5, l), before[l]);
        EXPECT_EQ(w.words[l], c.f(before[l], values[l])) << std::hex << before[l] << " " << values[l];
      }
      for (uint32_t l = 0; l < n; l++) w.v(6, l) = before[l];
      w.run(old_names ? "ds_write_b32 v1, v6 offset:64" : "ds_store_b32 v1, v6 offset:64");
      const bool is_exchange = c.lds == "storexchg_rtn_b32";
      w.run("ds_" + (old_names && is_exchange ? "wrxchg_rtn_b32" : c.lds) + " v7, v1, v2 offset:64");
      w.run(old_names ? "ds_read_b32 v8, v1 offset:64" : "ds_load_b32 v8, v1 offset:64");
      for (uint32_t l = 0; l < n; l++) {
        EXPECT_EQ(w.v(7, l), before[l]);
        EXPECT_EQ(w.v(8, l), c.f(before[l], values[l]));
      }
    }
  }
}

TEST(MachineCodeAtomics, CompareAndReplace) {
  WaveWithMemory w;
  for (uint32_t l = 0; l < 32; l++) {
    w.words[l] = l;
    w.v(1, l) = 4 * l;
    w.v(2, l) = 100 + l;              // the new value
    w.v(3, l) = l % 2 != 0 ? l : 50;  // what it is compared with
  }
  w.run("global_atomic_cmpswap_b32 v5, v1, v[2:3], s[2:3] glc");
  for (uint32_t l = 0; l < 32; l++) EXPECT_EQ(w.words[l], l % 2 != 0 ? 100 + l : l);
  for (uint32_t l = 0; l < 32; l++) w.v(6, l) = l;
  for (const char* text : {"ds_cmpstore_rtn_b32 v7, v1, v2, v3", "ds_cmpst_rtn_b32 v7, v1, v3, v2"}) {
    w.run("ds_store_b32 v1, v6");
    w.run(text);
    w.run("ds_load_b32 v8, v1");
    for (uint32_t l = 0; l < 32; l++) {
      EXPECT_EQ(w.v(7, l), l);
      EXPECT_EQ(w.v(8, l), l % 2 != 0 ? 100 + l : l);
    }
  }
}

TEST(MachineCodeAtomics, OfLanesAtOneAddressAddUp) {
  WaveWithMemory w;
  for (uint32_t l = 0; l < 32; l++) {
    w.v(1, l) = 8;
    w.set64(2, l, (uint64_t{l} << 32) + 0xFFFFFFFF);
  }
  w.run("global_atomic_add_u64 v1, v[2:3], s[2:3]");
  const uint64_t sum = w.words[2] | uint64_t{w.words[3]} << 32;
  EXPECT_EQ(sum, (uint64_t{31 * 16} << 32) + 32 * uint64_t{0xFFFFFFFF});
  const Instruction odd = parse_instruction("global_atomic_add_u32 v1, v2, s[2:3] offset:2");
  odd.run(w.wave, odd);
  EXPECT_NE(w.wave.failure.find("not aligned"), std::string::npos);
}

// ---- buffers ----

TEST(MachineCodeBuffers, EndAtTheirLastRecord) {
  for (const std::string target : {"gfx1100", "gfx942"}) {
    WaveWithMemory w(target);
    std::ranges::generate(w.words, [k = 0u]() mutable { return 1000 + k++; });
    for (uint32_t k = 0; k < 4; k++) w.wave.s[4 + k] = k < 2 ? w.wave.s[2 + k] : 0;
    w.wave.s[6] = 40;                                  // bytes
    w.wave.s[7] = target == "gfx1100" ? 3u << 28 : 0;  // out of bounds by bytes
    w.wave.s[8] = 4;
    for (uint32_t l = 0; l < w.wave.n_lanes(); l++) w.v(1, l) = 4 * l;
    w.run("buffer_load_dword v0, v1, s[4:7], s8 offen offset:4");
    for (uint32_t l = 0; l < w.wave.n_lanes(); l++) EXPECT_EQ(w.v(0, l), l + 2 < 10 ? 1002 + l : 0);
    w.run("buffer_store_dword v1, v1, s[4:7], 0 offen");
    for (uint32_t l = 0; l < w.words.size(); l++) EXPECT_EQ(w.words[l], l < 10 ? 4 * l : 1000 + l);
    w.run("buffer_load_dword v0, off, s[4:7], 0 offset:8");
    EXPECT_EQ(w.v(0, 5), 8u);
  }
}

TEST(MachineCodeBuffers, HaveRecordsOfAStride) {
  WaveWithMemory w;
  std::ranges::generate(w.words, [k = 0u]() mutable { return 1000 + k++; });
  w.wave.s[4] = w.wave.s[2];
  w.wave.s[5] = (w.wave.s[3] & 0xFFFF) | 12u << 16;
  w.wave.s[6] = 5;  // records
  w.wave.s[7] = 0;
  for (uint32_t l = 0; l < 32; l++) {
    w.v(2, l) = l;
    w.v(3, l) = l == 2 ? 12 : 4;  // beyond its record
  }
  w.run("buffer_load_b32 v0, v[2:3], s[4:7], 0 idxen offen");
  for (uint32_t l = 0; l < 32; l++) EXPECT_EQ(w.v(0, l), l < 5 && l != 2 ? 1001 + 3 * l : 0);
  w.wave.s[5] |= 0x80000000;
  const Instruction swizzled = parse_instruction("buffer_load_b32 v0, v2, s[4:7], 0 idxen");
  swizzled.run(w.wave, swizzled);
  EXPECT_NE(w.wave.failure.find("not modelled"), std::string::npos);
}

}  // namespace
}  // namespace rocmforge::gpu::isa
