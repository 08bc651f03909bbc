#include "gpu/recordings.h"

#include <algorithm>

namespace rocmforge::gpu {

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

}  // namespace rocmforge::gpu
