#pragma once
// Loading progress of a store's weights, and cumulative counts.

#include <cstdint>
#include <functional>

namespace rocmforge {

struct LoadingStats {
  // Current state. Bytes are file bytes.
  uint64_t n_tensors = 0, n_tensors_loaded = 0, n_tensors_loading = 0;
  uint64_t n_layers = 0, n_layers_loaded = 0;
  uint64_t total_bytes = 0, loaded_bytes = 0, loading_bytes = 0;

  // Since the store was made.
  uint64_t n_reads = 0;  // chunks read from the file and landed
  uint64_t read_bytes = 0;
  uint64_t n_hits = 0;      // gets that found the weight resident
  uint64_t n_loads = 0;     // loads begun
  uint64_t n_failures = 0;  // loads that failed or were abandoned
  double seconds = 0;       // with at least one load under way

  double gigabytes_per_second() const { return seconds > 0 ? static_cast<double>(read_bytes) / seconds / 1e9 : 0; }
};

using ProgressCallback = std::function<void(const LoadingStats&)>;

}  // namespace rocmforge
