#pragma once
// Passes that were recorded as graphs, to be replayed when a batch of the same form comes again. What a graph holds
// follows from its key: the launches from the steps and the counts, the addresses from the arena; everything else
// (tokens, positions, pages) is taken anew by each replay (kernels/take_batch.h).
//
// Threads: one at a time.

#include <cstdint>
#include <optional>
#include <vector>

#include "gpu/device.h"
#include "plan/batch.h"
#include "plan/step.h"

namespace rocmforge::gpu {

class Recordings {
 public:
  // More rows than these are worth their launches; so are prompts of more than kMaxMixedRows, which have attention of
  // their own.
  static constexpr uint32_t kMaxRows = 128, kMaxMixedRows = 64;
  static bool takes(const Batch& batch);

  static constexpr size_t kMaxKept = 32;

  struct Key {
    const Step* first_step = nullptr;  // of the plan
    const std::byte* arena = nullptr;  // where the weights lie
    uint32_t n_rows = 0, n_outputs = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Entry {
    Key key;
    bool was_run = false;       // launch by launch: every kernel is loaded, every table is made
    bool refused = false;       // the device could not record it
    std::vector<Graph> graphs;  // one after the other; none: not recorded
    // Whose candidates were read after the run: they are recorded, too, of all output rows.
    std::optional<SlotId> candidates_of = {};
  };

  // The entry of a key, new when there is none. The least recently used makes room: `stream` is waited for, since it
  // may still be running it.
  Result<Entry*> find(const Key& key, const Stream& stream);
  Entry& last_found() { return entries_.back(); }  // REQUIRES: one was found since clear()
  void clear() { entries_.clear(); }

 private:
  std::vector<Entry> entries_;  // the last one used last
};

}  // namespace rocmforge::gpu
