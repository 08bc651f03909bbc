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
// Under a budget that the weights do not fit, some of them move (residency.h): they are read into a berth that others
// leave, when nobody holds those. Whoever holds some and waits for others may wait for itself: ask for all at once.
//
// Threads: everything may be called from any thread; the progress callback alone must not call on_progress or clear.
// evict(), clear() and the destructor wait for leases: the caller must not hold one.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "gguf/reader.h"
#include "weights/lazy_tensor.h"
#include "weights/loading_stats.h"
#include "weights/placement.h"

namespace rocmforge {

class WeightStore {
 public:
  struct Options {
    size_t n_loaders = 0;  // threads that read; 0: one per core, at most 8
    Clock clock = system_clock();
    std::optional<uint64_t> budget_bytes = {};  // for the arena; none: everything stays

    size_t n_loaders_or_default() const;
  };

  // Fixes addresses; reads nothing and allocates no device memory. Weight i is requests[i]. The last stage is the
  // output's. The file is checked again on each load: replaced or truncated since it was opened is file_changed or
  // file_truncated, deleted file_not_found.
  // invalid_argument: a tensor requested twice, or a shape that is not the tensor's; unsupported: rows too long for the
  // placement's staging buffers; out_of_memory: the budget is too small.
  // REQUIRES: the placement outlives the store and serves no other
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
    WeightStore* store_ = nullptr;  // null: holds nothing
    WeightId id_;
  };

  std::span<const LazyTensor> tensors() const;
  const LazyTensor& tensor(WeightId id) const;
  Result<WeightId> find(std::string_view name) const;  // gguf_tensor_missing
  LoadState state(WeightId id) const;
  uint64_t arena_bytes() const;  // what reserve() will ask for

  // Where a weight lies in the arena. REQUIRES: it is leased, or does not move
  uint64_t address(WeightId id) const;
  // The same for any weight, if it has a place; of one that is not leased it may change at any time.
  std::optional<uint64_t> find_address(WeightId id) const;
  // Of the stage's weights all but the experts are read anew for each pass.
  bool is_streamed(uint32_t stage) const;
  uint64_t streamed_bytes() const;  // of the file, by each pass
  bool experts_move() const;
  // Everything is resident and stays where it is until somebody calls evict or clear.
  bool is_settled() const;

  // Blocks until resident. Errors, named by tensor: out_of_memory, file_*, and cancelled when it meets a clear().
  Result<Lease> get(WeightId id);
  // If it is resident; never blocks.
  std::optional<Lease> try_get(WeightId id);
  // get for all of them; the loads run side by side. On error no lease is kept.
  Result<std::vector<Lease>> get_all(std::span<const WeightId> ids);
  // Asks for loads in this order, after those already asked for, and returns; weights that a get waits for go first.
  // A load that fails is tried again by the next get.
  void prefetch(std::span<const WeightId> ids);
  // Those of them that move will not be used soon: they are the first to make room.
  void give_back(std::span<const WeightId> ids);
  // All experts of the stage, if all are resident and stay: one atomic operation. The lease has no tensor.
  std::optional<Lease> try_get_experts(uint32_t stage);
  // The same for everything, if it is settled.
  std::optional<Lease> try_get_everything();

  // Blocks until all weights of the layers are resident; of those that move, the last ones that fit.
  // invalid_argument: there are no such layers
  Result<void> preload_layers(uint32_t first_layer, uint32_t n_layers);
  Result<void> preload_layers(std::span<const uint32_t> layers);
  // The same for the whole model; of those that move, the first ones that fit.
  Result<void> preload_all();
  // REQUIRES: there is such a layer; for stage_weights, such a stage
  bool is_layer_loaded(uint32_t layer) const;
  std::span<const WeightId> stage_weights(uint32_t stage) const;
  uint32_t n_stages() const;

  LoadingStats loading_stats() const;
  // Called from loader threads, one at a time: at most every 50 ms, and at the end of each burst of loads, before the
  // calls that waited for the last of them return. When on_progress returns, the callback before is no longer running.
  void on_progress(ProgressCallback callback);

  // Back to unloaded, once its load and its leases have ended. The address stays reserved.
  void evict(WeightId id);
  // Everything back to unloaded and the arena given back: loads that have not begun are abandoned, those under way and
  // all leases waited for. The store can be used again: the next get reserves anew.
  void clear();

 private:
  struct State;
  explicit WeightStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rocmforge
