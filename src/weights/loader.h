#pragma once
// The engine of a WeightStore: threads that read weights into a placement, and the calls that wait for them.
//
// A load is a flight. It begins with the first request for a cold weight; its pieces are taken one by one, by all
// loaders, under the mutex, and read and landed outside of it; the loader of the last piece finishes the weight and
// publishes it with a lease for every call that waited. A failed piece ends its flight, and only the calls that
// waited for that flight see the error.
//
// Threads: everything may be called from any thread, except that the progress callback must not call on_progress or
// clear. Loader threads start with the first load and end in clear(). Calls that find everything resident take no lock,
// and nothing that may block (reading, landing, reserving, the callback) happens under one that others wait for.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "gguf/reader.h"
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

  bool is_stage_resident(uint32_t stage) const;

  // A lease if the weight is resident; never blocks.
  bool try_lease(WeightId id) { return words_[id.value].word.try_lease(); }
  // A lease on each, once all are resident; on error none.
  Result<void> lease(std::span<const WeightId> ids);
  void release(WeightId id);

  void prefetch(std::span<const WeightId> ids);
  void evict(WeightId id);
  void clear();

  LoadingStats stats() const;
  void on_progress(ProgressCallback callback);

 private:
  struct Flight;
  struct Piece {
    WeightId id;
    std::shared_ptr<Flight> flight;
    uint64_t first_row = 0;
    uint64_t n_rows = 0;
  };
  using Lock = std::unique_lock<std::mutex>;
  struct alignas(64) PaddedWord {  // a hit on one weight does not slow hits on its neighbours
    WeightWord word;
  };

  WeightWord& word(WeightId id) { return words_[id.value].word; }
  Error named(Error error, WeightId id) const;

  // What a call waits for: null when the weight was resident and is leased now. `unattended`: the load was under way
  // with nobody waiting for it.
  struct Joined {
    std::shared_ptr<Flight> flight;
    bool unattended = false;
  };
  Result<void> lease_once(std::span<const WeightId> ids, bool& was_unattended);

  // Under the mutex:
  Joined join(WeightId id);
  std::shared_ptr<Flight> begin(WeightId id, Urgency urgency);
  void start_threads(WeightId id);
  Piece take_piece();
  void abandon(WeightId id, Error error);
  void publish(WeightId id, Flight& flight);
  void wake(Flight& flight);

  // With the mutex held on entry and return, but not throughout:
  void reserve(Lock& lock);
  void end_piece(Lock& lock, const Piece& piece, Result<void> landed, size_t loader);
  void report(Lock& lock);

  // Without it:
  void work(size_t loader);
  Result<void> load_piece(const Piece& piece, size_t loader);
  Result<void> finish_weight(WeightId id, size_t loader);

  const WeightTable& table_;
  const gguf::GgufFile& file_;
  Placement& placement_;
  const size_t n_loaders_;
  const Clock clock_;
  std::vector<PaddedWord> words_;

  mutable std::mutex mutex_;
  std::condition_variable work_posted_;  // for loaders
  std::condition_variable quiet_;        // for evict and clear: a flight or an awaited lease has ended
  // Guarded by mutex_:
  enum class Arena : uint8_t { absent, reserving, ready } arena_ = Arena::absent;
  LoadQueue queue_;                               // flights with pieces nobody has taken
  std::vector<std::shared_ptr<Flight>> flights_;  // by weight; null: none
  size_t n_flights_ = 0;
  std::vector<std::thread> threads_;
  bool stopping_ = false;
  bool clearing_ = false;
  LoadingStats counts_;   // of what has happened; what is the case now is read off the words
  TimePoint busy_since_;  // n_flights_ > 0
  TimePoint last_report_;
  bool has_callback_ = false;

  std::mutex finish_mutex_;    // placements finish one weight at a time
  std::mutex progress_mutex_;  // taken before mutex_
  ProgressCallback callback_;  // guarded by progress_mutex_
};

}  // namespace rocmforge
