#include "kv/prefix_tree.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/seeded_hash.h"

namespace rocmforge {
namespace {

uint64_t hash_key(std::optional<PageId> parent, std::string_view salt, std::span<const TokenId> tokens) {
  const uint64_t before = parent ? seeded_hash(1, parent->value) : seeded_hash(2, seeded_hash(salt));
  const std::string_view bytes(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  return seeded_hash(before, seeded_hash(bytes));
}

}  // namespace

PrefixTree::PrefixTree(PagePool& pool)
    : pool_(&pool), nodes_(pool.n_pages()), buckets_(std::bit_ceil(std::max<size_t>(pool.n_pages(), 1))) {}

std::optional<PageId> PrefixTree::lookup(std::optional<PageId> parent, uint64_t hash, std::string_view salt,
                                         std::span<const TokenId> tokens) const {
  for (auto at = buckets_[hash & (buckets_.size() - 1)]; at; at = nodes_[at->value].next_in_bucket) {
    const Node& node = nodes_[at->value];
    if (node.hash == hash && node.parent == parent && (parent || node.salt == salt) &&
        std::ranges::equal(node.tokens, tokens)) {
      return at;
    }
  }
  return std::nullopt;
}

PrefixTree::Match PrefixTree::find(std::string_view salt, std::span<const TokenId> tokens) const {
  Match match;
  std::optional<PageId> parent;
  for (size_t at = 0; at + kPageTokens <= tokens.size(); at += kPageTokens) {
    const auto key = tokens.subspan(at, kPageTokens);
    const auto page = lookup(parent, hash_key(parent, salt, key), salt, key);
    if (!page) break;
    if (state(*page) == State::pending) {
      match.pending = {*page, nodes_[page->value].stamp};
      break;
    }
    match.pages.push_back(*page);
    parent = page;
  }
  return match;
}

bool PrefixTree::is_pending(const Pending& pending) const {
  const Node& node = nodes_[pending.page.value];
  return node.state == State::pending && node.stamp == pending.stamp;
}

PageId PrefixTree::insert(std::optional<PageId> parent, std::string_view salt, std::span<const TokenId> tokens,
                          PageId page, State state) {
  CHECK(state != State::absent && tokens.size() == kPageTokens);
  CHECK(!parent || nodes_[parent->value].state != State::absent);
  const uint64_t hash = hash_key(parent, salt, tokens);
  if (const auto there = lookup(parent, hash, salt, tokens)) return *there;
  Node& node = nodes_[page.value];
  CHECK(node.state == State::absent && pool_->n_holders(page) == 1);
  node.state = state;
  node.hash = hash;
  node.stamp = next_stamp_++;
  node.parent = parent;
  if (parent) {
    nodes_[parent->value].n_children++;
  } else {
    node.salt = salt;
  }
  std::ranges::copy(tokens, node.tokens.begin());
  node.next_in_bucket = bucket(hash);
  bucket(hash) = page;
  pool_->share(page);
  return page;
}

void PrefixTree::publish(PageId page) {
  CHECK(state(page) == State::pending);
  nodes_[page.value].state = State::ready;
}

void PrefixTree::hold(PageId page) {
  if (nodes_[page.value].is_unused) remove_unused(page);
  pool_->share(page);
}

void PrefixTree::release(PageId page, bool keep) {
  pool_->release(page);
  Node& node = nodes_[page.value];
  switch (node.state) {
    case State::absent:
      break;
    case State::pending:
      erase(page);
      break;
    case State::ready:
      if (pool_->n_holders(page) > 1) break;
      if (keep || node.n_children > 0) {
        add_unused(page);
      } else {
        erase(page);
      }
      break;
  }
}

bool PrefixTree::evict() {
  if (!oldest_) return false;
  const PageId page = *oldest_;
  remove_unused(page);
  erase(page);
  return true;
}

void PrefixTree::erase(PageId page) {
  Node& node = nodes_[page.value];
  CHECK(node.n_children == 0 && pool_->n_holders(page) == 1);
  auto* link = &bucket(node.hash);
  while (*link != page) link = &nodes_[(*link)->value].next_in_bucket;
  *link = node.next_in_bucket;
  if (node.parent) nodes_[node.parent->value].n_children--;
  node.state = State::absent;
  node.parent.reset();
  node.next_in_bucket.reset();
  node.salt.clear();
  pool_->release(page);
}

void PrefixTree::add_unused(PageId page) {
  Node& node = nodes_[page.value];
  node.is_unused = true;
  node.older = newest_;
  node.newer.reset();
  (newest_ ? nodes_[newest_->value].newer : oldest_) = page;
  newest_ = page;
  n_evictable_++;
}

void PrefixTree::remove_unused(PageId page) {
  Node& node = nodes_[page.value];
  (node.older ? nodes_[node.older->value].newer : oldest_) = node.newer;
  (node.newer ? nodes_[node.newer->value].older : newest_) = node.older;
  node.is_unused = false;
  n_evictable_--;
}

bool PrefixTree::is_consistent() const {
  if (!pool_->is_consistent()) return false;
  std::vector<uint32_t> n_children(nodes_.size(), 0);
  uint32_t n_unused = 0;
  for (uint32_t i = 0; i < nodes_.size(); i++) {
    const Node& node = nodes_[i];
    const uint32_t n_holders = pool_->n_holders(PageId(i));
    n_unused += node.is_unused;
    switch (node.state) {
      case State::absent:
        if (node.is_unused || node.n_children > 0) return false;
        break;
      case State::pending:
        if (node.is_unused || n_holders != 2) return false;
        break;
      case State::ready:
        if (node.is_unused != (n_holders == 1)) return false;
        break;
    }
    if (node.state != State::absent && node.parent) {
      n_children[node.parent->value]++;
      const Node& parent = nodes_[node.parent->value];
      // Whoever holds a page holds its parent, so a parent has at least as many holders as any child.
      if (parent.state == State::absent || pool_->n_holders(*node.parent) < n_holders) return false;
      if (node.state == State::ready && parent.state == State::pending) return false;
    }
  }
  for (uint32_t i = 0; i < nodes_.size(); i++) {
    if (nodes_[i].n_children != n_children[i]) return false;
  }
  return n_unused == n_evictable_;
}

}  // namespace rocmforge
