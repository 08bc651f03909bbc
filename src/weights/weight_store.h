#pragma once
// The lazy weights of one model: known by name, shape and place in the file from the start, read on first use.
//
//   unloaded --get/prefetch--> loading --last piece landed--> in_flight --event recorded--> resident
//       ^                         |                                                            |
//       |                         +--error--> failed (the next get or prefetch tries again)    |
//       +--------------------------------------- evict, clear ---------------------------------+
//
// Lazy means contents arrive later, never addresses: every weight's address is fixed when the store is made, the first
// load reserves the arena, and from then until clear() nothing is allocated on the device.
//
// Single flight: any number of threads that ask for one cold weight cause one load. A hit is one atomic operation and
// takes no lock. A failed load fails the calls that waited for it and nothing else.
//
// Threads: everything may be called from any thread. clear() and evict() wait for leases.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "gguf/reader.h"
#include "weights/placement.h"

namespace rocmforge {

using WeightId = Id<struct WeightIdTag>;

enum class LoadState : uint8_t { unloaded, loading, in_flight, resident, failed };

// One weight to be held by a store.
struct WeightRequest {
  const gguf::TensorInfo* tensor = nullptr;
  WeightShape shape;
  uint32_t stage = 0;  // the plan's stage that uses it first: 0 embedding, 1 + i layer i, n_layers + 1 output
};

// A handle to one weight: what is known without reading it. Its content is reached through a Lease.
struct LazyTensor {
  WeightId id;
  std::string_view name;
  WeightShape shape;
  uint32_t stage = 0;
  uint32_t shard = 0;
  uint64_t file_offset = 0;
  uint64_t file_bytes = 0;
  uint64_t packed_bytes = 0;
  uint64_t address = 0;  // offset into the placement's arena
};

struct LoadingStats {
  uint64_t n_tensors = 0, n_tensors_loaded = 0, n_tensors_loading = 0;
  uint64_t n_layers = 0, n_layers_loaded = 0;
  uint64_t total_bytes = 0, loaded_bytes = 0, loading_bytes = 0;  // file bytes
  uint64_t n_reads = 0;       // pieces read from the file
  uint64_t read_bytes = 0;
  uint64_t n_hits = 0;        // gets that found the weight resident
  uint64_t n_loads = 0;       // loads begun
  uint64_t n_failures = 0;
  double seconds = 0;         // with at least one load under way
  double gigabytes_per_second() const { return seconds > 0 ? static_cast<double>(read_bytes) / seconds / 1e9 : 0; }
};

using ProgressCallback = std::function<void(const LoadingStats&)>;

class WeightStore {
 public:
  struct Options {
    size_t n_loaders = 0;            // threads that read; 0: one per core, at most 8
    Clock clock = system_clock();
  };

  // Fixes addresses; reads nothing and allocates no device memory. The file is checked again on each load: replaced
  // or truncated since it was opened is file_changed or file_truncated.
  static Result<std::unique_ptr<WeightStore>> create(std::shared_ptr<const gguf::GgufFile> file, Placement& placement,
                                                     std::vector<WeightRequest> requests, const Options& options);
  ~WeightStore();
  WeightStore(const WeightStore&) = delete;
  WeightStore& operator=(const WeightStore&) = delete;

  // Keeps a resident weight from being evicted while it lives.
  class [[nodiscard]] Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease();
    const LazyTensor& tensor() const;
    const std::byte* data() const;  // in the kernels' layout

   private:
    friend class WeightStore;
    Lease(WeightStore* store, WeightId id) : store_(store), id_(id) {}
    WeightStore* store_ = nullptr;
    WeightId id_;
  };

  std::span<const LazyTensor> tensors() const;
  const LazyTensor& tensor(WeightId id) const;
  Result<WeightId> find(std::string_view name) const;  // gguf_tensor_missing
  LoadState state(WeightId id) const;
  uint64_t arena_bytes() const;                        // what reserve() will ask for

  // Blocks until resident. Errors: out_of_memory, file_*, named by tensor.
  Result<Lease> get(WeightId id);
  // The same for all of them; the loads run side by side. On error no lease is kept.
  Result<std::vector<Lease>> get_all(std::span<const WeightId> ids);
  // Asks for loads in this order, after those already asked for, and returns. Errors surface in the next get.
  void prefetch(std::span<const WeightId> ids);

  // REQUIRES: stages exist. Blocks until all weights of the layers are resident.
  Result<void> preload_layers(uint32_t first_layer, uint32_t n_layers);
  Result<void> preload_all();
  bool is_layer_loaded(uint32_t layer) const;
  std::span<const WeightId> stage_weights(uint32_t stage) const;
  uint32_t n_stages() const;

  LoadingStats loading_stats() const;
  // Called from loader threads after each piece, at most every 50 ms, and once at the end of each burst of loads.
  void on_progress(ProgressCallback callback);

  // Back to unloaded; waits for its leases. The address stays reserved.
  void evict(WeightId id);
  // Everything back to unloaded, loads under way abandoned, the arena given back. The store can be used again: the next
  // get reserves anew.
  void clear();

 private:
  WeightStore();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rocmforge
