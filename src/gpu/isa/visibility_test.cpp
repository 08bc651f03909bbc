// Stores that other waves look at: programs that order them as the targets ask for, and the same with one step missing.

#include <algorithm>

#include "support/machine_program.h"

namespace rocmforge::gpu::isa {
namespace {

using testing::program;
using Lines = std::vector<std::string>;

constexpr const char* kUnordered = "without an order between the two";
constexpr const char* kStale = "which caches may hold as it was before";

struct Case {
  std::string name, target;
  Lines right, wrong;
  std::string message;
  uint32_t n_blocks = 1, n_threads = 64;
  bool is_spread = true;  // over two compute units, where the target can

  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

Lines without(Lines lines, const std::string& line) {
  const auto found = std::ranges::find(lines, line);
  EXPECT_NE(found, lines.end()) << line;
  lines.erase(found);
  return lines;
}
Lines with(Lines lines, const std::string& line, const std::string& other) {
  const auto found = std::ranges::find(lines, line);
  EXPECT_NE(found, lines.end()) << line;
  *found = other;
  return lines;
}

Lines before(Lines lines, const std::string& line, const std::string& other) {
  const auto found = std::ranges::find(lines, line);
  EXPECT_NE(found, lines.end()) << line;
  lines.insert(found, other);
  return lines;
}

class MachineCodeVisibility : public ::testing::TestWithParam<Case> {
 protected:
  // Words that hold no number of a thread, but for the ticket.
  Result<Report> run(const Lines& lines, uint64_t seed) {
    Kernel kernel = program(lines, GetParam().target);
    if (GetParam().is_spread) kernel.descriptor.rsrc1 |= 1u << 29;
    std::vector<uint32_t> words(128, ~0u);
    words[64] = 0;
    MemoryMap memory;
    memory.allow(words.data(), words.size() * 4, true);
    const uint32_t* args = words.data();
    Launch launch;
    launch.grid = {GetParam().n_blocks, 1, 1};
    launch.n_threads = GetParam().n_threads;
    launch.seed = seed;
    return isa::run(kernel, launch, std::as_bytes(std::span(&args, 1)), memory);
  }
};

TEST_P(MachineCodeVisibility, FaultIsFoundAndOnlyIt) {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    const auto right = run(GetParam().right, seed);
    EXPECT_TRUE(right.ok()) << right.error().message;
    const auto wrong = run(GetParam().wrong, seed);
    ASSERT_FALSE(wrong.ok());
    EXPECT_NE(wrong.error().message.find(GetParam().message), std::string::npos) << wrong.error().message;
  }
}

// Each thread of a block writes a word and reads that of a thread of the other wave.
const Lines kExchange = {"s_load_b64 s[2:3], s[0:1], null",
                         "v_lshlrev_b32_e32 v1, 2, v0",
                         "v_xor_b32_e32 v2, 0xfc, v1",
                         "s_waitcnt lgkmcnt(0)",
                         "global_store_b32 v1, v0, s[2:3]",
                         "s_waitcnt_vscnt null, 0x0",
                         "s_barrier",
                         "buffer_gl0_inv",
                         "global_load_b32 v3, v2, s[2:3]",
                         "s_waitcnt vmcnt(0)",
                         "v_mov_b32_e32 v4, v3",
                         "s_endpgm"};
const Lines kExchangeOfGfx12 = {"s_load_b64 s[2:3], s[0:1], 0x0",
                                "v_lshlrev_b32_e32 v1, 2, v0",
                                "v_xor_b32_e32 v2, 0xfc, v1",
                                "s_wait_kmcnt 0x0",
                                "global_store_b32 v1, v0, s[2:3]",
                                "s_wait_storecnt 0x0",
                                "s_barrier_signal -1",
                                "s_barrier_wait 0xffff",
                                "global_inv scope:SCOPE_SE",
                                "global_load_b32 v3, v2, s[2:3]",
                                "s_wait_loadcnt 0x0",
                                "v_mov_b32_e32 v4, v3",
                                "s_endpgm"};
const Lines kExchangeOfCdna = {"s_load_dwordx2 s[4:5], s[0:1], 0x0",
                               "v_lshlrev_b32_e32 v1, 2, v0",
                               "v_xor_b32_e32 v2, 0x1fc, v1",
                               "s_waitcnt lgkmcnt(0)",
                               "global_store_dword v1, v0, s[4:5]",
                               "s_barrier",
                               "global_load_dword v3, v2, s[4:5]",
                               "s_waitcnt vmcnt(0)",
                               "v_mov_b32_e32 v4, v3",
                               "s_endpgm"};

// Each block writes 32 words and takes a ticket; the one with the second ticket reads the other's words.
const Lines kTicket = {"s_load_b64 s[2:3], s[0:1], null",
                       "v_lshlrev_b32_e32 v1, 2, v0",
                       "s_lshl_b32 s4, s15, 7",
                       "v_add_nc_u32_e32 v2, s4, v1",
                       "v_xor_b32_e32 v3, 0x80, v2",
                       "v_mov_b32_e32 v4, 1",
                       "v_mov_b32_e32 v5, 0x100",
                       "s_waitcnt lgkmcnt(0)",
                       "global_store_b32 v2, v0, s[2:3]",
                       "s_waitcnt_vscnt null, 0x0",
                       "s_mov_b32 s6, exec_lo",
                       "s_mov_b32 exec_lo, 1",
                       "global_atomic_add_u32 v6, v5, v4, s[2:3] glc",
                       "s_waitcnt vmcnt(0)",
                       "s_mov_b32 exec_lo, s6",
                       "buffer_gl1_inv",
                       "buffer_gl0_inv",
                       "v_readfirstlane_b32 s7, v6",
                       "s_cmp_lg_u32 s7, 1",
                       "s_cbranch_scc1 done",
                       "global_load_b32 v7, v3, s[2:3]",
                       "s_waitcnt vmcnt(0)",
                       "v_mov_b32_e32 v8, v7",
                       "done:",
                       "s_endpgm"};
Lines translated(Lines lines, const std::vector<std::pair<std::string, std::string>>& names) {
  for (std::string& line : lines) {
    for (const auto& [from, to] : names) {
      const size_t at = line.find(from);
      if (at != std::string::npos) line.replace(at, from.size(), to);
    }
  }
  std::erase(lines, "");
  return lines;
}
const Lines kTicketOfGfx12 = translated(kTicket, {{"s[0:1], null", "s[0:1], 0x0"},
                                                  {"s15", "ttmp9"},
                                                  {"s_waitcnt lgkmcnt(0)", "s_wait_kmcnt 0x0"},
                                                  {"s_waitcnt_vscnt null, 0x0", "s_wait_storecnt 0x0"},
                                                  {" glc", " th:TH_ATOMIC_RETURN scope:SCOPE_DEV"},
                                                  {"s_waitcnt vmcnt(0)", "s_wait_loadcnt 0x0"},
                                                  {"buffer_gl1_inv", "global_inv scope:SCOPE_DEV"},
                                                  {"buffer_gl0_inv", ""}});
const Lines kTicketOfCdna =
    translated(kTicket, {{"s_load_b64 s[2:3], s[0:1], null", "s_load_dwordx2 s[4:5], s[0:1], 0x0"},
                         {"s[2:3]", "s[4:5]"},
                         {"s_lshl_b32 s4, s15", "s_lshl_b32 s8, s2"},
                         {"v_add_nc_u32_e32 v2, s4", "v_add_u32_e32 v2, s8"},
                         {"global_store_b32", "global_store_dword"},
                         {"s_waitcnt_vscnt null, 0x0", "buffer_wbl2 sc1"},
                         {"s_mov_b32 s6, exec_lo", "s_waitcnt vmcnt(0) lgkmcnt(0)"},
                         {"s_mov_b32 exec_lo, 1", "s_mov_b64 exec, 1"},
                         {"s_mov_b32 exec_lo, s6", "s_mov_b64 exec, 0xffffffff"},
                         {"global_atomic_add_u32", "global_atomic_add"},
                         {" glc", " sc0"},
                         {"buffer_gl1_inv", "buffer_inv sc1"},
                         {"buffer_gl0_inv", ""},
                         {"global_load_b32", "global_load_dword"}});
const Lines kTicketOfGfx90a =
    translated(kTicketOfCdna, {{"buffer_wbl2 sc1", ""}, {"buffer_inv sc1", "buffer_wbinvl1_vol"}, {" sc0", " glc"}});

// All threads of all blocks write to the same word.
const Lines kSameWord = {"s_load_b64 s[2:3], s[0:1], null",
                         "v_mov_b32_e32 v1, 0",
                         "v_mov_b32_e32 v2, 7",
                         "s_waitcnt lgkmcnt(0)",
                         "global_store_b32 v1, v2, s[2:3]",
                         "s_endpgm"};
// Reads, as a scalar, the word behind the one that it writes.
const Lines kScalar = {"s_load_b64 s[2:3], s[0:1], null",
                       "v_mov_b32_e32 v1, 0",
                       "v_mov_b32_e32 v2, 7",
                       "s_waitcnt lgkmcnt(0)",
                       "global_store_b32 v1, v2, s[2:3]",
                       "s_waitcnt_vscnt null, 0x0",
                       "s_load_b32 s4, s[2:3], 0x4",
                       "s_waitcnt lgkmcnt(0)",
                       "s_endpgm"};

std::vector<Case> cases() {
  const Case of_blocks{
      .name = "", .target = "", .right = {}, .wrong = {}, .message = "", .n_blocks = 2, .n_threads = 32};
  const auto blocks = [&](std::string name, std::string target, Lines right, Lines wrong, std::string message) {
    Case c = of_blocks;
    c.name = std::move(name);
    c.target = std::move(target);
    c.right = std::move(right);
    c.wrong = std::move(wrong);
    c.message = std::move(message);
    return c;
  };
  return {
      {"NoBarrier", "gfx1100", kExchange, without(kExchange, "s_barrier"), kUnordered},
      {"NoWaitForTheStore", "gfx1100", kExchange, without(kExchange, "s_waitcnt_vscnt null, 0x0"), kUnordered},
      {"NoInvalidation", "gfx1100", kExchange, without(kExchange, "buffer_gl0_inv"), kStale},
      {"NoBarrierInACacheOfTheirOwn", "gfx1100", without(kExchange, "buffer_gl0_inv"),
       without(without(kExchange, "buffer_gl0_inv"), "s_barrier"), kUnordered, 1, 64, false},
      {"NoWaitForTheStoreOfGfx12", "gfx1201", kExchangeOfGfx12, without(kExchangeOfGfx12, "s_wait_storecnt 0x0"),
       kUnordered},
      {"NoInvalidationOfGfx12", "gfx1201", kExchangeOfGfx12, without(kExchangeOfGfx12, "global_inv scope:SCOPE_SE"),
       kStale},
      {"NoSignalToTheBarrier", "gfx1201", kExchangeOfGfx12, without(kExchangeOfGfx12, "s_barrier_signal -1"),
       "did not signal to"},
      {"NoWaitAtTheBarrier", "gfx1201", kExchangeOfGfx12, without(kExchangeOfGfx12, "s_barrier_wait 0xffff"),
       kUnordered},
      {"NoBarrierOfCdna", "gfx942", kExchangeOfCdna, without(kExchangeOfCdna, "s_barrier"), kUnordered, 1, 128},
      blocks("StoresAfterTheTicket", "gfx1100", kTicket, without(kTicket, "s_waitcnt_vscnt null, 0x0"), kUnordered),
      blocks("NoTicket", "gfx1100", kTicket,
             with(kTicket, "global_atomic_add_u32 v6, v5, v4, s[2:3] glc", "v_mov_b32_e32 v6, 1"), kUnordered),
      blocks("NoInvalidationOfL1", "gfx1100", kTicket, without(kTicket, "buffer_gl1_inv"), kStale),
      blocks("NoInvalidationOfL0", "gfx1100", kTicket, without(kTicket, "buffer_gl0_inv"), kStale),
      blocks("InvalidationBeforeTheTicket", "gfx1100", kTicket,
             before(without(kTicket, "buffer_gl0_inv"), "s_mov_b32 s6, exec_lo", "buffer_gl0_inv"), kStale),
      blocks("StoresAfterTheTicketOfGfx12", "gfx1201", kTicketOfGfx12, without(kTicketOfGfx12, "s_wait_storecnt 0x0"),
             kUnordered),
      blocks("InvalidationOfTooFew", "gfx1201", kTicketOfGfx12,
             with(kTicketOfGfx12, "global_inv scope:SCOPE_DEV", "global_inv scope:SCOPE_SE"), kStale),
      blocks("TicketsOfABlock", "gfx1201", kTicketOfGfx12,
             with(kTicketOfGfx12, "global_atomic_add_u32 v6, v5, v4, s[2:3] th:TH_ATOMIC_RETURN scope:SCOPE_DEV",
                  "global_atomic_add_u32 v6, v5, v4, s[2:3] th:TH_ATOMIC_RETURN"),
             "an atomic within a block"),
      blocks("NoWriteBackOfL2", "gfx942", kTicketOfCdna, without(kTicketOfCdna, "buffer_wbl2 sc1"), kUnordered),
      blocks("WriteBackOfTooLittle", "gfx942", kTicketOfCdna, with(kTicketOfCdna, "buffer_wbl2 sc1", "buffer_wbl2 sc0"),
             kUnordered),
      blocks("NoWaitForTheWriteBack", "gfx942", kTicketOfCdna,
             with(kTicketOfCdna, "s_waitcnt vmcnt(0) lgkmcnt(0)", "s_waitcnt lgkmcnt(0)"), kUnordered),
      blocks("InvalidationOfOneL2", "gfx942", kTicketOfCdna, with(kTicketOfCdna, "buffer_inv sc1", "buffer_inv sc0"),
             kStale),
      blocks("NoInvalidationOfGfx90a", "gfx90a", kTicketOfGfx90a, without(kTicketOfGfx90a, "buffer_wbinvl1_vol"),
             kStale),
      blocks("BlocksWriteDifferentValues", "gfx1100", kSameWord,
             with(kSameWord, "v_mov_b32_e32 v2, 7", "v_mov_b32_e32 v2, s15"), kUnordered),
      blocks("AScalarLoadOfWhatIsWritten", "gfx1100", kScalar,
             with(kScalar, "s_load_b32 s4, s[2:3], 0x4", "s_load_b32 s4, s[2:3], null"), "a scalar load of memory"),
  };
}

// Two blocks, on two threads, meet at each counter; the second sets it back by a plain store.
TEST(MachineCodeVisibilityOfBlocks, TheLastToArriveMayStoreWithoutMore) {
  constexpr uint32_t kCounters = 1 << 16;
  const Kernel kernel = program(
      {"s_load_b64 s[2:3], s[0:1], null", "s_lshr_b32 s4, s15, 1", "s_lshl_b32 s4, s4, 2", "v_mov_b32_e32 v1, s4",
       "v_mov_b32_e32 v2, 1", "v_mov_b32_e32 v4, 0", "s_mov_b32 exec_lo, 1", "s_waitcnt lgkmcnt(0)",
       "global_atomic_add_u32 v3, v1, v2, s[2:3] glc", "s_waitcnt vmcnt(0)", "v_readfirstlane_b32 s5, v3",
       "s_cmp_lg_u32 s5, 1", "s_cbranch_scc1 done", "global_store_b32 v1, v4, s[2:3]", "done:", "s_endpgm"});
  std::vector<uint32_t> counters(kCounters);
  MemoryMap memory;
  memory.allow(counters.data(), counters.size() * 4, true);
  const uint32_t* args = counters.data();
  Launch launch;
  launch.grid = {2 * kCounters, 1, 1};
  launch.n_threads = 32;
  launch.n_workers = 4;
  const auto done = isa::run(kernel, launch, std::as_bytes(std::span(&args, 1)), memory);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(std::ranges::count(counters, 0u), kCounters);
}

INSTANTIATE_TEST_SUITE_P(, MachineCodeVisibility, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace rocmforge::gpu::isa
