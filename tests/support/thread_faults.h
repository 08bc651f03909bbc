#pragma once
// Threads that cannot be started at a chosen moment. A test program that uses it lists thread_faults.cpp among its
// sources: that file stands in front of pthread_create for the whole program.

#include <cstdint>

namespace rocmforge::testing {

// While it lives, of the threads that are started, `n_failing` fail with EAGAIN after `n_before` have not. One at a
// time.
class ThreadFaults {
 public:
  ThreadFaults(int64_t n_before, int64_t n_failing);
  ~ThreadFaults();
  ThreadFaults(const ThreadFaults&) = delete;
  ThreadFaults& operator=(const ThreadFaults&) = delete;

  // How many have failed.
  int64_t n_failed() const;
};

}  // namespace rocmforge::testing
