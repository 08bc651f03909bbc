// Distances that software must keep: each is right with the instructions between that the documents ask for, and is
// found without one of them.

#include "gpu/isa/hazards.h"

#include <algorithm>

#include "support/machine_program.h"

namespace rocmforge::gpu::isa {
namespace {

using testing::program;
using Lines = std::vector<std::string>;

struct Case {
  std::string name, target;
  std::string first, guard;  // the guard stands between the two
  std::string then;
  std::string too_little;  // in place of the guard; empty: nothing

  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

class MachineCodeHazards : public ::testing::TestWithParam<Case> {};

std::string hazard_of(const Case& c, const std::string& between) {
  Lines lines = {c.first, between, c.then, "s_endpgm"};
  std::erase(lines, "");
  return find_hazard(program(lines, c.target));
}

TEST_P(MachineCodeHazards, IsFoundAndOnlyIt) {
  const Case& c = GetParam();
  EXPECT_EQ(hazard_of(c, c.guard), "");
  for (const std::string& between : {std::string(), c.too_little}) {
    const std::string found = hazard_of(c, between);
    EXPECT_NE(found.find('"' + c.then + "\" at"), std::string::npos) << found;
    EXPECT_NE(found.find("after \"" + c.first), std::string::npos) << found;
  }
}

const std::string kMfma = "v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[10:11], v[0:3]";
const std::string kOldMfma = "v_mfma_f32_16x16x16f16 a[0:3], v[8:9], v[10:11], a[0:3]";
const std::string kWmma = "v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]";

std::vector<Case> cases() {
  return {
      {"ProductsAreReadByTheVectorUnit", "gfx942", kMfma, "s_nop 6", "v_add_f32_e32 v20, v3, v4", "s_nop 5"},
      {"ProductsAreReadByTheVectorUnitOfGfx90a", "gfx90a", kOldMfma, "s_nop 10", "v_accvgpr_read_b32 v20, a3",
       "s_nop 9"},
      {"ProductsAreStored", "gfx942", kMfma, "s_nop 6", "global_store_dwordx4 v20, v[0:3], s[4:5]", "s_nop 5"},
      {"ProductsAreStoredInSharedMemory", "gfx942", kMfma, "s_nop 6", "ds_write_b32 v20, v1", "s_nop 5"},
      {"ProductsAreOverwritten", "gfx942", kMfma, "s_nop 6", "v_mov_b32_e32 v2, 0", "s_nop 5"},
      {"ProductsAreFactors", "gfx942", kMfma, "s_nop 6", "v_mfma_f32_16x16x16_f16 v[20:23], v[2:3], v[10:11], v[20:23]",
       "s_nop 5"},
      {"ProductsArePartlySums", "gfx942", kMfma, "s_nop 4", "v_mfma_f32_16x16x16_f16 v[2:5], v[8:9], v[10:11], v[2:5]",
       "s_nop 3"},
      {"SumsAreOverwrittenBeforeTheyAreRead", "gfx942", "v_mfma_f32_16x16x16_f16 a[0:3], v[8:9], v[10:11], v[0:3]",
       "s_nop 2", "v_mov_b32_e32 v1, 0", "s_nop 1"},
      {"FactorsAreWrittenByTheVectorUnit", "gfx942", "v_mov_b32_e32 v9, 0", "s_nop 1", kMfma, "s_nop 0"},
      {"LanesAreChosenBeforeAProduct", "gfx90a", "v_cmpx_gt_u32_e32 vcc, 4, v5", "s_nop 3", kOldMfma, "s_nop 2"},
      {"DotProductsAreReadByOthers", "gfx942", "v_dot4c_i32_i8_e32 v2, v0, v1", "s_nop 2", "v_add_u32_e32 v3, v2, v2",
       "s_nop 1"},
      {"DotProductsAreFactors", "gfx90a", "v_dot4_i32_i8 v2, v0, v1, v2", "s_nop 2", "v_dot4_i32_i8 v3, v2, v1, v3",
       "s_nop 1"},
      {"QuotientsLookAtTheCondition", "gfx90a", "v_cmp_gt_u32_e32 vcc, 4, v5", "s_nop 3",
       "v_div_fmas_f32 v0, v1, v2, v3", "s_nop 2"},
      {"LanesAreNamedByTheVectorUnit", "gfx90a", "v_readfirstlane_b32 s4, v0", "s_nop 3", "v_readlane_b32 s5, v1, s4",
       "s_nop 2"},
      {"BasesComeFromTheVectorUnit", "gfx90a", "v_readfirstlane_b32 s4, v0", "s_nop 4",
       "global_load_dword v1, v2, s[4:5]", "s_nop 3"},
      {"WideStoresLoseTheirData", "gfx90a", "global_store_dwordx4 v0, v[4:7], s[4:5]", "s_nop 0", "v_mov_b32_e32 v5, 0",
       ""},
      {"WideStoresLoseTheirDataOnGfx942", "gfx942", "global_store_dwordx4 v0, v[4:7], s[4:5]", "s_nop 1",
       "v_mov_b32_e32 v5, 0", "s_nop 0"},
      {"ScalarsOfTheVectorUnitAreRead", "gfx942", "v_cmp_gt_u32_e32 vcc, 4, v5", "s_nop 1",
       "v_cndmask_b32_e32 v0, v1, v2, vcc", "s_nop 0"},
      {"FunctionsAreRead", "gfx942", "v_rcp_f32_e32 v0, v1", "s_nop 0", "v_mul_f32_e32 v2, v0, v0", ""},
      {"PartsOfRegistersAreRead", "gfx942",
       "v_add_u32_sdwa v2, v0, v1 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD src1_sel:DWORD", "s_nop 0",
       "v_mov_b32_e32 v3, v2", ""},
      {"LanesOfResultsAreRead", "gfx942", "v_mov_b32_e32 v1, 0", "s_nop 0", "v_readfirstlane_b32 s4, v1", ""},
      {"FunctionsAreReadOnGfx11", "gfx1100", "v_rcp_f32_e32 v0, v1", "s_waitcnt_depctr 0xfff",
       "v_mul_f32_e32 v2, v0, v0", "s_nop 7"},
      {"FunctionsAreReadBehindTheMemoryUnit", "gfx1100", "v_rcp_f32_e32 v0, v1", "buffer_gl0_inv",
       "v_mul_f32_e32 v2, v0, v0", "s_barrier"},
      {"LanesAreMoved", "gfx942", "v_mov_b32_e32 v1, 0", "s_nop 1",
       "v_mov_b32_dpp v2, v1 row_shr:1 row_mask:0xf bank_mask:0xf", "s_nop 0"},
      {"TilesAreFactors", "gfx1100", kWmma, "v_nop", "v_wmma_f32_16x16x16_f16 v[24:31], v[0:7], v[16:23], v[24:31]",
       "s_nop 7"},
      {"TilesAreFactorsOnGfx12", "gfx1201", "v_wmma_f32_16x16x16_f16 v[0:7], v[8:11], v[12:15], v[0:7]", "v_nop",
       "v_wmma_f32_16x16x16_f16 v[24:31], v[8:11], v[4:7], v[24:31]", "s_nop 7"},
  };
}

INSTANTIATE_TEST_SUITE_P(, MachineCodeHazards, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

TEST(MachineCodeHazard, IsFoundAcrossBranches) {
  const Lines lines = {"again:", "v_add_f32_e32 v20, v3, v4", "s_nop 7", kMfma, "s_cbranch_scc1 again", "s_endpgm"};
  EXPECT_NE(find_hazard(program(lines, "gfx942")), "");
  Lines guarded = lines;
  guarded[1].swap(guarded[2]);
  EXPECT_EQ(find_hazard(program(guarded, "gfx942")), "");
}

// A vector instruction reads s4, a scalar one writes its pair, and one of either kind reads it.
TEST(MachineCodeHazard, OldScalarsOfGfx12) {
  const std::string read = "v_add_nc_u32_e32 v1, s4, v1", write = "s_mov_b32 s5, 1", wait = "s_wait_alu 0xfffe";
  const auto hazard = [](const Lines& lines, const std::string& target = "gfx1201") {
    return find_hazard(program(lines, target));
  };
  for (const std::string use : {"s_add_co_i32 s6, s4, 1", "v_mov_b32_e32 v2, s5", "s_cmp_eq_u32 s4, 0"}) {
    const std::string found = hazard({read, write, use, "s_endpgm"});
    EXPECT_NE(found.find('"' + use + "\" at"), std::string::npos) << found;
    EXPECT_EQ(hazard({read, write, wait, use, "s_endpgm"}), "");
    EXPECT_NE(hazard({read, write, "s_wait_alu 0xffff", use, "s_endpgm"}), "") << "it waits for nothing";
    EXPECT_EQ(hazard({write, use, read, "s_endpgm"}), "") << "no vector instruction has read it before";
    EXPECT_EQ(hazard({read, "s_mov_b32 s6, 1", use, "s_endpgm"}), "") << "another pair is written";
    EXPECT_EQ(hazard({read, write, use, "s_endpgm"}, "gfx1100"), "") << "only gfx12 has it";
  }
  // Around a loop, and on one of two paths.
  EXPECT_NE(hazard({"again:", "s_add_co_i32 s6, s4, 1", read, write, "s_cbranch_scc1 again", "s_endpgm"}), "");
  EXPECT_NE(hazard({read, write, "s_cbranch_scc1 there", wait, "there:", read, "s_endpgm"}), "");
  EXPECT_EQ(hazard({read, write, wait, "s_cbranch_scc1 there", "there:", read, "s_endpgm"}), "");
}

TEST(MachineCodeHazard, EndsALaunch) {
  const Kernel kernel = program({"v_rcp_f32_e32 v1, v0", "v_mul_f32_e32 v2, v1, v1", "s_endpgm"});
  Launch launch;
  launch.grid = {1, 1, 1};
  const auto done = run(kernel, launch, {}, MemoryMap());
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message.find("comes too early"), std::string::npos) << done.error().message;
}

}  // namespace
}  // namespace rocmforge::gpu::isa
