#pragma once
// The progress of loading, shown until the first text.

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "terminal.h"
#include "weights/weight_store.h"

namespace rocmforge::apps {

// Loaders report to it from their threads, so it takes itself out of the store before it ends.
class LoadingLine {
 public:
  explicit LoadingLine(WeightStore& weights) : weights_(&weights) {
    weights.on_progress([this](const LoadingStats& s) {
      line_.update([&] {
        // Bytes that have landed: a tensor counts as loaded only when all of it is there.
        const uint64_t n_bytes = std::min(s.total_bytes, std::max(s.loaded_bytes, s.read_bytes));
        return fmt::format("loading {} of {}, {:.2f} GB/s", format_bytes(n_bytes), format_bytes(s.total_bytes),
                           s.gigabytes_per_second());
      });
    });
  }
  ~LoadingLine() { end(); }
  LoadingLine(const LoadingLine&) = delete;
  LoadingLine& operator=(const LoadingLine&) = delete;

  void end() {
    if (!weights_) return;
    std::exchange(weights_, nullptr)->on_progress({});
    line_.clear();
  }

 private:
  WeightStore* weights_;
  ProgressLine line_;
};

}  // namespace rocmforge::apps
