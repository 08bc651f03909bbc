#pragma once
// Which stores to device memory a wave may look at.
//
// A store is issued; it arrives in the L2 when its wave has waited for it; on a device of several L2 a write-back makes
// it visible to the others. Another wave hears of it by a barrier or an atomic, and may look at it when it has since
// invalidated the caches that could hold what was there before. Stores of the same bytes as were there are no stores.

#include <cstdint>
#include <mutex>
#include <span>

#include "gpu/isa/code_object.h"
#include "gpu/isa/instruction.h"
#include "gpu/isa/store_log.h"

namespace rocmforge::gpu::isa {

struct StoreKind {
  Scope scope = Scope::wave;
  bool may_be_flag = false;  // one lane's: what others read past their caches, to hear of stores before it
};

class Visibility {
 public:
  // wave: of the launch, from 1 on; first: the first wave of its block, n: how many that has.
  void begin(StoreLog* log, const Kernel& kernel, uint32_t wave, uint32_t first, uint32_t n);
  bool is_followed() const { return log_ != nullptr; }

  // Each gives null when the access is fine, else what is wrong with it. A vector store or atomic has one number.
  uint32_t issue_store() { return ++issued_; }
  const char* load(const Range& range, uint64_t address, uint32_t n_bytes, Scope scope);
  const char* scalar_load(const Range& range, uint64_t address, uint32_t n_bytes) const;
  const char* store(const Range& range, uint64_t address, uint32_t n_bytes, const StoreKind& kind, const void* data);
  // An atomic passes its wave's stores on, changes its word and hears of others' stores, while it holds the turn that
  // the atomics of all blocks share.
  std::unique_lock<std::mutex> atomic_turn() {
    return log_ != nullptr ? log_->one_atomic() : std::unique_lock<std::mutex>();
  }
  const char* atomic(const Range& range, uint64_t address, Scope scope);
  void atomic_is_done(uint64_t address) { listening_.join(log_->acquire(address)); }

  void issue_write_back(Scope scope);
  void invalidate(Scope scope);
  void invalidate_near() { near_.join(heard_); }
  void invalidate_far() {
    far_.join(heard_);
    is_news_ |= !heard_.empty();
  }
  // What a wait says of the operations before it.
  void store_arrived(uint32_t number);
  void written_back();
  void atomic_ended() {
    heard_.join(listening_);
    is_news_ = true;
  }

  // All waves of a block are at a barrier.
  static void barrier(std::span<Visibility*> waves);

 private:
  bool may_look_at(const StoredWord& word) const;
  bool is_of_block(uint32_t wave) const { return wave - first_ < n_; }

  StoreLog* log_ = nullptr;
  bool shares_cache_ = false;  // the block's waves have one L0
  bool has_several_l2_ = false;
  bool is_news_ = false;  // since the last barrier
  uint32_t wave_ = 0, first_ = 0, n_ = 0;
  uint32_t issued_ = 0;
  Clock arrived_;     // in the L2 of this part of the device, as far as the wave knows
  Clock going_;       // on their way out of that L2
  Clock released_;    // visible to the whole device: what an atomic passes on
  Clock listening_;   // what atomics passed that were not waited for
  Clock heard_;       // ordered before what the wave does now
  Clock near_, far_;  // heard before the wave's own cache, and those behind it, were invalidated
};

}  // namespace rocmforge::gpu::isa
