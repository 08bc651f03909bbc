#pragma once
// Looks at the model files of a folder now and then, and tells when they are others than before and have stopped to
// change: a file that is still being copied is left alone.
//
// Threads: one of its own, on which `changed` is called; it ends with the watch.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/result.h"

namespace rocmforge::apps {

class FolderWatch {
 public:
  // Errors: those of start_thread().
  static Result<std::unique_ptr<FolderWatch>> start(std::string folder, Duration every, std::function<void()> changed);
  ~FolderWatch();
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

 private:
  FolderWatch() = default;

  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace rocmforge::apps
