#include "gpu/isa/store_log.h"

#include <algorithm>

namespace rocmforge::gpu::isa {
namespace {

using Entry = std::pair<uint32_t, uint32_t>;

// Somebody else may have made one in the meantime.
template <class T>
T* publish(std::atomic<T*>& place, std::unique_ptr<T> made) {
  T* expected = nullptr;
  return place.compare_exchange_strong(expected, made.get()) ? made.release() : expected;
}

}  // namespace

uint32_t Clock::of(uint32_t wave) const {
  const auto found = std::ranges::lower_bound(last_, wave, {}, &Entry::first);
  return found != last_.end() && found->first == wave ? found->second : 0;
}

void Clock::raise(uint32_t wave, uint32_t store) {
  const auto found = std::ranges::lower_bound(last_, wave, {}, &Entry::first);
  if (found != last_.end() && found->first == wave)
    found->second = std::max(found->second, store);
  else
    last_.insert(found, {wave, store});
}

void Clock::join(const Clock& other) {
  for (const auto& [wave, store] : other.last_) raise(wave, store);
}

uint64_t StoredWord::packed() const {
  return uint64_t{wave} << 32 | uint64_t{number & 0xFFFFFF} << 8 | uint64_t{is_shared} << 5 | uint64_t{is_atomic} << 4 |
         (bytes & 15u);
}

StoredWord StoredWord::unpacked(uint64_t bits) {
  return {static_cast<uint32_t>(bits >> 32), static_cast<uint32_t>(bits >> 8 & 0xFFFFFF),
          static_cast<uint8_t>(bits & 15), (bits >> 4 & 1) != 0, (bits >> 5 & 1) != 0};
}

StoreLog::StoreLog(const MemoryMap& memory) : parts_(memory.n_ranges()) {}

StoreLog::~StoreLog() {
  for (std::atomic<Pages*>& part : parts_) {
    const std::unique_ptr<Pages> pages(part.load());
    if (pages == nullptr) continue;
    for (std::atomic<Page*>& page : *pages) delete page.load();
  }
}

StoredWord StoreLog::at(const Range& range, uint64_t address) const {
  const Pages* pages = parts_[range.number].load(std::memory_order_acquire);
  if (pages == nullptr) return {};
  const uint64_t from = address - range.from / kPageBytes * kPageBytes;
  const Page* page = (*pages)[from / kPageBytes].load(std::memory_order_acquire);
  return page == nullptr ? StoredWord{} : StoredWord::unpacked((*page)[from % kPageBytes / 4].load());
}

StoredWord StoreLog::exchange(const Range& range, uint64_t address, const StoredWord& word) {
  std::atomic<Pages*>& part = parts_[range.number];
  Pages* pages = part.load(std::memory_order_acquire);
  const uint64_t first = range.from / kPageBytes * kPageBytes;
  if (pages == nullptr) pages = publish(part, std::make_unique<Pages>((range.to - first) / kPageBytes + 1));
  const uint64_t from = address - first;
  std::atomic<Page*>& place = (*pages)[from / kPageBytes];
  Page* page = place.load(std::memory_order_acquire);
  if (page == nullptr) page = publish(place, std::make_unique<Page>());
  return StoredWord::unpacked((*page)[from % kPageBytes / 4].exchange(word.packed()));
}

void StoreLog::release(uint64_t address, const Clock& stores) {
  const std::lock_guard lock(mutex_);
  released_[address].join(stores);
}

Clock StoreLog::acquire(uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = released_.find(address);
  return found == released_.end() ? Clock{} : found->second;
}

}  // namespace rocmforge::gpu::isa
