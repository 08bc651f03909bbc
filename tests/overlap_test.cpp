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
  for (int attempt = 0; attempt < 40 && best_ratio > 0.75; attempt++) {
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

// With a reader of known speed, a model that streams decodes at least at 0.8 x (that speed) / (bytes not resident).
TEST(Lazy, StreamingIsAsFastAsTheReader) {
  constexpr double kBytesPerSecond = 40e6;  // slow enough that waking up late does not count
  const TempDir dir;
  TinyModel{.n_vocab = 128, .width = 256, .ff_width = 1024, .n_layers = 8}.write(dir.file("m.gguf"));
  using Clock = std::chrono::steady_clock;
  std::atomic<bool> is_slow = false;
  FileCalls calls;
  // Every read takes the time its bytes take; there is one reader.
  calls.pread = [&](int fd, void* to, size_t n, off_t offset) {
    const auto start = Clock::now();
    const ssize_t got = ::pread(fd, to, n, offset);
    const auto takes = std::chrono::duration<double>(static_cast<double>(n) / kBytesPerSecond);
    if (is_slow) std::this_thread::sleep_until(start + std::chrono::duration_cast<Clock::duration>(takes));
    return got;
  };
  const auto file = std::make_shared<const gguf::GgufFile>(*gguf::GgufFile::open(dir.file("m.gguf"), {}, &calls));
  CpuBackend backend(CpuBackend::Options{.n_threads = 1});
  const auto open = [&](std::optional<uint64_t> budget_bytes) {
    return *ExecutionPlan::from_gguf(
        backend, file,
        {.weights = {.n_loaders = 1}, .n_context = 64, .budget_bytes = budget_bytes, .pass = {.max_rows = 1}});
  };
  const auto whole = open(std::nullopt);
  const MemoryBill bill = whole->memory_bill(whole->pass_memory(1, 1, 1, KvType::f16));
  for (const double share : {0.9, 0.6, 0.4}) {
    const auto rest = static_cast<uint64_t>(share * static_cast<double>(bill.weight_bytes));
    const auto plan = open(bill.total() - bill.weight_bytes + rest);
    const auto not_resident = static_cast<double>(plan->weights().streamed_bytes());
    ASSERT_GT(not_resident, 0);
    Session session = *Session::create(*plan, {.max_rows = 1});
    const auto decode = [&](uint32_t n) {
      for (const TokenId token : some_tokens(n, 128)) ASSERT_TRUE(session.evaluate(std::span(&token, 1)).ok());
    };
    is_slow = true;
    decode(2);  // the second pass begins as every later one does
    double best = 0;
    for (int attempt = 0; attempt < 5 && best < 0.8; attempt++) {
      session.rewind(2);
      constexpr uint32_t kTokens = 3;
      const uint64_t read_before = plan->weights().loading_stats().read_bytes;
      const auto start = Clock::now();
      decode(kTokens);
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      const auto n_read = static_cast<double>(plan->weights().loading_stats().read_bytes - read_before);
      EXPECT_LE(n_read / seconds, 1.1 * kBytesPerSecond) << "the reader is not as slow as it should be";
      const double rate = kTokens / seconds;
      best = std::max(best, rate / (kBytesPerSecond / not_resident));
    }
    is_slow = false;
    RecordProperty("of the reader's rate at " + std::to_string(share), std::to_string(best));
    EXPECT_GE(best, 0.8) << share;
  }
}

}  // namespace
}  // namespace rocmforge
