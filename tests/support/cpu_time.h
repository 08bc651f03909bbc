#pragma once
// Time that a busy machine does not change much: what this thread has computed for.

#include <algorithm>
#include <ctime>

namespace rocmforge::testing {

inline double thread_cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The least of three times that `work` takes.
template <class Work>
double cpu_seconds_of(const Work& work) {
  double least = 1e9;
  for (int i = 0; i < 3; i++) {
    const double start = thread_cpu_seconds();
    work();
    least = std::min(least, thread_cpu_seconds() - start);
  }
  return least;
}

}  // namespace rocmforge::testing
