// Loading statistics and progress callbacks.

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "weights/loader.h"

namespace rocmforge {
namespace {

constexpr Duration kReportInterval = std::chrono::milliseconds(50);

}  // namespace

bool Loader::is_stage_resident(uint32_t stage) const {
  return std::ranges::all_of(table_.stage(stage), [&](WeightId id) { return word(id).state() == LoadState::resident; });
}

LoadingStats Loader::stats() const {
  const Lock lock(mutex_);
  LoadingStats stats = counts_;
  if (n_flights_ > 0) stats.seconds += seconds(clock_() - busy_since_);
  for (const LazyTensor& weight : table_.tensors()) {
    stats.n_hits += word(weight.id).n_hits();
    switch (word(weight.id).state()) {
      case LoadState::unloaded:
      case LoadState::failed:
        break;
      case LoadState::loading:
      case LoadState::in_flight:
        stats.n_tensors_loading++;
        stats.loading_bytes += weight.file_bytes;
        break;
      case LoadState::resident:
        stats.n_tensors_loaded++;
        stats.loaded_bytes += weight.file_bytes;
        break;
    }
  }
  for (uint32_t layer = 0; layer < table_.n_layers(); layer++) stats.n_layers_loaded += is_stage_resident(1 + layer);
  return stats;
}

void Loader::on_progress(ProgressCallback callback) {
  const std::lock_guard guard(progress_mutex_);
  const Lock lock(mutex_);
  has_callback_ = static_cast<bool>(callback);
  callback_ = std::move(callback);
}

void Loader::report(Lock& lock) {
  if (!has_callback_) return;
  const TimePoint now = clock_();
  if (n_flights_ > 0 && now - last_report_ < kReportInterval) return;
  last_report_ = now;
  lock.unlock();
  {
    const std::lock_guard guard(progress_mutex_);
    try {
      if (callback_) callback_(stats());
    } catch (const std::exception&) {  // a report less
    }
  }
  lock.lock();
}

}  // namespace rocmforge
