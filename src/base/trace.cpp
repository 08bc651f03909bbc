#include "base/trace.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/file_writer.h"
#include "base/json.h"

namespace rocmforge {

// Events are JSON objects in one array. They are collected and written a megabyte at a time.
class Trace::Sink {
 public:
  Sink(FileWriter file, TimePoint begin) : file_(std::move(file)), begin_(begin) {}

  void add(std::string_view category, std::string_view name, TimePoint begin, TimePoint end,
           std::span<const LogField> args, TraceTrack track) noexcept {
    const std::lock_guard lock(mutex_);
    if (!file_) return;
    try {
      const uint64_t id = track == TraceTrack::device ? kDeviceTrack : static_cast<uint64_t>(::gettid());
      if (named_.insert(id).second) name_track(id, track);
      const auto microseconds = [](Duration d) { return std::chrono::duration<double, std::micro>(d).count(); };
      JsonWriter event;
      event.begin_object();
      event.key("name").value(name).key("cat").value(category).key("ph").value("X");
      event.key("pid").value(1).key("tid").value(id);
      event.key("ts").value(microseconds(begin - begin_)).key("dur").value(microseconds(end - begin));
      if (!args.empty() && !args[0].name.empty()) {
        event.key("args").begin_object();
        for (const LogField& arg : args) {
          if (arg.name.empty()) break;
          event.key(arg.name);
          std::visit([&](const auto& value) { event.value(value); }, arg.value);
        }
        event.end_object();
      }
      event.end_object();
      put(event.take());
    } catch (const std::bad_alloc&) {
      n_lost_++;
    }
  }

  Result<void> finish() {
    const std::lock_guard lock(mutex_);
    if (!file_) return {};
    FileWriter file = std::move(*std::exchange(file_, std::nullopt));
    if (failure_) return *failure_;
    text_ += text_.empty() && file.position() == 0 ? "[\n]\n" : "\n]\n";
    TRY(file.write(std::as_bytes(std::span(text_))));
    if (n_lost_ > 0) log(LogLevel::warn, "trace: {} events are missing, memory had run out", n_lost_);
    return file.commit();
  }

 private:
  static constexpr uint64_t kDeviceTrack = 0;
  static constexpr size_t kFlushBytes = 1 << 20;

  void name_track(uint64_t id, TraceTrack track) {
    char name[16] = "device";
    if (track == TraceTrack::this_thread) ::pthread_getname_np(::pthread_self(), name, sizeof name);
    JsonWriter event;
    event.begin_object();
    event.key("name").value("thread_name").key("ph").value("M").key("pid").value(1).key("tid").value(id);
    event.key("args").begin_object().key("name").value(std::string_view(name)).end_object().end_object();
    put(event.take());
  }
  void put(const std::string& event) {
    text_ += text_.empty() && file_->position() == 0 ? "[\n" : ",\n";
    text_ += event;
    if (text_.size() < kFlushBytes || failure_) return;
    if (auto written = file_->write(std::as_bytes(std::span(text_))); !written.ok()) failure_ = written.error();
    text_.clear();
  }

  std::mutex mutex_;
  std::optional<FileWriter> file_;  // until finish()
  const TimePoint begin_;
  std::string text_;  // not written yet
  std::set<uint64_t> named_;
  std::optional<Error> failure_;
  uint64_t n_lost_ = 0;
};

namespace {

std::atomic<bool> g_is_tracing = false;
std::mutex g_mutex;
std::shared_ptr<Trace::Sink> g_sink;  // under the mutex

std::shared_ptr<Trace::Sink> active_sink() {
  const std::lock_guard lock(g_mutex);
  return g_sink;
}

}  // namespace

bool is_tracing() noexcept {
  return g_is_tracing.load(std::memory_order_relaxed);
}

void trace_span(std::string_view category, std::string_view name, TimePoint begin, TimePoint end,
                std::span<const LogField> args, TraceTrack track) noexcept {
  if (!is_tracing()) return;
  if (const auto sink = active_sink()) sink->add(category, name, begin, end, args, track);
}

void name_this_thread(const char* name) noexcept {
  ::pthread_setname_np(::pthread_self(), name);
}

Result<std::unique_ptr<Trace>> Trace::start(const std::string& path) {
  auto file = TRY(FileWriter::create(path, {.durable = false}));
  auto sink = std::make_shared<Sink>(std::move(file), std::chrono::steady_clock::now());
  const std::lock_guard lock(g_mutex);
  CHECK(g_sink == nullptr);
  g_sink = sink;
  g_is_tracing.store(true, std::memory_order_relaxed);
  return std::unique_ptr<Trace>(new Trace(std::move(sink)));
}

Trace::~Trace() {
  const std::lock_guard lock(g_mutex);
  g_is_tracing.store(false, std::memory_order_relaxed);
  g_sink.reset();
}

Result<void> Trace::finish() {
  return sink_->finish();
}

}  // namespace rocmforge
