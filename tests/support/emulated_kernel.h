#pragma once
// For tests of kernels: an emulated device, vectors that go there and back, each in guarded memory of its own.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "gpu/emu/device.h"
#include "gpu/packed/planes.h"
#include "support/support.h"
#include "tensor/codec.h"
#include "tensor/half.h"

namespace rocmforge::gpu::testing {

// A vector in device memory.
template <class T>
class OnDevice {
 public:
  OnDevice(const Device& device, std::span<const T> values)
      : n_(values.size()),
        memory_(Memory::allocate(device, Memory::Kind::device, std::max<size_t>(1, values.size_bytes())).value()) {
    std::memcpy(memory_.data(), values.data(), values.size_bytes());
  }
  OnDevice(const Device& device, size_t n)
      : n_(n), memory_(Memory::allocate(device, Memory::Kind::device, std::max<size_t>(1, n * sizeof(T))).value()) {}

  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  std::vector<T> values() const { return {data(), data() + n_}; }

 private:
  size_t n_;
  Memory memory_;
};

// Runs every test on devices of the emulation, in both orders.
class KernelTest : public ::testing::TestWithParam<std::tuple<uint32_t, emu::Order>> {
 protected:
  void SetUp() override {
    emu::controls().order = std::get<1>(GetParam());
    device_ = Device::open(emu::api(), std::get<0>(GetParam())).value();
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
  void run(const char* file, const std::string& kernel, Grid grid, uint32_t n_threads, const Args& args) {
    const auto found = device_->find(file, kernel.c_str());
    ASSERT_TRUE(found.ok()) << found.error().message;
    const auto launched = stream_.launch(*found, grid, n_threads, args);
    ASSERT_TRUE(launched.ok()) << launched.error().message;
    stream_.finish().value();
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

inline auto all_devices() {
  return ::testing::Combine(::testing::Range(0u, emu::kNumDevices),
                            ::testing::Values(emu::Order::forward, emu::Order::reverse));
}
// One of each wave size: enough for kernels without fragments.
inline auto both_waves() {
  return ::testing::Combine(::testing::Values(0u, 1u), ::testing::Values(emu::Order::forward, emu::Order::reverse));
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
