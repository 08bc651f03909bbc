// The emulation itself: what kernels may do, what they may not, and streams that are as late as the rules allow.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "gpu/device.h"
#include "gpu/emu/device.h"
#include "gpu/emu/rules.h"
#include "support/support.h"

namespace rocmforge::gpu {
namespace {

class Emulation : public ::testing::TestWithParam<std::tuple<uint32_t, emu::Order>> {
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

  Memory copy_of(std::span<const float> values) {
    Memory out = Memory::allocate(*device_, Memory::Kind::device, values.size_bytes()).value();
    std::memcpy(out.data(), values.data(), values.size_bytes());
    return out;
  }
  std::vector<float> run(const char* kernel, std::span<const float> in, size_t n_out, uint32_t n_blocks = 1,
                         uint32_t shared_bytes = 0) {
    const Memory from = copy_of(in);
    const Memory to = copy_of(std::vector<float>(n_out));
    const RulesArgs args{reinterpret_cast<float*>(to.data()), reinterpret_cast<const float*>(from.data())};
    stream_.launch(device_->find("rules", kernel).value(), LaunchShape{{n_blocks}, kRulesThreads, shared_bytes}, args)
        .value();
    stream_.finish().value();
    return {args.out, args.out + n_out};
  }

  std::unique_ptr<Device> device_;
  Stream stream_;
};

std::vector<float> counted(size_t n) {
  std::vector<float> out(n);
  std::iota(out.begin(), out.end(), 1.0f);
  return out;
}

TEST_P(Emulation, KnowsItsWaves) {
  EXPECT_EQ(device_->wave(), emu::kDevices[std::get<0>(GetParam())].wave);
}

TEST_P(Emulation, SumsBlocksThroughShufflesAndSharedMemory) {
  constexpr uint32_t kBlocks = 40;  // enough for several cores
  const auto in = counted(kBlocks * kRulesThreads);
  const auto out = run("sum_block", in, kBlocks, kBlocks);
  for (uint32_t b = 0; b < kBlocks; b++) {
    const float* first = in.data() + b * kRulesThreads;
    EXPECT_EQ(out[b], std::accumulate(first, first + kRulesThreads, 0.0f));
  }
}

TEST_P(Emulation, ABarrierOrdersAndItsLackShows) {
  const auto in = counted(kRulesThreads);
  const std::vector<float> right(in.rbegin(), in.rend());
  EXPECT_EQ(run("reverse_with_barrier", in, kRulesThreads), right);
  // Threads that come first read what nobody wrote: NaN.
  const auto wrong = run("reverse_without_barrier", in, kRulesThreads);
  const size_t first = std::get<1>(GetParam()) == emu::Order::forward ? 0 : kRulesThreads - 1;
  EXPECT_TRUE(std::isnan(wrong[first]));
}

TEST_P(Emulation, DynamicSharedMemoryIsTheLaunches) {
  const auto in = counted(kRulesThreads);
  const std::vector<float> right(in.rbegin(), in.rend());
  EXPECT_EQ(run("reverse_in_dynamic", in, kRulesThreads, 1, kRulesThreads * sizeof(float)), right);

  GpuKernel* kernel = device_->find("rules", "reverse_in_dynamic").value();
  const auto refused = stream_.launch(kernel, {{}, kRulesThreads, 1 << 20}, RulesArgs{});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("shared memory"), std::string::npos) << refused.error().message;
}

TEST_P(Emulation, BallotsShufflesAndAtomics) {
  const auto in = counted(kRulesThreads);
  const auto out = run("count_odd", in, 1 + kRulesThreads);
  EXPECT_EQ(out[0], kRulesThreads / 2);
  const uint32_t wave = device_->wave();
  for (uint32_t t = 0; t < kRulesThreads; t++) EXPECT_EQ(out[1 + t], in[t / wave * wave + (t % wave + 3) % wave]);
}

TEST_P(Emulation, BrokenRulesEndTheProcess) {
  if (std::get<1>(GetParam()) == emu::Order::reverse) GTEST_SKIP() << "one order is enough";
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto in = counted(kRulesThreads);
  EXPECT_DEATH(run("shuffle_in_branch", in, kRulesThreads), "takes no part");
  EXPECT_DEATH(run("barrier_in_branch", in, kRulesThreads), "barrier");
  EXPECT_DEATH(run("past_shared_memory", in, kRulesThreads), "");
  EXPECT_DEATH(run("past_dynamic_shared", in, kRulesThreads, 1, kRulesThreads * sizeof(float)), "");
  EXPECT_DEATH(run("reverse_in_dynamic", in, kRulesThreads), "without dynamic shared memory");
  EXPECT_DEATH(run("without_wait", in, kRulesThreads), "without wait_for_inputs");
  EXPECT_DEATH(run("past_global_memory", in, kRulesThreads), "");
  EXPECT_DEATH(run("unaligned_load", in, kRulesThreads), "aligned");
}

TEST_P(Emulation, FragmentsMultiply) {
  auto rng = testing::seeded_rng();
  std::vector<float> in(1024);
  for (float& v : in) v = static_cast<float>(static_cast<int>(rng() % 17) - 8);  // exact in every type
  for (const char* kernel : {"fragment_f16", "fragment_bf16"}) {
    const auto out = run(kernel, in, 256);
    for (uint32_t m = 0; m < 16; m++) {
      for (uint32_t n = 0; n < 16; n++) {
        float sum = 0;
        for (uint32_t k = 0; k < 32; k++) sum += in[m * 32 + k] * in[512 + n * 32 + k];
        ASSERT_EQ(out[m * 16 + n], sum) << kernel << " at " << m << ", " << n;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Emulation,
                         ::testing::Combine(::testing::Range(0u, emu::kNumDevices),
                                            ::testing::Values(emu::Order::forward, emu::Order::reverse)));

class EmulatedStreams : public ::testing::Test {
 protected:
  std::unique_ptr<Device> device_ = Device::open(emu::api(), 0).value();
  Stream a_ = Stream::make(*device_).value();
  Stream b_ = Stream::make(*device_).value();
  Memory pinned_ = Memory::allocate(*device_, Memory::Kind::pinned, 4).value();
  Memory first_ = Memory::allocate(*device_, Memory::Kind::device, 4).value();
  Memory second_ = Memory::allocate(*device_, Memory::Kind::device, 4).value();

  void set(float v) { std::memcpy(pinned_.data(), &v, sizeof v); }
  static float get(const Memory& memory) {
    float v;
    std::memcpy(&v, memory.data(), sizeof v);
    return v;
  }
};

TEST_F(EmulatedStreams, AForgottenWaitShows) {
  set(7);
  a_.copy(first_.data(), pinned_.data(), 4, CopyKind::to_device).value();
  b_.copy(second_.data(), first_.data(), 4, CopyKind::on_device).value();
  b_.finish().value();
  EXPECT_TRUE(std::isnan(get(second_)));
}

TEST_F(EmulatedStreams, AWaitOrders) {
  const Event event = Event::make(*device_).value();
  b_.wait(event).value();  // never recorded: does not wait
  set(7);
  a_.copy(first_.data(), pinned_.data(), 4, CopyKind::to_device).value();
  a_.record(event).value();
  b_.wait(event).value();
  b_.copy(second_.data(), first_.data(), 4, CopyKind::on_device).value();
  b_.finish().value();
  EXPECT_EQ(get(second_), 7);
}

// A stream that was made later had the address of the one that an event had marked, and the wait was for work that it
// never got.
TEST_F(EmulatedStreams, AnEventOutlivesItsStream) {
  const Event event = Event::make(*device_).value();
  for (int i = 0; i < 3; i++) a_.fill(first_.data(), 1, 4).value();
  a_.record(event).value();
  a_ = {};
  a_ = Stream::make(*device_).value();
  b_.wait(event).value();
  b_.copy(second_.data(), first_.data(), 4, CopyKind::on_device).value();
  b_.finish().value();
  event.finish().value();
  EXPECT_EQ(std::to_integer<int>(*second_.data()), 1);
}

TEST_F(EmulatedStreams, ABufferFilledTooEarlyShows) {
  set(7);
  a_.copy(first_.data(), pinned_.data(), 4, CopyKind::to_device).value();
  set(8);
  a_.finish().value();
  EXPECT_EQ(get(first_), 8);
}

TEST_F(EmulatedStreams, GraphsRunWhatWasCaptured) {
  set(7);
  a_.begin_capture().value();
  a_.copy(first_.data(), pinned_.data(), 4, CopyKind::to_device).value();
  const Graph graph = a_.end_capture().value();
  a_.finish().value();
  EXPECT_TRUE(std::isnan(get(first_)));
  for (float v : {8.0f, 9.0f}) {
    set(v);
    a_.launch(graph).value();
    a_.finish().value();
    EXPECT_EQ(get(first_), v);
  }
}

TEST_F(EmulatedStreams, MemoryHasAnEndAndIsGivenBack) {
  const int64_t held = emu::controls().held_bytes;
  const auto too_much = Memory::allocate(*device_, Memory::Kind::device, 9ull << 30);
  ASSERT_FALSE(too_much.ok());
  EXPECT_EQ(too_much.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(too_much.error().message.find("9.00 GiB"), std::string::npos) << too_much.error().message;
  {
    const Memory some = Memory::allocate(*device_, Memory::Kind::device, 1 << 20).value();
  }
  EXPECT_EQ(emu::controls().held_bytes, held);
}

TEST_F(EmulatedStreams, TheCallThatIsToldToFails) {
  emu::controls().fail_at = emu::controls().n_calls + 1;
  const auto failed = a_.copy(first_.data(), pinned_.data(), 4, CopyKind::to_device);
  emu::controls().fail_at = 0;
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::device_failed);
}

}  // namespace
}  // namespace rocmforge::gpu
