#include "cpu/isa/choose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/log.h"
#include "cpu/backend.h"

namespace rocmforge::cpu {
namespace {

TEST(ChooseKernels, ScalarIsAlwaysThereAndTheBestIsLast) {
  EXPECT_EQ(available_kernels().front(), &scalar_kernels());
  EXPECT_EQ(&choose_kernels(nullptr), available_kernels().back());
  EXPECT_EQ(&choose_kernels(""), available_kernels().back());
}

TEST(ChooseKernels, GivesTheOneThatIsNamed) {
  for (const Kernels* kernels : available_kernels()) {
    EXPECT_EQ(&choose_kernels(kernels->name), kernels);
    const CpuBackend backend({.n_threads = 2, .kernels = kernels});
    EXPECT_EQ(backend.name(), std::string("cpu (") + kernels->name + ", 2 threads)");
  }
}

// Which of the tests below and in the other files run here.
TEST(ChooseKernels, EveryTableIsTestedHere) {
#if defined(__x86_64__)
  constexpr size_t kTables = 4;
#else
  constexpr size_t kTables = 1;
#endif
  if (available_kernels().size() < kTables) {
    GTEST_SKIP() << "this machine's best instruction set is " << available_kernels().back()->name
                 << "; the kernels beyond it are not tested";
  }
}

TEST(ChooseKernels, TheEnvironmentForcesOne) {
  for (const Kernels* kernels : available_kernels()) {
    ASSERT_EQ(setenv("ROCMFORGE_CPU", kernels->name, 1), 0);
    EXPECT_EQ(&CpuBackend().kernels(), kernels);
  }
  unsetenv("ROCMFORGE_CPU");
}

TEST(ChooseKernels, AnUnknownNameCostsAWarning) {
  std::vector<std::string> said;
  const LogCapture capture([&](LogLevel, std::string_view text) { said.emplace_back(text); });
  EXPECT_EQ(&choose_kernels("avx9000"), available_kernels().back());
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("avx9000"), std::string::npos);
}

TEST(SelfTest, PassesForEveryTable) {
  for (const Kernels* kernels : available_kernels()) EXPECT_TRUE(passes_self_test(*kernels)) << kernels->name;
}

// Each function in turn is replaced by one that is slightly wrong.
TEST(SelfTest, NoticesAWrongFunction) {
  const auto fails = [](auto&& change) {
    Kernels broken = *available_kernels().back();
    change(broken);
    return !passes_self_test(broken);
  };
  EXPECT_TRUE(fails([](Kernels& k) { k.matmul_f32 = [](const FloatRows&, const Tokens<float>&) {}; }));
  EXPECT_TRUE(fails([](Kernels& k) { k.matmul_f16 = k.matmul_bf16; }));
  EXPECT_TRUE(fails([](Kernels& k) { k.matmul_bf16 = k.matmul_f16; }));
  EXPECT_TRUE(fails([](Kernels& k) {
    k.weighted_sum_f16 = [](const FloatRows&, const Tokens<float>&, const float*, const void*) {};
  }));
  EXPECT_TRUE(fails([](Kernels& k) { k.silu_multiply = k.gelu_multiply; }));
  EXPECT_TRUE(fails([](Kernels& k) { k.add_scores = [](RunningSoftmax&, float*, size_t, float) { return 1.0f; }; }));
  EXPECT_TRUE(fails([](Kernels& k) { k.add = [](float*, const float*, size_t) {}; }));
  EXPECT_TRUE(fails([](Kernels& k) {
    k.rms_norm = [](float* to, const float* from, const float*, size_t n, float) { std::copy_n(from, n, to); };
  }));
}

TEST(SelfTest, NoticesAWrongPackedFormat) {
  const Kernels& best = *available_kernels().back();
  for (size_t i = 0; i < best.n_packed; i++) {
    std::vector<PackedFormat> formats(best.packed, best.packed + best.n_packed);
    Kernels broken = best;
    broken.packed = formats.data();
    formats[i].pack = [](void*, const void*, size_t) {};
    EXPECT_FALSE(passes_self_test(broken)) << i;
    formats[i] = best.packed[i];
    formats[i].matmul = [](const PackedUnits&, const Tokens<void>&) {};
    EXPECT_FALSE(passes_self_test(broken)) << i;
  }
}

}  // namespace
}  // namespace rocmforge::cpu
