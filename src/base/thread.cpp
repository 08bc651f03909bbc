#include "base/thread.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <cerrno>
#include <new>
#include <system_error>

#include "base/log.h"

namespace rocmforge {

Error error_of(const std::exception& exception) noexcept try {
  if (const auto* system = dynamic_cast<const std::system_error*>(&exception);
      system != nullptr && system->code() == std::errc::resource_unavailable_try_again) {
    return {ErrorCode::no_thread,
            fmt::format("cannot start a thread: {}; raise pids.max, TasksMax or ulimit -u", system->code().message())};
  }
  if (dynamic_cast<const std::bad_alloc*>(&exception) == nullptr) {
    return {ErrorCode::internal, fmt::format("an unexpected exception: {}", exception.what())};
  }
  return {ErrorCode::out_of_memory, "out of memory"};  // short enough to need none itself
} catch (const std::exception&) {
  return {ErrorCode::out_of_memory, "out of memory"};
}

void lower_this_threads_priority() noexcept {
  constexpr int kNicer = 5;  // a third of the time that others get
  errno = 0;
  const int now = getpriority(PRIO_PROCESS, 0);  // on Linux: of the calling thread
  if (errno == 0) setpriority(PRIO_PROCESS, 0, now + kNicer);
}

namespace thread_detail {

void log_exception(const char* what) noexcept try {
  log(LogLevel::error, "a thread ended early: {}", what);
} catch (const std::exception&) {
}

void log_fewer(size_t n_started, size_t n_asked, const Error& error) noexcept try {
  log(LogLevel::warn, "{} of {} worker threads run: {}", n_started, n_asked, error.message);
} catch (const std::exception&) {
}

}  // namespace thread_detail
}  // namespace rocmforge
