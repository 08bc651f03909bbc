#pragma once
// Pages of the key-value cache, as ids with reference counts. The bytes inside a page belong to the backend.
//
// A page holds kPageTokens consecutive positions of one sequence, for every layer. Pages may be shared (a common
// prefix); a shared page is never written.
//
// Threads: one at a time.

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kv/id_pool.h"

namespace rocmforge {

using PageId = Id<struct PageIdTag>;
inline constexpr uint32_t kPageTokens = 64;

inline constexpr uint32_t pages_for_tokens(uint64_t n_tokens) {
  return static_cast<uint32_t>((n_tokens + kPageTokens - 1) / kPageTokens);
}

// Windowed layers may have pages of their own, which a sequence gives back when they lie before its window. The first
// page that the row at this position reads:
inline constexpr uint32_t first_window_page(uint32_t position, uint32_t window) {
  return position < window ? 0 : (position + 1 - window) / kPageTokens;
}
// The most pages of windowed layers that so many sequences hold at once, in steps of n_rows rows in all.
inline constexpr uint64_t window_pages_for(uint32_t window, uint64_t n_sequences, uint64_t n_rows) {
  return n_sequences * (window / kPageTokens + 3) + n_rows / kPageTokens + 1;
}

class PagePool : public IdPool<PageId> {
 public:
  using IdPool::IdPool;

  uint32_t n_pages() const { return size(); }
  // A page held once; out_of_memory when none is free.
  Result<PageId> allocate();
};

// The pages of one sequence, in order of position. Move-only; the destructor releases the pages.
class BlockTable {
 public:
  explicit BlockTable(PagePool& pool) : pool_(&pool) {}
  ~BlockTable();
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;

  std::span<const PageId> pages() const { return pages_; }
  uint32_t capacity() const { return static_cast<uint32_t>(pages_.size()) * kPageTokens; }

  // Pages for positions [0, n_tokens). All or nothing.
  Result<void> grow_to(uint64_t n_tokens);
  // Gives back the pages beyond position n_tokens.
  void shrink_to(uint64_t n_tokens);

 private:
  PagePool* pool_;
  std::vector<PageId> pages_;
};

}  // namespace rocmforge
