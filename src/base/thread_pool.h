#pragma once
// A fixed set of threads that run the parts of one job at a time.
//
// Threads: run() may be called from one thread at a time; the calling thread works too. Workers sleep between jobs.

#include <cstddef>
#include <memory>
#include <type_traits>

namespace rocmforge {

class ThreadPool {
 public:
  // n_threads counts the caller: 1 means no worker at all, 0 means one per available core. If the system refuses
  // threads the pool has fewer.
  explicit ThreadPool(size_t n_threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t n_threads() const;

  // Calls part(i) once for every i in [0, n_parts), in any order, and returns when all are done.
  // `part` must not call run() on the same pool. An exception of a part is thrown here, once no part runs any more.
  template <class F>
  void run(size_t n_parts, F&& part) {
    auto* target = std::addressof(part);
    run_parts(
        n_parts, [](void* f, size_t i) { (*static_cast<std::remove_reference_t<F>*>(f))(i); },
        const_cast<void*>(static_cast<const void*>(target)));
  }

 private:
  void run_parts(size_t n_parts, void (*call)(void*, size_t), void* part);

  struct State;
  std::unique_ptr<State> state_;
};

// Cores this process may run on (its affinity mask), at least 1.
size_t available_cores();

}  // namespace rocmforge
