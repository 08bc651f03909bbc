#pragma once
// For tests of kernels: devices, and vectors that go there and back.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "gpu/emu/device.h"
#include "gpu/module.h"
#include "gpu/packed/planes.h"
#include "support/support.h"
#include "tensor/codec.h"
#include "tensor/half.h"

namespace rocmforge::gpu::testing {

// Devices by number: those of the emulation, then the first GPU of the machine when the tests are told where its module
// lies (ROCMFORGE_TEST_MODULES=folder).
inline constexpr uint32_t kRealDevice = emu::kNumDevices;

inline Result<std::unique_ptr<Device>> open_test_device(uint32_t number) {
  if (number < emu::kNumDevices) return Device::open(emu::api(), number);
  const char* folder = std::getenv("ROCMFORGE_TEST_MODULES");
  if (folder == nullptr) return Error{ErrorCode::device_unavailable, "no folder of modules was named"};
  const Survey survey = find_devices({folder});
  if (survey.devices.empty()) return Error{ErrorCode::device_unavailable, "this machine has no GPU"};
  return Device::open(*TRY(open_module(survey.devices[0].module, {folder})), survey.devices[0].index);
}

// A vector in device memory of its own. On the emulation that memory is guarded.
template <class T>
class OnDevice {
 public:
  OnDevice(const Device& device, size_t n)
      : n_(n),
        memory_(Memory::allocate(device, Memory::Kind::device, n_bytes()).value()),
        pinned_(Memory::allocate(device, Memory::Kind::pinned, n_bytes()).value()),
        stream_(Stream::make(device).value()) {}
  OnDevice(const Device& device, std::span<const T> values) : OnDevice(device, values.size()) {
    if (values.empty()) return;
    std::memcpy(pinned_.data(), values.data(), values.size_bytes());
    stream_.copy(memory_.data(), pinned_.data(), n_bytes(), CopyKind::to_device).value();
    stream_.finish().value();
  }

  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  std::vector<T> values() const {
    stream_.copy(pinned_.data(), memory_.data(), n_bytes(), CopyKind::to_host).value();
    stream_.finish().value();
    const T* first = reinterpret_cast<const T*>(pinned_.data());
    return {first, first + n_};
  }

 private:
  size_t n_bytes() const { return std::max<size_t>(1, n_ * sizeof(T)); }

  size_t n_;
  Memory memory_, pinned_;
  Stream stream_;
};

// Runs every test on several devices, on the emulation in both orders.
class KernelTest : public ::testing::TestWithParam<std::tuple<uint32_t, emu::Order>> {
 protected:
  void SetUp() override {
    emu::controls().order = std::get<1>(GetParam());
    auto device = open_test_device(std::get<0>(GetParam()));
    if (!device.ok() && std::get<0>(GetParam()) == kRealDevice) GTEST_SKIP() << device.error().message;
    device_ = std::move(device).value();
    stream_ = Stream::make(*device_).value();
  }
  void TearDown() override {
    stream_ = {};
    emu::controls().order = emu::Order::forward;
  }

  template <class T>
  OnDevice<T> put(const std::vector<T>& values) {
    return OnDevice<T>(*device_, std::span<const T>(values));
  }
  OnDevice<float> space(size_t n) { return OnDevice<float>(*device_, n); }

  template <class Args>
  void run(const char* file, const std::string& kernel, LaunchShape shape, const Args& args) {
    const auto found = device_->find(file, kernel.c_str());
    ASSERT_TRUE(found.ok()) << found.error().message;
    const auto launched = stream_.launch(*found, shape, args);
    ASSERT_TRUE(launched.ok()) << launched.error().message;
    stream_.finish().value();
  }
  template <class Args>
  void run(const char* file, const std::string& kernel, Grid grid, uint32_t n_threads, const Args& args) {
    run(file, kernel, {grid, n_threads}, args);
  }

  std::vector<float> noise(size_t n, float scale = 1.0f) {
    std::normal_distribution<float> normal(0, scale);
    std::vector<float> out(n);
    for (float& v : out) v = normal(rng_);
    return out;
  }

  std::unique_ptr<Device> device_;
  Stream stream_;
  std::mt19937_64 rng_ = rocmforge::testing::seeded_rng();
};

inline auto devices_and_orders(std::vector<uint32_t> emulated) {
  std::vector<std::tuple<uint32_t, emu::Order>> out = {{kRealDevice, emu::Order::forward}};
  for (const uint32_t device : emulated) {
    for (const emu::Order order : {emu::Order::forward, emu::Order::reverse}) out.emplace_back(device, order);
  }
  return ::testing::ValuesIn(out);
}
inline auto all_devices() {
  return devices_and_orders({0, 1, 2, 3, 4});
}
// One of each wave size: enough for kernels without fragments.
inline auto both_waves() {
  return devices_and_orders({0, 1});
}

// sum((a - b)^2) / sum(b^2)
inline double nmse(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double error = 0, norm = 0;
  for (size_t i = 0; i < a.size(); i++) {
    error += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return error / norm;
}

}  // namespace rocmforge::gpu::testing
