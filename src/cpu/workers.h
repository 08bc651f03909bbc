#pragma once
// The threads of a backend: like base/thread_pool.h, but whoever waits does so for a moment on its feet before it
// sleeps, because the steps of a pass follow each other within microseconds. For no longer: a thread that waits for one
// without a core must leave its own core to it.
//
// Threads: run() may be called from one thread at a time; the calling thread works too.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace rocmforge::cpu {

class Workers {
 public:
  // n_threads counts the caller: 1 means no worker at all. Where the system starts no more threads there are fewer.
  explicit Workers(size_t n_threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  size_t n_threads() const { return threads_.size() + 1; }

  // Calls task(i, worker) once for every i in [0, n_tasks), in any order, and returns when all are done. `worker` is
  // below n_threads() and no two calls with the same one overlap: scratch memory may be chosen by it.
  // `task` must not call run(). An exception of a task is thrown here, once no task runs any more.
  template <class F>
  void run(size_t n_tasks, F&& task) {
    auto* target = std::addressof(task);
    run_tasks(
        n_tasks, [](void* f, size_t i, size_t worker) { (*static_cast<std::remove_reference_t<F>*>(f))(i, worker); },
        const_cast<void*>(static_cast<const void*>(target)));
  }

 private:
  using Call = void (*)(void*, size_t, size_t);
  void run_tasks(size_t n_tasks, Call call, void* task);
  void take_tasks(size_t worker);
  void work(size_t worker);

  // Each worker's part of the tasks, in a line of memory of its own: who is done with his helps the others.
  struct alignas(64) Share {
    std::atomic<size_t> next = 0;
    size_t end = 0;
  };

  // A worker first enters (n_inside), then looks whether a job is open; the caller closes the job, then waits until
  // nobody is inside. So whoever sees a job open may read it, and a worker that sleeps through a job delays nobody.
  std::atomic<uint32_t> n_posted_ = 0;  // jobs so far: what sleepers wait on
  std::atomic<bool> is_open_ = false;
  std::atomic<bool> stop_ = false;
  alignas(64) std::atomic<uint32_t> n_inside_ = 0;
  // The job: written while closed and nobody is inside.
  alignas(64) Call call_ = nullptr;
  void* task_ = nullptr;
  std::vector<Share> shares_;
  std::mutex thrown_mutex_;
  std::exception_ptr thrown_;  // by a task of the job: the first

  std::vector<std::thread> threads_;
};

}  // namespace rocmforge::cpu
