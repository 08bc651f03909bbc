#include "base/log_queue.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "base/thread.h"

namespace rocmforge {

struct LogQueue::State {
  explicit State(Options o) : options(std::move(o)) {}

  void write_all() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return has_lines() || is_stopping; });
      if (!has_lines()) break;
      std::string batch = std::exchange(lines, {});
      const uint64_t n = std::exchange(n_dropped, 0);
      is_writing = true;
      lock.unlock();
      try {
        options.write(batch);
        if (n > 0) options.write(options.tell_dropped(n));
      } catch (const std::exception&) {  // no memory: these lines are lost
      }
      lock.lock();
      is_writing = false;
      changed.notify_all();
    }
    is_over = true;
    changed.notify_all();
  }
  bool has_lines() const { return !lines.empty() || n_dropped > 0; }

  const Options options;
  std::mutex mutex;
  std::condition_variable changed;
  std::string lines;
  uint64_t n_dropped = 0;
  bool is_writing = false, is_stopping = false, is_over = false;
};

Result<std::unique_ptr<LogQueue>> LogQueue::start(Options options) {
  auto state = std::make_shared<State>(std::move(options));
  std::thread writer = TRY(start_thread([state] { state->write_all(); }));
  return std::unique_ptr<LogQueue>(new LogQueue(std::move(state), std::move(writer)));
}

LogQueue::LogQueue(std::shared_ptr<State> state, std::thread writer)
    : state_(std::move(state)), writer_(std::move(writer)) {}

LogQueue::~LogQueue() {
  std::unique_lock lock(state_->mutex);
  state_->is_stopping = true;
  state_->changed.notify_all();
  const bool is_over = state_->changed.wait_for(lock, std::chrono::seconds(1), [this] { return state_->is_over; });
  lock.unlock();
  is_over ? writer_.join() : writer_.detach();
}

void LogQueue::push(std::string line) noexcept {
  const std::lock_guard lock(state_->mutex);
  if (state_->lines.size() + line.size() > state_->options.max_bytes) {
    state_->n_dropped++;
    return;
  }
  try {
    state_->lines += line;
  } catch (const std::exception&) {
    state_->n_dropped++;
  }
  state_->changed.notify_all();
}

bool LogQueue::flush(std::chrono::milliseconds patience) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, patience, [this] { return !state_->has_lines() && !state_->is_writing; });
}

}  // namespace rocmforge
