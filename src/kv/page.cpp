#include "kv/page.h"

#include <fmt/core.h>

#include <utility>

namespace rocmforge {

Result<PageId> PagePool::allocate() {
  if (const auto page = take()) return *page;
  return Error{ErrorCode::out_of_memory,
               fmt::format("kv: all {} pages of {} tokens are in use", n_pages(), kPageTokens)};
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
