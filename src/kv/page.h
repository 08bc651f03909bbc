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

namespace rocmforge {

using PageId = Id<struct PageIdTag>;
inline constexpr uint32_t kPageTokens = 64;

inline constexpr uint32_t pages_for_tokens(uint64_t n_tokens) {
  return static_cast<uint32_t>((n_tokens + kPageTokens - 1) / kPageTokens);
}

class PagePool {
 public:
  explicit PagePool(uint32_t n_pages);

  uint32_t n_pages() const { return static_cast<uint32_t>(n_holders_.size()); }
  uint32_t n_free() const { return static_cast<uint32_t>(free_.size()); }

  // A page held once; out_of_memory when none is free.
  Result<PageId> allocate();
  // One more holder. REQUIRES: the page is held
  void share(PageId page);
  // One holder less; free when it was the last. REQUIRES: the page is held
  void release(PageId page);
  uint32_t n_holders(PageId page) const;

  // free + held == total, and no page is both.
  bool is_consistent() const;

 private:
  std::vector<uint32_t> n_holders_;  // reference count by page; 0: free
  std::vector<PageId> free_;         // last in, first out: the page freed last may still be in a cache
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
