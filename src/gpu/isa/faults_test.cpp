// Planted faults, each of which the checks must find; and the same programs without the fault.

#include <algorithm>

#include "support/machine_program.h"

namespace rocmforge::gpu::isa {
namespace {

using testing::program;

struct Case {
  std::string name;
  std::vector<std::string> right, wrong;
  std::string message;
  std::string target = "gfx1100";
  uint32_t n_threads = 64;

  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

// What a program finds at its arguments.
struct Args {
  uint32_t* words;
  uint64_t n_bytes;
};

class MachineCodeFaults : public ::testing::TestWithParam<Case> {
 protected:
  Result<Report> run(const std::vector<std::string>& lines, uint64_t seed = 0) {
    const Kernel kernel = program(lines, GetParam().target);
    MemoryMap memory;
    memory.allow(words_.data(), words_.size() * 4, true);
    const Args args{words_.data(), words_.size() * 4};
    Launch launch;
    launch.n_threads = GetParam().n_threads;
    launch.seed = seed;
    return isa::run(kernel, launch, std::as_bytes(std::span(&args, 1)), memory);
  }
  std::vector<uint32_t> words_ = std::vector<uint32_t>(64);
};

TEST_P(MachineCodeFaults, IsFoundAndOnlyIt) {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    const auto right = run(GetParam().right, seed);
    EXPECT_TRUE(right.ok()) << right.error().message;
    const auto wrong = run(GetParam().wrong, seed);
    ASSERT_FALSE(wrong.ok());
    EXPECT_NE(wrong.error().message.find(GetParam().message), std::string::npos) << wrong.error().message;
  }
}

std::vector<std::string> without(std::vector<std::string> lines, const std::string& line) {
  const auto found = std::ranges::find(lines, line);
  EXPECT_NE(found, lines.end());
  lines.erase(found);
  return lines;
}
std::vector<std::string> with(std::vector<std::string> lines, const std::string& line, const std::string& other) {
  const auto found = std::ranges::find(lines, line);
  EXPECT_NE(found, lines.end());
  *found = other;
  return lines;
}

// Adds 1 to each word.
const std::vector<std::string> kAddOne = {"s_load_b64 s[2:3], s[0:1], null",
                                          "v_lshlrev_b32_e32 v1, 2, v0",
                                          "s_waitcnt lgkmcnt(0)",
                                          "global_load_b32 v2, v1, s[2:3]",
                                          "s_waitcnt vmcnt(0)",
                                          "v_add_nc_u32_e32 v2, 1, v2",
                                          "global_store_b32 v1, v2, s[2:3]",
                                          "s_endpgm"};
// The same for waves of 64, whose stores count with the loads.
const std::vector<std::string> kAddOneOfCdna = {"s_load_dwordx2 s[4:5], s[0:1], 0x0",
                                                "v_lshlrev_b32_e32 v1, 2, v0",
                                                "s_waitcnt lgkmcnt(0)",
                                                "global_load_dword v2, v1, s[4:5]",
                                                "global_store_dword v1, v1, s[4:5]",
                                                "s_waitcnt vmcnt(1)",
                                                "v_add_u32_e32 v2, 1, v2",
                                                "global_store_dword v1, v2, s[4:5]",
                                                "s_endpgm"};
// Each thread writes a word of shared memory and reads that of the thread opposite.
const std::vector<std::string> kExchange = {"v_lshlrev_b32_e32 v1, 2, v0",
                                            "v_xor_b32_e32 v2, 0xfc, v1",
                                            "ds_store_b32 v1, v0",
                                            "s_waitcnt lgkmcnt(0)",
                                            "s_barrier",
                                            "ds_load_b32 v3, v2",
                                            "s_waitcnt lgkmcnt(0)",
                                            "v_mov_b32_e32 v4, v3",
                                            "s_endpgm"};
// All threads count in one word, which one of them cleared.
const std::vector<std::string> kCount = {"v_mov_b32_e32 v1, 0",
                                         "v_mov_b32_e32 v2, 1",
                                         "v_cmp_eq_u32_e32 vcc_lo, 0, v0",
                                         "s_and_saveexec_b32 s4, vcc_lo",
                                         "ds_store_b32 v1, v1",
                                         "s_or_b32 exec_lo, exec_lo, s4",
                                         "s_waitcnt lgkmcnt(0)",
                                         "s_barrier",
                                         "ds_add_u32 v1, v2",
                                         "s_endpgm"};
// Spills a scalar that nobody wrote beside one that somebody wrote, and takes the second back.
const std::vector<std::string> kSpill = {"s_mov_b32 s7, 5",
                                         "v_writelane_b32 v3, s6, 0",
                                         "v_writelane_b32 v3, s7, 1",
                                         "v_readlane_b32 s8, v3, 0",
                                         "v_readlane_b32 s9, v3, 1",
                                         "v_add_nc_u32_e32 v4, s9, v0",
                                         "s_endpgm"};
const std::vector<std::string> kCopies = {"v_dual_mov_b32 v2, v0 :: v_dual_mov_b32 v3, v9",
                                          "v_add_nc_u32_e32 v4, v2, v0", "s_endpgm"};
// Both waves reach the barrier, by different branches.
const std::vector<std::string> kBranches = {"v_cmp_gt_u32_e32 vcc_lo, 32, v0",
                                            "s_cbranch_vccnz first",
                                            "s_barrier",
                                            "s_endpgm",
                                            "first:",
                                            "s_barrier",
                                            "s_endpgm"};

std::vector<Case> cases() {
  return {
      {"NoWaitForALoad", kAddOne, without(kAddOne, "s_waitcnt vmcnt(0)"), "before its load was waited for"},
      {"WaitForFewerLoads", kAddOne, with(kAddOne, "s_waitcnt vmcnt(0)", "s_waitcnt vmcnt(1)"),
       "before its load was waited for"},
      {"NoWaitForAScalarLoad", kAddOne, without(kAddOne, "s_waitcnt lgkmcnt(0)"), "before its load was waited for"},
      {"WaitOfTheWrongCounter", kAddOne, with(kAddOne, "s_waitcnt vmcnt(0)", "s_waitcnt lgkmcnt(0)"),
       "before its load was waited for"},
      {"StoresCountWithLoadsOnCdna", kAddOneOfCdna, with(kAddOneOfCdna, "s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(2)"),
       "before its load was waited for", "gfx942"},
      {"NoWaitForSharedMemory",
       kExchange,
       {"v_lshlrev_b32_e32 v1, 2, v0", "ds_store_b32 v1, v0", "ds_load_b32 v3, v1", "v_mov_b32_e32 v4, v3", "s_endpgm"},
       "before its load was waited for"},
      {"NoBarrier", kExchange, without(kExchange, "s_barrier"), "shared memory"},
      {"AWaitAfterTheBarrier",
       kExchange,
       {"v_lshlrev_b32_e32 v1, 2, v0", "ds_store_b32 v1, v0", "s_barrier", "s_endpgm"},
       "before the barrier"},
      {"SharedMemoryThatNobodyWrote", kExchange,
       with(kExchange, "v_xor_b32_e32 v2, 0xfc, v1", "v_add_nc_u32_e32 v2, 0x100, v1"), "that nobody wrote"},
      {"SharedMemoryOutOfBounds", kExchange,
       with(kExchange, "v_xor_b32_e32 v2, 0xfc, v1", "v_add_nc_u32_e32 v2, 0x400, v1"), "outside of shared memory"},
      {"AtomicsBesideAWrite", kCount, without(kCount, "s_barrier"), "shared memory"},
      {"ABarrierForSome", kBranches, without(kBranches, "s_barrier"), "never reach"},
      {"MemoryOutOfBounds", kAddOne, with(kAddOne, "v_lshlrev_b32_e32 v1, 2, v0", "v_lshl_add_u32 v1, v0, 2, 4"),
       "outside of memory"},
      {"AScalarLoadOutOfBounds", kAddOne,
       with(kAddOne, "s_load_b64 s[2:3], s[0:1], null", "s_load_b64 s[2:3], s[0:1], 0x40"), "outside of memory"},
      {"ARegisterThatNobodyWrote", kAddOne, without(kAddOne, "v_lshlrev_b32_e32 v1, 2, v0"),
       "is read that nobody wrote"},
      {"ASpilledScalarThatNobodyWrote", kSpill,
       with(kSpill, "v_add_nc_u32_e32 v4, s9, v0", "v_add_nc_u32_e32 v4, s8, v0"), "is read that nobody wrote"},
      // One half of the pair copies what nobody wrote, which is no fault; the other half's copy is used.
      {"ACopyOfWhatNobodyWrote", kCopies, with(kCopies, "v_add_nc_u32_e32 v4, v2, v0", "v_add_nc_u32_e32 v4, v3, v0"),
       "is read that nobody wrote"},
      {"AnUnknownInstruction", kAddOne, with(kAddOne, "v_add_nc_u32_e32 v2, 1, v2", "v_frobnicate_u32 v2, 1, v2"),
       "v_frobnicate_u32"},
      {"TheEndOfTheCode", kAddOne, without(kAddOne, "s_endpgm"), "past the end"},
  };
}

// Flat loads end in their order from gfx10 on; before, only a wait for all of them says that one has ended.
TEST(MachineCodeFlatLoads, EndInOrderFromGfx10On) {
  const auto run = [](const std::string& target, const std::vector<std::string>& lines) {
    const Kernel kernel = program(lines, target);
    std::vector<uint32_t> words(64);
    MemoryMap memory;
    memory.allow(words.data(), words.size() * 4, true);
    const uint32_t* args = words.data();
    Launch launch;
    launch.grid = {1, 1, 1};
    launch.n_threads = 1;
    const auto report = isa::run(kernel, launch, std::as_bytes(std::span(&args, 1)), memory);
    return report.ok() ? std::string() : report.error().message;
  };
  const std::vector<std::string> partly = {"s_load_dwordx2 s[4:5], s[0:1], 0x0",
                                           "s_waitcnt lgkmcnt(0)",
                                           "v_mov_b32_e32 v2, s4",
                                           "v_mov_b32_e32 v3, s5",
                                           "flat_load_dword v4, v[2:3]",
                                           "flat_load_dword v5, v[2:3]",
                                           "s_waitcnt vmcnt(1) lgkmcnt(1)",
                                           "v_mov_b32_e32 v6, v4",
                                           "s_waitcnt vmcnt(0) lgkmcnt(0)",
                                           "s_endpgm"};
  EXPECT_EQ(run("gfx1100", partly), "");
  EXPECT_NE(run("gfx942", partly).find("before its load was waited for"), std::string::npos);
  EXPECT_EQ(run("gfx942", with(partly, "s_waitcnt vmcnt(1) lgkmcnt(1)", "s_waitcnt vmcnt(0) lgkmcnt(0)")), "");
  EXPECT_NE(run("gfx1100", with(partly, "s_waitcnt vmcnt(1) lgkmcnt(1)", "s_waitcnt vmcnt(1)")), "");
}

// Only its own 8 bytes of scratch memory, of each lane.
TEST(MachineCodeScratch, EndsWithTheLanesOwn) {
  for (const auto& [target, offset, is_inside] : {std::tuple("gfx1100", "4", true), std::tuple("gfx1100", "8", false),
                                                  std::tuple("gfx942", "4", true), std::tuple("gfx942", "6", false)}) {
    const std::string store = std::string(target) == "gfx1100" ? "scratch_store_b32" : "scratch_store_dword";
    Kernel kernel = program({store + " off, v0, off offset:" + offset, "s_endpgm"}, target);
    kernel.descriptor.private_bytes = 8;
    Launch launch;
    launch.grid = {1, 1, 1};
    launch.n_threads = 32;
    const auto report = isa::run(kernel, launch, {}, {});
    EXPECT_EQ(report.ok(), is_inside);
    if (report.ok()) continue;
    EXPECT_NE(report.error().message.find("outside of scratch"), std::string::npos);
  }
}

// A wave of 32 loads a word each, twice, with strides of 4 and of 64 bytes, and waits for both at once.
TEST(MachineCodeCounts, AreOfLinesBanksAndLoadsUnderWay) {
  const Kernel kernel =
      program({"s_load_b64 s[2:3], s[0:1], null", "v_lshlrev_b32_e32 v1, 2, v0", "v_lshlrev_b32_e32 v2, 6, v0",
               "s_waitcnt lgkmcnt(0)", "global_load_b32 v3, v1, s[2:3]", "global_load_b32 v4, v2, s[2:3]",
               "ds_store_b32 v2, v0", "s_waitcnt vmcnt(0) lgkmcnt(0)", "s_endpgm"});
  std::vector<uint32_t> words(32 * 16 + 16);
  const uint64_t address = (reinterpret_cast<uint64_t>(words.data()) + 63) & ~uint64_t{63};
  MemoryMap memory;
  memory.allow(words.data(), words.size() * 4, true);
  Launch launch;
  launch.grid = {1, 1, 1};
  launch.n_threads = 32;
  launch.shared_bytes = 2048;
  const auto report = run(kernel, launch, std::as_bytes(std::span(&address, 1)), memory);
  ASSERT_TRUE(report.ok()) << report.error().message;
  const Traffic& t = report->traffic;
  EXPECT_EQ(t.requested_bytes, 2u * 32 * 4);
  EXPECT_EQ(t.line_bytes, (2u + 32) * 64);
  EXPECT_EQ(t.lds_accesses, 1u);
  EXPECT_EQ(t.lds_extra_cycles, 15u);  // two banks of 16 words each
  EXPECT_EQ(t.load_waits, 1u);
  EXPECT_EQ(t.loads_under_way, 2u);
}

INSTANTIATE_TEST_SUITE_P(, MachineCodeFaults, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace rocmforge::gpu::isa
