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
      {"AnUnknownInstruction", kAddOne, with(kAddOne, "v_add_nc_u32_e32 v2, 1, v2", "v_frobnicate_u32 v2, 1, v2"),
       "v_frobnicate_u32"},
      {"TheEndOfTheCode", kAddOne, without(kAddOne, "s_endpgm"), "past the end"},
  };
}

INSTANTIATE_TEST_SUITE_P(, MachineCodeFaults, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace rocmforge::gpu::isa
