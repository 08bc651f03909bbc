#include "gpu/recordings.h"

#include <algorithm>

#include "base/log.h"
#include "gpu/kernels/attend_tiles.h"

namespace rocmforge::gpu {

bool Recordings::takes(const Batch& batch) {
  if (batch.n_rows() <= kMaxMixedRows) return true;
  const auto is_tiled = [](const BatchSequence& s) { return s.n_rows >= kMinTiledRows; };
  return batch.n_rows() <= kMaxRows && std::ranges::none_of(batch.sequences, is_tiled);
}

Result<Recordings::Entry*> Recordings::find(const Key& key, const Stream& stream) {
  const auto at = std::ranges::find(entries_, key, &Entry::key);
  if (at != entries_.end()) {
    std::rotate(at, at + 1, entries_.end());
    return &entries_.back();
  }
  if (entries_.size() == kMaxKept) {
    TRY(stream.finish());
    entries_.erase(entries_.begin());
  }
  entries_.emplace_back().key = key;
  return &entries_.back();
}

bool Recordings::wants_recording(Entry& entry) {
  if (!entry.was_run || !entry.graphs.empty()) return false;
  if (entry.n_until_retry == 0) return true;
  entry.n_until_retry--;
  return false;
}

void Recordings::refuse(Entry& entry, const Error& why) {
  entry.n_until_retry = kPassesBeforeRetry;
  if (n_refused_++ > 0) return;
  log(LogLevel::warn,
      "gpu: the device did not record a pass, which makes decoding slower; tried again after {} passes: {}",
      kPassesBeforeRetry, why.message);
}

}  // namespace rocmforge::gpu
