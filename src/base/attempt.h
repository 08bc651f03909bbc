#pragma once
// Work whose failure must not end the thread that does it, and with it the process. Our code throws nothing, but memory
// can run out in whatever is called.

#include <exception>

#include "base/log.h"

namespace rocmforge {

// Whether the work was done. When it was not, `failed` is told why; what fails there is dropped.
template <class Work, class Failed>
bool attempt(Work&& work, Failed&& failed) noexcept {
  try {
    work();
    return true;
  } catch (const std::exception& why) {
    try {
      failed(why);
    } catch (const std::exception&) {  // no memory for that either
    }
    return false;
  }
}

// What there is no memory for is left out.
template <class Work>
bool attempt(Work&& work) noexcept {
  return attempt(work, [](const std::exception&) {});
}

// The same, logged as an error of the room.
template <class Work>
bool attempt_in(const char* room, Work&& work) noexcept {
  return attempt(work, [room](const std::exception& why) { log(LogLevel::error, "{}: {}", room, why.what()); });
}

}  // namespace rocmforge
