#include "gpu/device_class.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "gpu/dry_device.h"
#include "gpu/emu/device.h"
#include "gpu/pass_view.h"

namespace rocmforge::gpu {
namespace {

bool are_equal(const Target& a, const Target& b) {
  return a.wave == b.wave && a.has_hopper == b.has_hopper && a.has_mma == b.has_mma &&
         a.has_matrix_unit == b.has_matrix_unit && a.tile_order == b.tile_order;
}

TEST(DeviceClass, IsFoundByItsNameAlone) {
  std::set<std::string> names;
  for (const DeviceClass& each : device_classes()) {
    EXPECT_EQ(find_device_class(each.name), &each);
    names.insert(each.name);
  }
  EXPECT_EQ(names.size(), device_classes().size());
  for (const char* const name : {"", "hoppe", "Hopper", "hopper "}) EXPECT_EQ(find_device_class(name), nullptr);
}

TEST(DeviceClass, OfTheEmulationIsWhatItsFirstDeviceReports) {
  const auto backend = GpuBackend::open(emu::api(), 0);
  ASSERT_TRUE(backend.ok()) << backend.error().message;
  EXPECT_TRUE(are_equal(*target_of(**backend), find_device_class("emulation")->target));
}

// Beside the emulation, whose handles are of other types.
TEST(DryDevice, ReportsTheTargetThatItWasOpenedWith) {
  for (const DeviceClass& each : device_classes()) {
    const auto backend = GpuBackend::open(dry_api({each.name, each.target, [](const DryLaunch&) {}}), 0);
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    EXPECT_TRUE(are_equal(*target_of(**backend), each.target)) << each.name;
  }
}

}  // namespace
}  // namespace rocmforge::gpu
