// The code objects of the HIP module, as far as they can be looked at without running them.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "gpu/isa/code_object.h"
#include "gpu/isa/disassemble.h"

namespace rocmforge::gpu::isa {
namespace {

std::vector<std::byte> contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> chars{std::istreambuf_iterator<char>(in), {}};
  const auto* first = reinterpret_cast<const std::byte*>(chars.data());
  return {first, first + chars.size()};
}

std::vector<std::filesystem::path> bundles() {
  std::vector<std::filesystem::path> out;
  std::error_code none;
  for (const auto& file : std::filesystem::directory_iterator(RF_HIP_FOLDER, none)) {
    if (file.path().extension() == ".hipfb") out.push_back(file.path());
  }
  std::ranges::sort(out);
  return out;
}

class MachineCodeOf : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!has_disassembler()) GTEST_SKIP() << "llvm-objdump-19 is not installed";
    if (bundles().empty()) GTEST_SKIP() << "the HIP module is not built (target hip)";
    if (!part_of_bundle(contents(bundles()[0]), GetParam()).ok()) {
      GTEST_SKIP() << "the HIP module was not built for " << GetParam() << " (RF_HIP_TARGETS)";
    }
  }
};

TEST_P(MachineCodeOf, EveryKernelIsModelledAndHasNoHazard) {
  std::map<std::string, std::string> unknown;  // an example of each
  size_t n_kernels = 0;
  for (const auto& path : bundles()) {
    const auto object = CodeObject::load(contents(path), GetParam());
    ASSERT_TRUE(object.ok()) << path << ": " << object.error().message;
    const auto kernels = (*object)->all_kernels();
    ASSERT_TRUE(kernels.ok()) << kernels.error().message;
    n_kernels += kernels->size();
    for (const Kernel* kernel : *kernels) {
      for (const Instruction& i : kernel->instructions) {
        if (i.run == nullptr && i.name != "s_code_end") unknown[i.name] = kernel->name + ": " + i.text;
      }
      EXPECT_EQ(kernel->hazard, "");
    }
  }
  EXPECT_GT(n_kernels, 100u);
  for (const auto& [name, example] : unknown) ADD_FAILURE() << name << " in " << example;
}

INSTANTIATE_TEST_SUITE_P(, MachineCodeOf,
                         ::testing::Values("gfx1100", "gfx942", "gfx1201", "gfx90a", "gfx1030", "gfx1101", "gfx1151",
                                           "gfx1200"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace rocmforge::gpu::isa
