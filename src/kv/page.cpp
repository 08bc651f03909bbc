#include "kv/page.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace rocmforge {

PagePool::PagePool(uint32_t n_pages) : n_holders_(n_pages, 0) {
  free_.reserve(n_pages);
  for (uint32_t i = n_pages; i > 0; i--) free_.push_back(PageId(i - 1));
}

Result<PageId> PagePool::allocate() {
  if (free_.empty()) {
    return Error{ErrorCode::out_of_memory,
                 fmt::format("kv: all {} pages of {} tokens are in use", n_pages(), kPageTokens)};
  }
  const PageId page = free_.back();
  free_.pop_back();
  n_holders_[page.value] = 1;
  return page;
}

void PagePool::share(PageId page) {
  CHECK(n_holders(page) > 0);
  n_holders_[page.value]++;
}

void PagePool::release(PageId page) {
  CHECK(n_holders(page) > 0);
  if (--n_holders_[page.value] == 0) free_.push_back(page);
}

uint32_t PagePool::n_holders(PageId page) const {
  CHECK(page.value < n_pages());
  return n_holders_[page.value];
}

bool PagePool::is_consistent() const {
  std::vector<bool> is_free(n_pages(), false);
  for (const PageId page : free_) {
    if (page.value >= n_pages() || is_free[page.value] || n_holders_[page.value] != 0) return false;
    is_free[page.value] = true;
  }
  const auto n_held = std::count_if(n_holders_.begin(), n_holders_.end(), [](uint32_t n) { return n > 0; });
  return static_cast<size_t>(n_held) + free_.size() == n_pages();
}

BlockTable::~BlockTable() {
  shrink_to(0);
}

BlockTable::BlockTable(BlockTable&& other) noexcept : pool_(other.pool_), pages_(std::exchange(other.pages_, {})) {}

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  if (this == &other) return *this;
  shrink_to(0);
  pool_ = other.pool_;
  pages_ = std::exchange(other.pages_, {});
  return *this;
}

Result<void> BlockTable::grow_to(uint64_t n_tokens) {
  const size_t n_before = pages_.size();
  while (capacity() < n_tokens) {
    auto page = pool_->allocate();
    if (!page.ok()) {
      shrink_to(n_before * kPageTokens);
      return std::move(page).error();
    }
    pages_.push_back(*page);
  }
  return {};
}

void BlockTable::shrink_to(uint64_t n_tokens) {
  const size_t n_kept = pages_for_tokens(n_tokens);
  while (pages_.size() > n_kept) {
    pool_->release(pages_.back());
    pages_.pop_back();
  }
}

}  // namespace rocmforge
