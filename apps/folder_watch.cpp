#include "folder_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/thread.h"

namespace rocmforge::apps {
namespace {

namespace fs = std::filesystem;

// The names, sizes and times of the model files.
std::vector<std::string> look_at(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() != ".gguf") continue;
    std::error_code ignored;  // a file that has just gone is listed as such
    const auto n_bytes = at->file_size(ignored);
    const auto time = at->last_write_time(ignored).time_since_epoch().count();
    out.push_back(fmt::format("{} {} {}", at->path().filename().string(), n_bytes, time));
  }
  std::ranges::sort(out);
  return out;
}

}  // namespace

Result<std::unique_ptr<FolderWatch>> FolderWatch::start(std::string folder, Duration every,
                                                        std::function<void()> changed) {
  std::unique_ptr<FolderWatch> out(new FolderWatch);
  out->thread_ = TRY(start_thread([self = out.get(), folder = std::move(folder), every, changed = std::move(changed)] {
    auto told = look_at(folder), last = told;
    std::unique_lock lock(self->mutex_);
    while (!self->ended_.wait_for(lock, every, [&] { return self->is_over_; })) {
      lock.unlock();
      auto now = look_at(folder);
      if (now == last && now != told) {
        told = now;
        changed();
      }
      last = std::move(now);
      lock.lock();
    }
  }));
  return out;
}

FolderWatch::~FolderWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace rocmforge::apps
