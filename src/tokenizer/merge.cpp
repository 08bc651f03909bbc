#include "tokenizer/merge.h"

#include <algorithm>
#include <functional>

namespace rocmforge::tokenizer {

uint32_t MergeQueue::bucket_of(uint32_t rank) {
  const auto find = [&](uint32_t wanted) -> Slot& {
    const size_t mask = slots_.size() - 1;
    size_t i = seeded_hash(wanted, 0, key_) & mask;
    while (slots_[i].rank != kNoRank && slots_[i].rank != wanted) i = (i + 1) & mask;
    return slots_[i];
  };
  if (2 * (buckets_.size() + 1) > slots_.size()) {
    std::vector<Slot> old(std::max<size_t>(64, 2 * slots_.size()));
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.rank != kNoRank) find(slot.rank) = slot;
    }
  }
  Slot& slot = find(rank);
  if (slot.rank == kNoRank) {
    slot = {rank, static_cast<uint32_t>(buckets_.size())};
    buckets_.emplace_back();
  }
  return slot.bucket;
}

void MergeQueue::push(uint32_t rank, uint32_t position) {
  const uint32_t index = bucket_of(rank);
  Bucket& bucket = buckets_[index];
  if (bucket.empty()) {
    ranks_.push_back(static_cast<uint64_t>(rank) << 32 | index);
    std::push_heap(ranks_.begin(), ranks_.end(), std::greater<>());
    bucket.run.clear();
    bucket.taken = 0;
  }
  if (bucket.run.empty() || bucket.run.back() <= position) {
    bucket.run.push_back(position);
  } else {
    bucket.late.push_back(position);
    std::push_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
  }
}

std::optional<MergeQueue::Due> MergeQueue::pop() {
  if (ranks_.empty()) return std::nullopt;
  const auto rank = static_cast<uint32_t>(ranks_.front() >> 32);
  Bucket& bucket = buckets_[static_cast<uint32_t>(ranks_.front())];
  constexpr size_t kAhead = 8;
  const size_t ahead = bucket.taken + kAhead;
  const uint32_t soon = ahead < bucket.run.size() ? bucket.run[ahead] : 0;
  uint32_t position;
  if (bucket.late.empty() || (bucket.taken < bucket.run.size() && bucket.run[bucket.taken] <= bucket.late.front())) {
    position = bucket.run[bucket.taken++];
  } else {
    position = bucket.late.front();
    std::pop_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
    bucket.late.pop_back();
  }
  if (bucket.empty()) {
    std::pop_heap(ranks_.begin(), ranks_.end(), std::greater<>());
    ranks_.pop_back();
  }
  return Due{rank, position, soon};
}

}  // namespace rocmforge::tokenizer
