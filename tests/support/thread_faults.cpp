#include "support/thread_faults.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

namespace {

std::atomic<bool> is_armed{false};
std::atomic<int64_t> n_seen{0}, first{0}, last{0}, failed{0};

using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

}  // namespace

// A sanitizer stands in front of pthread_create too; clang's is part of the program and has this second name.
extern "C" int __interceptor_pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)
    __attribute__((weak));

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*call)(void*),
                              void* argument) noexcept {
  if (is_armed) {
    const int64_t n = n_seen++;
    if (n >= first && n < last) {
      failed++;
      return EAGAIN;
    }
  }
  static const Create next = __interceptor_pthread_create != nullptr
                                 ? &__interceptor_pthread_create
                                 : reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return next(thread, attributes, call, argument);
}

namespace rocmforge::testing {

ThreadFaults::ThreadFaults(int64_t n_before, int64_t n_failing) {
  failed = 0;
  n_seen = 0;
  first = n_before;
  last = n_before + n_failing;
  is_armed = true;
}

ThreadFaults::~ThreadFaults() {
  is_armed = false;
}

int64_t ThreadFaults::n_failed() const {
  return failed;
}

}  // namespace rocmforge::testing
