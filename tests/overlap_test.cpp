// Loading runs behind the computation. A test of its own because it measures time: nothing else may run beside it.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/loaded_model.h"
#include "support/support.h"
#include "support/tiny_model.h"

namespace rocmforge {
namespace {

using testing::LoadedModel;
using testing::some_tokens;
using testing::TempDir;
using testing::TinyModel;

// Layer N computes while N+1.. are read. The reader is throttled so that loading takes about as long as computing, and
// both are made long enough to measure.
TEST(Lazy, LoadingOverlapsComputing) {
  const TempDir dir;
  TinyModel{.n_vocab = 512, .width = 256, .ff_width = 1024, .n_layers = 12}.write(dir.file("m.gguf"));
  const auto tokens = some_tokens(192, 512);
  using Seconds = std::chrono::duration<double>;
  const auto timed = [&](auto&& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return Seconds(std::chrono::steady_clock::now() - start).count();
  };
  std::atomic<double> seconds_per_byte = 0;
  FileCalls calls;
  calls.pread = [&](int fd, void* to, size_t n, off_t offset) {
    const ssize_t got = ::pread(fd, to, n, offset);
    if (got > 0) std::this_thread::sleep_for(Seconds(static_cast<double>(got) * seconds_per_byte));
    return got;
  };
  const LoadedModel model = LoadedModel::open(dir.file("m.gguf"), 1, &calls, 1);
  WeightStore& weights = model.plan->weights();
  Session session = model.session(KvType::f16, 256);
  ASSERT_TRUE(session.evaluate(tokens).ok());
  double best_ratio = 1;
  for (int attempt = 0; attempt < 10 && best_ratio > 0.75; attempt++) {
    session.rewind(0);
    const double compute = timed([&] { ASSERT_TRUE(session.evaluate(tokens).ok()); });
    seconds_per_byte = compute / static_cast<double>(weights.loading_stats().total_bytes);
    weights.clear();
    const double load = timed([&] { ASSERT_TRUE(weights.preload_all().ok()); });
    weights.clear();
    session.rewind(0);
    const double both = timed([&] { ASSERT_TRUE(session.evaluate(tokens).ok()); });
    seconds_per_byte = 0;
    best_ratio = std::min(best_ratio, both / (load + compute));
  }
  EXPECT_LE(best_ratio, 0.75);
}

}  // namespace
}  // namespace rocmforge
