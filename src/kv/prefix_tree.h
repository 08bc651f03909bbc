#pragma once
// Finds the pages that hold the keys and values of given tokens, so that requests with a common prefix share them.
//
// Every node is a full page: its key is its kPageTokens tokens, its parent, and for a first page a salt. Tokens and
// salts are compared; the hash only finds candidates. A page is inserted as pending while its owner computes it (other
// requests may wait for it, but not use it), and becomes ready when published. A ready page that no sequence uses stays
// in the tree until memory is needed. Eviction takes the least recently used page first. Children go before their
// parents, because a sequence that holds a page holds its ancestors and releases the deepest first.
//
// The tree itself holds one reference to each of its pages in the pool.
//
// Threads: one at a time.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "kv/page.h"

namespace rocmforge {

class PrefixTree {
 public:
  explicit PrefixTree(PagePool& pool);

  // A page that is being computed; the stamp distinguishes later uses of the same page.
  struct Pending {
    PageId page;
    uint64_t stamp = 0;
  };
  struct Match {
    std::vector<PageId> pages;            // ready, from the start of the tokens
    std::optional<Pending> pending = {};  // the next page, which another request is computing
  };
  // The longest match of whole pages.
  Match find(std::string_view salt, std::span<const TokenId> tokens) const;
  bool is_pending(const Pending& pending) const;

  enum class State : uint8_t { absent, pending, ready };
  // Adds a page below `parent`. If a page with this key exists, nothing changes and that page is returned.
  // REQUIRES: the page is held by one sequence and not in the tree; tokens.size() == kPageTokens; the salt is that of
  // the first page
  PageId insert(std::optional<PageId> parent, std::string_view salt, std::span<const TokenId> tokens, PageId page,
                State state);
  // REQUIRES: the page is pending
  void publish(PageId page);
  State state(PageId page) const { return nodes_[page.value].state; }

  // Adds or removes a sequence's reference; also for pages outside the tree. A pending page leaves the tree when its
  // owner releases it. keep: a ready page stays in the tree.
  void hold(PageId page);
  void release(PageId page, bool keep = true);

  // Frees the least recently used page that no sequence holds; false when there is none.
  bool evict();
  uint32_t n_evictable() const { return n_evictable_; }

  // Links, counts and holders agree.
  bool is_consistent() const;

 private:
  struct Node {
    State state = State::absent;
    bool is_unused = false;  // in the list of evictable pages
    uint32_t n_children = 0;
    uint64_t hash = 0;
    uint64_t stamp = 0;
    std::optional<PageId> parent, next_in_bucket, older, newer;
    std::string salt;
    std::array<TokenId, kPageTokens> tokens;
  };

  std::optional<PageId> lookup(std::optional<PageId> parent, uint64_t hash, std::string_view salt,
                               std::span<const TokenId> tokens) const;
  std::optional<PageId>& bucket(uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  void erase(PageId page);
  void add_unused(PageId page);
  void remove_unused(PageId page);

  PagePool* pool_;
  std::vector<Node> nodes_;  // by page
  std::vector<std::optional<PageId>> buckets_;
  std::optional<PageId> oldest_, newest_;  // of those that no sequence holds
  uint32_t n_evictable_ = 0;
  uint64_t next_stamp_ = 1;
};

}  // namespace rocmforge
