// Which device is used when none is named.

#include "gpu/module.h"

#include <gtest/gtest.h>

namespace rocmforge::gpu {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

FoundDevice card(const char* name, uint64_t memory) {
  return {.id = "", .module = "hip", .name = name, .memory_bytes = memory * kGiB, .n_units = 96, .target = "gfx1100"};
}
FoundDevice integrated(const char* name, uint64_t memory, uint32_t n_units) {
  FoundDevice out = card(name, memory);
  out.is_integrated = true;
  out.n_units = n_units;
  return out;
}
std::string names_for_auto(std::vector<FoundDevice> devices) {
  rank_devices(devices);
  std::string out;
  for (const FoundDevice& found : devices_for_auto(std::move(devices))) out += found.name + " ";
  return out;
}

TEST(AutomaticDevice, IsACardBeforeAnIntegratedGpuOfMoreMemory) {
  EXPECT_EQ(names_for_auto({integrated("Strix", 96, 40), card("7600", 8), card("7900", 24)}), "7900 7600 ");
}
TEST(AutomaticDevice, IsAnIntegratedGpuWhereThereIsNoCard) {
  EXPECT_EQ(names_for_auto({integrated("Strix", 96, 40)}), "Strix ");
}
TEST(AutomaticDevice, IsNeverADesktopProcessorsOwn) {
  EXPECT_EQ(names_for_auto({integrated("Raphael", 32, 2)}), "");
  EXPECT_EQ(names_for_auto({integrated("Raphael", 32, 2), integrated("Strix", 16, 16)}), "Strix ");
  EXPECT_EQ(names_for_auto({integrated("of unknown size", 32, 0)}), "of unknown size ");
}

}  // namespace
}  // namespace rocmforge::gpu
