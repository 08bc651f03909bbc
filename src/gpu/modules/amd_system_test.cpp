// Judging a machine's AMD GPUs from trees of files.

#include "gpu/modules/amd_system.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/support.h"

namespace rocmforge::gpu::amd_system {
namespace {

class AmdSystem : public ::testing::Test {
 protected:
  std::string root() const { return dir_.path(); }
  void put(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  testing::TempDir dir_;
};

TEST_F(AmdSystem, TheLoadersLibrariesComeFirstThenRocmsNewestFirst) {
  for (const char* path : {"/opt/rocm-6.4.1/lib/libamdhip64.so.6", "/opt/rocm-7.1.0/lib/libamdhip64.so.7",
                           "/usr/lib64/rocm/lib/libamdhip64.so.6", "/home/rocm/lib/libamdhip64.so.6"}) {
    put(path, "");
  }
  const std::vector<std::string> expected = {"libamdhip64.so.7",
                                             "libamdhip64.so.6",
                                             "libamdhip64.so.5",
                                             root() + "/opt/rocm-7.1.0/lib/libamdhip64.so.7",
                                             root() + "/home/rocm/lib/libamdhip64.so.6",
                                             root() + "/opt/rocm-6.4.1/lib/libamdhip64.so.6",
                                             root() + "/usr/lib64/rocm/lib/libamdhip64.so.6"};
  EXPECT_EQ(library_candidates(root(), root() + "/home/rocm"), expected);
}

TEST_F(AmdSystem, MissingRightsNameTheNodeAndTheGroups) {
  const auto nobody = [](const std::string&) { return false; };
  EXPECT_EQ(missing_rights(root(), nobody), "");  // no driver: not a matter of rights
  put("/dev/kfd", "");
  put("/dev/dri/renderD128", "");
  EXPECT_EQ(missing_rights(root(), [](const std::string&) { return true; }), "");
  EXPECT_NE(missing_rights(root(), nobody).find("may not open /dev/kfd: sudo usermod -aG render,video"),
            std::string::npos);
  const auto only_kfd = [](const std::string& path) { return path.ends_with("kfd"); };
  EXPECT_NE(missing_rights(root(), only_kfd).find("/dev/dri/renderD128"), std::string::npos);
}

TEST_F(AmdSystem, ACardIsFoundByItsPlaceOnTheBus) {
  const std::string nodes = "/sys/class/kfd/kfd/topology/nodes/";
  put(nodes + "0/properties", "cpu_cores_count 16\ngfx_target_version 0\n");
  put(nodes + "1/properties", "simd_count 192\nsimd_per_cu 2\ngfx_target_version 110000\nlocation_id 768\ndomain 0\n");
  put(nodes + "2/properties", "simd_count 4\nsimd_per_cu 2\ngfx_target_version 100306\nlocation_id 4096\ndomain 0\n");
  put("/sys/bus/pci/devices/0000:10:00.0/mem_info_vram_total", "536870912\n");
  put("/sys/bus/pci/devices/0000:10:00.0/mem_info_gtt_total", "16106127360\n");
  const Card card = card_at(root(), "0000:03:00.0"), small = card_at(root(), "0000:10:00.0");
  EXPECT_EQ(card.target, "gfx1100");
  EXPECT_EQ(card.n_units, 96u);
  EXPECT_EQ(card.shared_bytes, 0u);
  EXPECT_EQ(small.target, "gfx1036");
  EXPECT_EQ(small.n_units, 2u);
  EXPECT_EQ(small.shared_bytes, 536870912u + 16106127360u);
  for (const char* id : {"0000:04:00.0", "", "nonsense", "0001:03:00.0"})
    EXPECT_EQ(card_at(root(), id).target, "") << id;
}

TEST(AmdSystemCode, ARefusalNamesTheCardsTargetAndTheShippedOnes) {
  const std::string shipped = "gfx90a gfx1100 gfx1151";
  EXPECT_EQ(why_no_code("gfx1010", shipped), "this is a gfx1010, and there is code for gfx90a gfx1100 gfx1151");
  EXPECT_EQ(why_no_code("gfx110", shipped), "this is a gfx110, and there is code for gfx90a gfx1100 gfx1151");
  EXPECT_EQ(why_no_code("", shipped), "there is code for gfx90a gfx1100 gfx1151");
  EXPECT_EQ(why_no_code("gfx1151", shipped),
            "there is code for this gfx1151: ROCm may be too old for it, 7.0 is the first that knows it");
  EXPECT_EQ(why_no_code("gfx90a", shipped), "there is code for this gfx90a: ROCm may be too old for it");
}

TEST_F(AmdSystem, FilesThatAreNoneOfTheDriversGiveNothing) {
  put("/sys/class/kfd/kfd/topology/nodes/1/properties", "gfx_target_version many\n\xff\xfe 3\n");
  EXPECT_EQ(card_at(root(), "0000:03:00.0").target, "");
}

}  // namespace
}  // namespace rocmforge::gpu::amd_system
