#pragma once
// The engine of a WeightStore: threads that read weights into a placement, and the calls that wait for them.
//
// A load is called a flight. It begins with the first request for a weight that is not resident. All loader threads
// take its chunks (some rows each) one by one under the mutex, and read and copy them outside of it. The thread that
// completes the last chunk finishes the weight and publishes it with a lease for every waiting call. A failed chunk
// ends its flight; only the calls that waited for that flight see the error.
//
// A streamed weight (weight_table.h) is read into a cache slot, which its group gets when the first chunk is taken. If
// no slot is free, a group without leases and loads is evicted. If there is none, the flight stays queued and other
// flights go on.
//
// Threads: everything may be called from any thread, except that the progress callback must not call on_progress or
// clear. Loader threads start with the first load and end in clear(). Calls that find everything resident take no lock.
// Operations that may block (reading, copying, reserving, the callback) never hold a lock that others wait for.
//
// Memory may run out anywhere. A call then throws std::bad_alloc and has changed nothing; on a loader thread the flight
// fails. Ending a flight and clear() do not allocate.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "gguf/reader.h"
#include "weights/cache_slots.h"
#include "weights/load_queue.h"
#include "weights/loading_stats.h"
#include "weights/placement.h"
#include "weights/weight_table.h"
#include "weights/weight_word.h"

namespace rocmforge {

class Loader {
 public:
  // REQUIRES: table, file and placement outlive the loader
  Loader(const WeightTable& table, const gguf::GgufFile& file, Placement& placement, size_t n_loaders, Clock clock);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const WeightWord& word(WeightId id) const { return words_[id.value].word; }
  // The weight's address in the arena, if it has one; valid while a lease or a load pins the weight.
  std::optional<uint64_t> address(WeightId id) const;

  bool is_stage_resident(uint32_t stage) const;
  bool all_resident() const { return n_resident_ == table_.size(); }

  // A lease if the weight is resident; never blocks.
  bool try_lease(WeightId id);
  // A lease on each, once all are resident; on error none.
  Result<void> lease(std::span<const WeightId> ids);
  void release(WeightId id);
  // All experts of a stage as one pseudo-weight: resident while all of them are and none is streamed. Only try_lease
  // and release accept it.
  WeightId all_experts(uint32_t stage) const { return WeightId(static_cast<uint32_t>(table_.size()) + stage); }
  // The same for all weights of the model.
  WeightId all_weights() const { return all_experts(table_.n_stages()); }

  void prefetch(std::span<const WeightId> ids);
  // Marks streamed weights as the first to evict.
  void give_back(std::span<const WeightId> ids);
  void evict(WeightId id);
  void clear();

  LoadingStats stats() const;
  void on_progress(ProgressCallback callback);

 private:
  struct Flight;
  struct Chunk {
    WeightId id;
    std::shared_ptr<Flight> flight;
    uint64_t first_row = 0;
    uint64_t n_rows = 0;
  };
  using Lock = std::unique_lock<std::mutex>;
  struct alignas(64) PaddedWord {  // padded to a cache line: hits on neighbours do not contend
    WeightWord word;
    std::optional<GroupId> group;  // as in the table; stored here so that a hit touches one cache line
  };

  WeightWord& word(WeightId id) { return words_[id.value].word; }
  Error named(const Error& error, WeightId id) const noexcept;
  std::optional<GroupId> group_of(WeightId id) const { return words_[id.value].group; }
  Result<void> check_room(std::span<const WeightId> ids) const;

  // What a call waits for; null if the weight was resident and is now leased. `unattended`: the load was under way
  // without a waiting call.
  struct Joined {
    std::shared_ptr<Flight> flight;
    bool unattended = false;
  };
  Result<void> lease_once(std::span<const WeightId> ids, bool& was_unattended);
  class Taken;

  // Under the mutex:
  Joined join(WeightId id);
  std::shared_ptr<Flight> begin(WeightId id, Urgency urgency);
  void start_threads(WeightId id);
  std::optional<Chunk> take_chunk();
  bool has_place(WeightId id);
  bool empty(GroupId group);
  void unstick();
  bool try_unload(WeightId id);
  void arrived(WeightId id);
  void left(WeightId id);
  void abandon(WeightId id, const Error& error);
  void abandon_all(const Error& error);
  void publish(WeightId id, Flight& flight);
  void wake(Flight& flight);

  // Called and left with the mutex held; may unlock it in between:
  void reserve(Lock& lock);
  void end_chunk(Lock& lock, const Chunk& chunk, const Result<void>& landed, size_t loader);
  void report(Lock& lock);

  // Without the mutex:
  void work(size_t loader);
  Result<void> load_chunk(const Chunk& chunk, size_t loader);
  Result<void> finish_weight(WeightId id, size_t loader);

  const WeightTable& table_;
  const gguf::GgufFile& file_;
  Placement& placement_;
  const size_t n_loaders_;
  const Clock clock_;
  const Error cleared_;            // allocated ahead
  std::vector<PaddedWord> words_;  // of the weights, then of each stage's experts together, then of all weights
  std::atomic<size_t> n_resident_ = 0;
  CacheSlots slots_;

  mutable std::mutex mutex_;
  std::condition_variable work_posted_;  // for loaders
  std::condition_variable quiet_;        // for evict and clear: a flight or an awaited lease has ended
  // Guarded by mutex_:
  enum class Arena : uint8_t { absent, reserving, ready } arena_ = Arena::absent;
  LoadQueue queue_;                               // flights with chunks nobody has taken
  std::vector<std::shared_ptr<Flight>> flights_;  // by weight; null: none
  size_t n_flights_ = 0;
  std::vector<bool> is_full_;             // by pool, during the search for a chunk
  std::vector<size_t> n_experts_absent_;  // by stage: number of expert weights not resident
  std::vector<std::thread> threads_;
  bool is_stuck_ = false;  // no queued load can get a slot until a lease or a load ends
  bool stopping_ = false;
  bool clearing_ = false;
  LoadingStats counts_;   // cumulative counts; the current state is read from the words
  TimePoint busy_since_;  // n_flights_ > 0
  TimePoint last_report_;
  bool has_callback_ = false;

  std::mutex finish_mutex_;    // placements finish one weight at a time
  std::mutex progress_mutex_;  // taken before mutex_
  ProgressCallback callback_;  // guarded by progress_mutex_
};

}  // namespace rocmforge
