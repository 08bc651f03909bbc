#pragma once
// The lazy weights of one model: name, shape and place in the file are known from the start; bytes are read on first
// use.
//
//   unloaded --get/prefetch--> loading --last chunk landed--> in_flight --event recorded--> resident
//       ^                         |                                                            |
//       |                         +--error--> failed (the next get or prefetch tries again)    |
//       +--------------------------------------- evict, clear ---------------------------------+
//
// Lazy means that the bytes arrive later, never the addresses: every weight's address is fixed when the store is made.
// The first load reserves the arena, and from then until clear() no device memory is allocated.
//
// Single flight: any number of threads that ask for one weight that is not resident cause one load. A hit is one atomic
// operation without a lock. A failed load fails only the calls that waited for it.
//
// If the weights do not fit a memory budget, some of them are streamed (residency.h): a load evicts weights that no
// lease pins and reuses their cache slot. Acquire all leases in one call (get_all): a caller that holds some leases
// while it waits for others can deadlock.
//
// Threads: everything may be called from any thread, except that the progress callback must not call on_progress or
// clear. evict(), clear() and the destructor wait for leases: the caller must not hold one.

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
    std::optional<uint64_t> budget_bytes = {};  // for the arena; none: all weights resident

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

  // Pins a resident weight: it cannot be evicted while the lease lives.
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
  uint64_t arena_bytes() const;  // the size of the arena

  // A weight's offset in the arena. REQUIRES: it is leased, or not streamed
  uint64_t address(WeightId id) const;
  // The same for any weight that has an address; without a lease it may change at any time.
  std::optional<uint64_t> find_address(WeightId id) const;
  // Whether the stage's weights, except experts, are read again in each pass.
  bool is_streamed(uint32_t stage) const;
  uint64_t streamed_bytes() const;  // file bytes read by each pass
  bool experts_move() const;
  // Settled: all weights are resident and none moves until evict or clear is called.
  bool is_settled() const;

  // Blocks until the weight is resident. Errors, with the tensor's name: out_of_memory, file_*, and cancelled by
  // clear().
  Result<Lease> get(WeightId id);
  // A lease if the weight is resident; never blocks.
  std::optional<Lease> try_get(WeightId id);
  // Leases on all of them; the loads run in parallel. On error no lease is kept.
  Result<std::vector<Lease>> get_all(std::span<const WeightId> ids);
  // Queues loads in this order, after earlier requests, and returns; weights that a get waits for are loaded first. A
  // load that fails is tried again by the next get.
  void prefetch(std::span<const WeightId> ids);
  // Marks streamed weights among these as not needed soon: they are evicted first.
  void give_back(std::span<const WeightId> ids);
  // One lease on all experts of the stage, if all are resident and none is streamed: one atomic operation. The lease
  // has no tensor.
  std::optional<Lease> try_get_experts(uint32_t stage);
  // The same for all weights, if the store is settled.
  std::optional<Lease> try_get_everything();

  // Blocks until all weights of the layers are resident; of streamed ones, the last that fit.
  // invalid_argument: there are no such layers
  Result<void> preload_layers(uint32_t first_layer, uint32_t n_layers);
  Result<void> preload_layers(std::span<const uint32_t> layers);
  // The same for the whole model; of streamed weights, the first that fit.
  Result<void> preload_all();
  // REQUIRES: there is such a layer; for stage_weights, such a stage
  bool is_layer_loaded(uint32_t layer) const;
  std::span<const WeightId> stage_weights(uint32_t stage) const;
  uint32_t n_stages() const;

  LoadingStats loading_stats() const;
  // Called from loader threads, one at a time: at most every 50 ms, and at the end of each burst of loads, before the
  // calls that waited for the last of them return. When on_progress returns, the previous callback is no longer
  // running.
  void on_progress(ProgressCallback callback);

  // Unloads the weight once its load and its leases have ended. Its address stays reserved.
  void evict(WeightId id);
  // Unloads everything and releases the arena. Queued loads are abandoned; running loads and all leases are waited for.
  // The store can be used again: the next get reserves anew.
  void clear();

 private:
  struct State;
  explicit WeightStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rocmforge
