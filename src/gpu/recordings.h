#pragma once
// Passes recorded as graphs and replayed when a batch of the same form occurs again. The key determines everything in a
// graph: the steps and counts determine the launches, the arena determines the addresses. Each replay reads the rest
// (tokens, positions, pages) anew (kernels/take_batch.h).
//
// Threads: one at a time.

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "gpu/device.h"
#include "plan/batch.h"
#include "plan/step.h"

namespace rocmforge::gpu {

class Recordings {
 public:
  // Larger passes are not recorded: above kMaxRows rows, launching costs little compared with the work, and prompts of
  // more than kMaxMixedRows rows use a different attention kernel.
  static constexpr uint32_t kMaxRows = 128, kMaxMixedRows = 64;
  static bool takes(const Batch& batch);

  static constexpr size_t kMaxKept = 32;
  // A refusal may come from a moment's lack of memory, or from a copy on another thread.
  static constexpr uint32_t kPassesBeforeRetry = 64;

  struct Key {
    const Step* first_step = nullptr;  // of the plan
    const std::byte* arena = nullptr;  // the arena's address
    uint32_t n_rows = 0, n_outputs = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Entry {
    Key key;
    bool was_run = false;        // launched once: every kernel is loaded, every table is made
    uint32_t n_until_retry = 0;  // passes to launch before recording is tried again: the device has refused
    std::vector<Graph> graphs;   // executed in sequence; empty: not recorded
    // The slot whose top-k candidates were read after the run: the graph also finds them, for all output rows.
    std::optional<SlotId> candidates_of = {};
  };

  // The entry of a key, created if there is none. May evict the least recently used entry; it then waits for `stream`,
  // which may still be executing it.
  Result<Entry*> find(const Key& key, const Stream& stream);
  Entry& last_found() { return entries_.back(); }  // REQUIRES: one was found since clear()
  void clear() { entries_.clear(); }

  // Whether to record a pass now; counts the passes of an entry that was refused.
  static bool wants_recording(Entry& entry);
  // Notes that the device did not record an entry's pass. The first refusal is logged.
  void refuse(Entry& entry, const Error& why);
  uint64_t n_refused() const { return n_refused_; }

 private:
  std::vector<Entry> entries_;          // least recently used first
  std::atomic<uint64_t> n_refused_{0};  // also read by other threads
};

}  // namespace rocmforge::gpu
