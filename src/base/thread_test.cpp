#include "base/thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>

#include "base/log.h"
#include "base/read_ahead.h"
#include "base/thread_pool.h"
#include "support/thread_faults.h"

namespace rocmforge {
namespace {

using testing::ThreadFaults;

constexpr int64_t kForEver = 1 << 30;

TEST(Thread, RunsItsWork) {
  int value = 0;
  auto thread = start_thread([&value] { value = 7; });
  ASSERT_TRUE(thread.ok());
  thread->join();
  EXPECT_EQ(value, 7);
}

TEST(Thread, ThatCannotStartIsAnErrorThatNamesTheLimits) {
  const ThreadFaults faults(0, 1);
  const auto thread = start_thread([] {});
  ASSERT_FALSE(thread.ok());
  EXPECT_EQ(thread.error().code, ErrorCode::no_thread);
  EXPECT_NE(thread.error().message.find("Resource temporarily unavailable"), std::string::npos);
  for (const char* limit : {"pids.max", "TasksMax", "ulimit -u"}) {
    EXPECT_NE(thread.error().message.find(limit), std::string::npos) << limit;
  }
}

TEST(Thread, ExceptionsHaveErrors) {
  EXPECT_EQ(error_of(std::bad_alloc()).code, ErrorCode::out_of_memory);
  EXPECT_EQ(error_of(std::runtime_error("odd")).code, ErrorCode::internal);
  EXPECT_NE(error_of(std::runtime_error("odd")).message.find("odd"), std::string::npos);
}

TEST(Thread, AnExceptionEndsTheThreadAndNotTheProcess) {
  std::atomic<int> n_logged = 0;
  const LogCapture capture([&](LogLevel, std::string_view text) {
    if (text.find("lost its way") != std::string_view::npos) n_logged++;
  });
  auto thread = start_thread([] { throw std::runtime_error("lost its way"); });
  ASSERT_TRUE(thread.ok());
  thread->join();
  EXPECT_EQ(n_logged, 1);
}

TEST(ThreadPool, WorksWithTheThreadsThatStart) {
  const LogCapture quiet([](LogLevel, std::string_view) {});
  for (int64_t k = 0; k <= 4; k++) {
    const ThreadFaults faults(k, kForEver);
    ThreadPool pool(5);
    EXPECT_EQ(pool.n_threads(), static_cast<size_t>(k) + 1);
    std::vector<std::atomic<int>> n_calls(100);
    pool.run(n_calls.size(), [&](size_t i) { n_calls[i]++; });
    for (const auto& n : n_calls) EXPECT_EQ(n, 1);
  }
}

TEST(ThreadPool, AnExceptionOfAPartReachesTheCaller) {
  for (const size_t n_threads : {1, 4}) {
    ThreadPool pool(n_threads);
    for (size_t bad = 0; bad < 16; bad++) {
      const auto fail_at = [&](size_t i) {
        if (i == bad) throw std::runtime_error("bad part");
      };
      EXPECT_THROW(pool.run(16, fail_at), std::runtime_error);
      std::atomic<size_t> sum = 0;
      pool.run(16, [&](size_t i) { sum += i; });
      EXPECT_EQ(sum, 120u) << "the pool works on";
    }
  }
}

TEST(ReadAhead, IsPassedOverWithoutAThread) {
  const LogCapture quiet([](LogLevel, std::string_view) {});
  const ThreadFaults faults(0, kForEver);
  const ReadAhead reading({"/proc/self/exe"});
  EXPECT_EQ(faults.n_failed(), 1);
}

}  // namespace
}  // namespace rocmforge
