// How loaders share streams, and that weights which several loaders bring at once arrive.

#include "gpu/placement.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "gpu/emu/device.h"

namespace rocmforge {
namespace {

int n_streams_made = 0;

// The emulation under another module's name, counting streams.
const gpu::GpuApi& counted(const char* module) {
  static gpu::GpuApi api;
  api = gpu::emu::api();
  api.module = module;
  api.make_stream = [](gpu::GpuDevice* device, gpu::GpuStream** stream) {
    n_streams_made++;
    return gpu::emu::api().make_stream(device, stream);
  };
  return api;
}

class Placements : public ::testing::TestWithParam<const char*> {};

TEST_P(Placements, BringWhatLoadersLandAtOnce) {
  constexpr size_t kLoaders = 6, kRounds = 8, kElements = 1000;
  const auto device = gpu::Device::open(counted(GetParam()), 0);
  ASSERT_TRUE(device.ok()) << device.error().message;
  GpuPlacement placement(**device);
  const WeightShape shape{DType::f32, kElements, 1};
  const uint64_t n_bytes = placement.packed_bytes(shape), step = (n_bytes + 255) / 256 * 256;
  n_streams_made = 0;
  ASSERT_TRUE(placement.reserve(kLoaders * kRounds * step, kLoaders).ok());
  const bool is_hip = std::string_view(GetParam()) == "hip";
  EXPECT_EQ(n_streams_made, is_hip ? 2 : static_cast<int>(kLoaders));

  const auto value = [](size_t weight) {
    std::vector<float> values(kElements);
    std::iota(values.begin(), values.end(), static_cast<float>(weight * kElements));
    return values;
  };
  std::vector<std::thread> loaders;
  for (size_t loader = 0; loader < kLoaders; loader++) {
    loaders.emplace_back([&, loader] {
      for (size_t round = 0; round < kRounds; round++) {
        const size_t weight = loader * kRounds + round;
        const auto values = value(weight);
        const auto staging = placement.staging(loader).value();
        std::memcpy(staging.data(), values.data(), n_bytes);
        EXPECT_TRUE(placement.land(weight * step, shape, 0, staging.first(n_bytes), loader).ok());
        EXPECT_TRUE(placement.finish(weight * step, shape, loader).ok());
      }
    });
  }
  for (std::thread& t : loaders) t.join();

  const auto stream = gpu::Stream::make(**device).value();
  ASSERT_TRUE(placement.make_visible(stream).ok());
  const auto host = gpu::Memory::allocate(**device, gpu::Memory::Kind::pinned, n_bytes).value();
  for (size_t weight = 0; weight < kLoaders * kRounds; weight++) {
    ASSERT_TRUE(stream.copy(host.data(), placement.base() + weight * step, n_bytes, gpu::CopyKind::to_host).ok());
    ASSERT_TRUE(stream.finish().ok());
    EXPECT_EQ(std::memcmp(host.data(), value(weight).data(), n_bytes), 0) << weight;
  }
}

INSTANTIATE_TEST_SUITE_P(, Placements, ::testing::Values("hip", "emu"), [](const auto& test) { return test.param; });

}  // namespace
}  // namespace rocmforge
