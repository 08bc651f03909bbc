#include "base/trace.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "base/json.h"
#include "support/support.h"

namespace rocmforge {
namespace {

using testing::TempDir;

JsonValue read_trace(const std::string& path) {
  auto parsed = parse_json(testing::read_text(path));
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return parsed.ok() ? *parsed : JsonValue();
}

std::string text_at(const JsonValue& object, std::string_view key) {
  return *object.find(key)->as<std::string>();
}
double number_at(const JsonValue& object, std::string_view key) {
  const JsonValue& value = *object.find(key);
  return value.as<double>() != nullptr ? *value.as<double>() : static_cast<double>(*value.as<int64_t>());
}
std::vector<const JsonValue*> events_of(const JsonValue& trace, std::string_view phase) {
  std::vector<const JsonValue*> found;
  for (const JsonValue& event : *trace.as<JsonArray>()) {
    if (text_at(event, "ph") == phase) found.push_back(&event);
  }
  return found;
}

TEST(Trace, KeepsNamesTimesAndValuesOfSpans) {
  const TempDir dir;
  const std::string path = dir.file("trace.json");
  const auto trace = Trace::start(path).value();
  const TimePoint begin = std::chrono::steady_clock::now();
  const LogField args[] = {{"bytes", uint64_t{7}}, {"tensor", "a\"b"}};
  trace_span("weights", "read", begin, begin + std::chrono::microseconds(1500), args);
  trace_span("device", "matmul", begin, begin + std::chrono::microseconds(2), {}, TraceTrack::device);
  ASSERT_TRUE(trace->finish().ok());
  const JsonValue json = read_trace(path);
  const auto spans = events_of(json, "X");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(text_at(*spans[0], "name"), "read");
  EXPECT_EQ(text_at(*spans[0], "cat"), "weights");
  EXPECT_DOUBLE_EQ(number_at(*spans[0], "dur"), 1500);
  EXPECT_EQ(text_at(*spans[0]->find("args"), "tensor"), "a\"b");
  EXPECT_DOUBLE_EQ(number_at(*spans[0]->find("args"), "bytes"), 7);
  EXPECT_NE(number_at(*spans[0], "tid"), number_at(*spans[1], "tid"));
  EXPECT_EQ(events_of(json, "M").size(), 2u);  // the names of two tracks
}

TEST(Trace, IsWholeAfterManySpansOfManyThreads) {
  const TempDir dir;
  const std::string path = dir.file("trace.json");
  const auto trace = Trace::start(path).value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([] {
      for (uint64_t i = 0; i < 4000; i++) TraceSpan("test", "work", {{{"i", i}}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(trace->finish().ok());
  EXPECT_GT(std::filesystem::file_size(path), 1u << 20);  // more than is collected at a time
  const JsonValue json = read_trace(path);
  EXPECT_EQ(events_of(json, "X").size(), 16000u);
  EXPECT_EQ(events_of(json, "M").size(), 4u);
}

TEST(Trace, IsOffBeforeAndAfter) {
  const TempDir dir;
  EXPECT_FALSE(is_tracing());
  {
    const auto trace = Trace::start(dir.file("trace.json")).value();
    EXPECT_TRUE(is_tracing());
  }
  EXPECT_FALSE(is_tracing());
  EXPECT_FALSE(std::filesystem::exists(dir.file("trace.json")));  // it was not finished
  const TraceSpan span("test", "after");
}

TEST(Trace, AnEmptyOneIsJsonToo) {
  const TempDir dir;
  const auto trace = Trace::start(dir.file("trace.json")).value();
  ASSERT_TRUE(trace->finish().ok());
  EXPECT_TRUE(read_trace(dir.file("trace.json")).as<JsonArray>()->empty());
}

TEST(Trace, AFolderThatIsNotThereIsAnError) {
  const auto trace = Trace::start("/nowhere/at/all/trace.json");
  ASSERT_FALSE(trace.ok());
  EXPECT_FALSE(is_tracing());
}

}  // namespace
}  // namespace rocmforge
