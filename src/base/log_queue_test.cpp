#include "base/log_queue.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

namespace rocmforge {
namespace {

using namespace std::chrono_literals;

// A reader that takes bytes only while it is open.
struct Reader {
  void write(std::string_view lines) {
    std::unique_lock lock(mutex);
    n_calls++;
    changed.notify_all();
    changed.wait(lock, [this] { return is_open; });
    text += lines;
  }
  void open() {
    const std::lock_guard lock(mutex);
    is_open = true;
    changed.notify_all();
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::string text;
  int n_calls = 0;
  bool is_open = false;
};

LogQueue::Options options_of(std::shared_ptr<Reader> reader, size_t max_bytes) {
  return {.write = [reader](std::string_view lines) { reader->write(lines); },
          .tell_dropped = [](uint64_t n) { return "dropped " + std::to_string(n) + "\n"; },
          .max_bytes = max_bytes};
}

TEST(LogQueue, WritesLinesInTheirOrder) {
  const auto reader = std::make_shared<Reader>();
  reader->open();
  std::string expected;
  {
    const auto queue = *LogQueue::start(options_of(reader, LogQueue::kMaxBytes));
    for (int i = 0; i < 1000; i++) {
      const std::string line = "line " + std::to_string(i) + "\n";
      expected += line;
      queue->push(line);
    }
  }
  EXPECT_EQ(reader->text, expected);
}

// A full pipe behind stderr used to block every thread that logged, the event loop too.
TEST(LogQueue, NobodyWaitsForAReaderThatTakesNothing) {
  const auto reader = std::make_shared<Reader>();
  {
    const auto queue = *LogQueue::start(options_of(reader, 100));
    queue->push("first\n");
    {
      std::unique_lock lock(reader->mutex);
      reader->changed.wait(lock, [&] { return reader->n_calls == 1; });
    }
    for (int i = 0; i < 100; i++) queue->push("123456789\n");  // ten fit
    EXPECT_FALSE(queue->flush(1ms));
    reader->open();
    EXPECT_TRUE(queue->flush(60s));
  }
  std::string expected = "first\n";
  for (int i = 0; i < 10; i++) expected += "123456789\n";
  EXPECT_EQ(reader->text, expected + "dropped 90\n");
}

TEST(LogQueue, EndsBesideAReaderThatNeverTakesAnything) {
  const auto reader = std::make_shared<Reader>();
  {
    const auto queue = *LogQueue::start(options_of(reader, 100));
    queue->push("lost\n");
  }  // the destructor returns
  reader->open();
}

}  // namespace
}  // namespace rocmforge
