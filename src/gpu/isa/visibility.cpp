#include "gpu/isa/visibility.h"

#include <algorithm>
#include <cstring>

namespace rocmforge::gpu::isa {
namespace {

constexpr const char* kUnordered = "memory that another wave wrote, without an order between the two";
constexpr const char* kStale = "memory that another wave wrote, which caches may hold as it was before";

// The words of an access, each with its address and a bit for each of its bytes that is meant.
template <class F>
const char* each_word(uint64_t address, uint32_t n_bytes, F f) {
  for (uint64_t at = address & ~uint64_t{3}; at < address + n_bytes; at += 4) {
    const uint64_t from = std::max(at, address), to = std::min(at + 4, address + n_bytes);
    const auto bytes = static_cast<uint8_t>(((1u << (to - from)) - 1) << (from - at));
    if (const char* fault = f(at, bytes); fault != nullptr) return fault;
  }
  return nullptr;
}

}  // namespace

void Visibility::begin(StoreLog* log, const Kernel& kernel, uint32_t wave, uint32_t first, uint32_t n) {
  *this = {};
  log_ = log;
  shares_cache_ = kernel.target.generation == 9 || !kernel.descriptor.is_spread_over_units();
  has_several_l2_ = kernel.target.has_several_l2;
  wave_ = wave;
  first_ = first;
  n_ = n;
}

bool Visibility::may_look_at(const StoredWord& word) const {
  if (near_.of(word.wave) < word.number) return false;
  return is_of_block(word.wave) || far_.of(word.wave) >= word.number;
}

const char* Visibility::load(const Range& range, uint64_t address, uint32_t n_bytes, Scope scope) {
  if (!log_->has_stores(range.number)) return nullptr;
  return each_word(address, n_bytes, [&](uint64_t at, uint8_t bytes) -> const char* {
    const StoredWord word = log_->at(range, at);
    const bool is_mine = word.wave == 0 || word.wave == wave_ || word.is_shared || (word.bytes & bytes) == 0;
    if (is_mine) return nullptr;
    if (scope >= Scope::device) return listening_.join(log_->acquire(at)), nullptr;
    if (word.is_atomic && is_of_block(word.wave)) return nullptr;
    if (may_look_at(word)) return nullptr;
    return heard_.of(word.wave) >= word.number ? kStale : kUnordered;
  });
}

const char* Visibility::scalar_load(const Range& range, uint64_t address, uint32_t n_bytes) const {
  if (!log_->has_stores(range.number)) return nullptr;
  return each_word(address, n_bytes, [&](uint64_t at, uint8_t) -> const char* {
    return log_->at(range, at).wave == 0 ? nullptr : "a scalar load of memory that the same launch wrote";
  });
}

const char* Visibility::store(const Range& range, uint64_t address, uint32_t n_bytes, const StoreKind& kind,
                              const void* data) {
  is_news_ = true;
  return each_word(address, n_bytes, [&](uint64_t at, uint8_t bytes) -> const char* {
    const uint64_t from = std::max(at, address), n = std::min(at + 4, address + n_bytes) - from;
    const StoredWord before = log_->has_stores(range.number) ? log_->at(range, at) : StoredWord{};
    const bool is_others = before.wave != 0 && before.wave != wave_;
    const auto* bits = static_cast<const char*>(data) + (from - address);
    if (is_others && std::memcmp(reinterpret_cast<const void*>(from), bits, n) == 0) return nullptr;
    StoredWord now{wave_, issued_, bytes, kind.scope >= Scope::device, false};
    const bool overlaps = (before.bytes & bytes) != 0 && !before.is_shared;
    if (!is_others) now.bytes |= before.bytes;
    if (is_others && !overlaps && (before.bytes & ~bytes) != 0) now.is_shared = true;
    if (now.is_atomic || kind.may_be_flag) log_->release(at, released_);
    log_->exchange(range, at, now);
    const bool is_ordered =
        heard_.of(before.wave) >= before.number || (before.is_atomic && (now.is_atomic || is_of_block(before.wave)));
    return is_others && overlaps && !is_ordered ? kUnordered : nullptr;
  });
}

const char* Visibility::atomic(const Range& range, uint64_t address, Scope scope) {
  is_news_ = true;
  const StoredWord before = log_->exchange(range, address, {wave_, issued_, 15, true, false});
  log_->release(address, released_);
  if (before.wave == 0 || is_of_block(before.wave)) return nullptr;
  if (scope < Scope::device) return "an atomic within a block, on memory that another block wrote";
  return before.is_atomic || heard_.of(before.wave) >= before.number ? nullptr : kUnordered;
}

// It comes behind the wave's own stores, whether they have arrived or not.
void Visibility::issue_write_back(Scope scope) {
  if (scope < Scope::device) return;
  going_.join(arrived_);
  going_.raise(wave_, issued_);
}

void Visibility::written_back() {
  released_.join(going_);
}

void Visibility::invalidate(Scope scope) {
  if (scope >= Scope::block) invalidate_near();
  if (scope >= Scope::device) invalidate_far();
}

void Visibility::store_arrived(uint32_t number) {
  arrived_.raise(wave_, number);
  if (!has_several_l2_) released_.raise(wave_, number);
}

void Visibility::barrier(std::span<Visibility*> waves) {
  if (std::ranges::none_of(waves, &Visibility::is_news_)) return;
  Clock arrived, released, heard, near, far;
  for (const Visibility* v : waves) {
    arrived.join(v->arrived_);
    released.join(v->released_);
    heard.join(v->heard_);
    near.join(v->near_);
    far.join(v->far_);
    // In a cache of their own, stores are where all waves look for them as soon as they are issued.
    if (v->shares_cache_) near.raise(v->wave_, v->issued_);
  }
  heard.join(arrived);
  heard.join(near);
  for (Visibility* v : waves) {
    v->arrived_ = arrived;
    v->released_ = released;
    v->heard_ = heard;
    v->far_ = far;
    if (v->shares_cache_) v->near_ = near;
    v->is_news_ = false;
  }
}

}  // namespace rocmforge::gpu::isa
