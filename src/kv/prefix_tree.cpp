#include "kv/prefix_tree.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/seeded_hash.h"

namespace rocmforge {
namespace {

uint64_t hash_key(std::optional<NodeId> parent, std::string_view salt, std::span<const TokenId> tokens) {
  const uint64_t before = parent ? seeded_hash(1, parent->value) : seeded_hash(2, seeded_hash(salt));
  const std::string_view bytes(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  return seeded_hash(before, seeded_hash(bytes));
}

}  // namespace

PrefixTree::PrefixTree(PagePool& pages, StatePool& states, PagePool* windows)
    : pages_(&pages),
      states_(&states),
      windows_(windows),
      buckets_(std::bit_ceil(std::max<size_t>(pages.n_pages(), 1))) {}

std::optional<NodeId> PrefixTree::lookup(std::optional<NodeId> parent, uint64_t hash, std::string_view salt,
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
  std::optional<NodeId> parent;
  for (size_t at = 0; at + kPageTokens <= tokens.size(); at += kPageTokens) {
    const auto key = tokens.subspan(at, kPageTokens);
    const auto id = lookup(parent, hash_key(parent, salt, key), salt, key);
    if (!id) break;
    const Node& node = nodes_[id->value];
    if (node.phase == Phase::pending) {
      match.pending = {*id, node.stamp};
      break;
    }
    match.nodes.push_back(*id);
    if (node.state) match.n_to_state = static_cast<uint32_t>(match.nodes.size());
    parent = id;
  }
  return match;
}

bool PrefixTree::is_pending(const Pending& pending) const {
  const Node& node = nodes_[pending.node.value];
  return node.phase == Phase::pending && node.stamp == pending.stamp;
}

NodeId PrefixTree::new_node() {
  if (free_nodes_.empty()) {
    nodes_.emplace_back();
    free_nodes_.reserve(nodes_.capacity());  // so that erase() finds room
    return NodeId(static_cast<uint32_t>(nodes_.size() - 1));
  }
  const NodeId id = free_nodes_.back();
  free_nodes_.pop_back();
  return id;
}

NodeId PrefixTree::insert(std::optional<NodeId> parent, std::string_view salt, std::span<const TokenId> tokens,
                          PageId page, Phase phase) {
  CHECK(phase != Phase::absent && tokens.size() == kPageTokens);
  CHECK(!parent || nodes_[parent->value].phase != Phase::absent);
  const uint64_t hash = hash_key(parent, salt, tokens);
  if (const auto there = lookup(parent, hash, salt, tokens)) return *there;
  CHECK(pages_->n_holders(page) == 1);
  const NodeId id = new_node();
  Node& node = nodes_[id.value];
  node.phase = phase;
  node.hash = hash;
  node.stamp = next_stamp_++;
  node.page = page;
  node.parent = parent;
  if (parent) {
    nodes_[parent->value].n_children++;
  } else {
    node.salt = salt;
  }
  std::ranges::copy(tokens, node.tokens.begin());
  node.next_in_bucket = bucket(hash);
  bucket(hash) = id;
  pages_->share(page);
  return id;
}

void PrefixTree::publish(NodeId node) {
  CHECK(phase(node) == Phase::pending);
  nodes_[node.value].phase = Phase::ready;
}

void PrefixTree::hold(NodeId node) {
  if (nodes_[node.value].is_unused) remove_unused(node);
  pages_->share(page(node));
}

void PrefixTree::release(NodeId id, bool keep) {
  Node& node = nodes_[id.value];
  CHECK(node.phase != Phase::absent);
  pages_->release(node.page);
  if (!keep) {
    drop_state(id);
    drop_window_page(id);
  }
  if (node.phase == Phase::pending) return erase(id);
  if (pages_->n_holders(node.page) > 1) return;
  if (keep || node.n_children > 0) {
    add_unused(id);
  } else {
    erase(id);
  }
}

bool PrefixTree::evict() {
  if (!unused_.oldest) return false;
  const NodeId node = *unused_.oldest;
  remove_unused(node);
  erase(node);
  return true;
}

void PrefixTree::erase(NodeId id) {
  Node& node = nodes_[id.value];
  CHECK(node.n_children == 0 && pages_->n_holders(node.page) == 1);
  drop_state(id);
  drop_window_page(id);
  auto* link = &bucket(node.hash);
  while (*link != id) link = &nodes_[(*link)->value].next_in_bucket;
  *link = node.next_in_bucket;
  if (node.parent) nodes_[node.parent->value].n_children--;
  pages_->release(node.page);
  node.phase = Phase::absent;
  node.parent.reset();
  node.next_in_bucket.reset();
  node.salt.clear();
  free_nodes_.push_back(id);
}

void PrefixTree::keep_state(NodeId id, StateId state) {
  Node& node = nodes_[id.value];
  CHECK(node.phase == Phase::ready);
  if (node.state) {
    unlink(with_state_, &Node::with_state, id);
    node.is_state_shared = true;
  } else {
    states_->share(state);
    node.state = state;
    node.is_state_shared = false;
    n_states_++;
  }
  append(with_state_, &Node::with_state, id);
}

StateId PrefixTree::resume_from(NodeId id) {
  Node& node = nodes_[id.value];
  CHECK(node.state.has_value());
  keep_state(id, *node.state);
  states_->share(*node.state);
  return *node.state;
}

void PrefixTree::drop_state(NodeId id) {
  Node& node = nodes_[id.value];
  if (!node.state) return;
  unlink(with_state_, &Node::with_state, id);
  states_->release(*node.state);
  node.state.reset();
  n_states_--;
}

bool PrefixTree::evict_state() {
  auto at = with_state_.oldest;
  while (at && states_->n_holders(*nodes_[at->value].state) > 1) at = nodes_[at->value].with_state.newer;
  if (at) drop_state(*at);
  return at.has_value();
}

void PrefixTree::keep_window_page(NodeId id, PageId page) {
  Node& node = nodes_[id.value];
  CHECK(node.phase == Phase::ready);
  if (node.window_page) return;
  CHECK(windows_->n_holders(page) == 1);
  windows_->share(page);
  node.window_page = page;
  node.is_window_likely = false;
}

PageId PrefixTree::resume_window_page(NodeId id) {
  use_window_page(id);
  const PageId page = nodes_[id.value].window_page.value();
  windows_->share(page);
  return page;
}

void PrefixTree::release_window_page(NodeId id, bool likely) {
  Node& node = nodes_[id.value];
  CHECK(node.window_page && !node.is_window_unused);
  windows_->release(*node.window_page);
  node.is_window_likely |= likely;
  if (windows_->n_holders(*node.window_page) > 1) return;
  node.is_window_unused = true;
  n_windows_evictable_++;
  append(window_list(node), &Node::window, id);
}

bool PrefixTree::evict_window_page() {
  const auto at = passed_windows_.oldest ? passed_windows_.oldest : likely_windows_.oldest;
  if (at) drop_window_page(*at);
  return at.has_value();
}

void PrefixTree::use_window_page(NodeId id) {
  Node& node = nodes_[id.value];
  if (!node.is_window_unused) return;
  unlink(window_list(node), &Node::window, id);
  node.is_window_unused = false;
  n_windows_evictable_--;
}

void PrefixTree::drop_window_page(NodeId id) {
  Node& node = nodes_[id.value];
  if (!node.window_page) return;
  use_window_page(id);
  windows_->release(*node.window_page);
  node.window_page.reset();
}

void PrefixTree::add_unused(NodeId node) {
  nodes_[node.value].is_unused = true;
  append(unused_, &Node::unused, node);
  n_evictable_++;
}

void PrefixTree::remove_unused(NodeId node) {
  unlink(unused_, &Node::unused, node);
  nodes_[node.value].is_unused = false;
  n_evictable_--;
}

void PrefixTree::append(List& list, Links Node::* links, NodeId node) {
  nodes_[node.value].*links = {.older = list.newest, .newer = {}};
  (list.newest ? (nodes_[list.newest->value].*links).newer : list.oldest) = node;
  list.newest = node;
}

void PrefixTree::unlink(List& list, Links Node::* links, NodeId node) {
  const Links at = nodes_[node.value].*links;
  (at.older ? (nodes_[at.older->value].*links).newer : list.oldest) = at.newer;
  (at.newer ? (nodes_[at.newer->value].*links).older : list.newest) = at.older;
}

bool PrefixTree::are_windows_consistent() const {
  if (windows_ == nullptr) return true;
  if (!windows_->is_consistent()) return false;
  std::vector<bool> is_in_node(windows_->n_pages(), false);
  uint32_t n_unused = 0, n_listed = 0;
  for (const Node& node : nodes_) {
    n_unused += node.is_window_unused;
    if (!node.window_page) {
      if (node.is_window_unused) return false;
      continue;
    }
    if (node.phase != Phase::ready || is_in_node[node.window_page->value]) return false;
    is_in_node[node.window_page->value] = true;
    if (node.is_window_unused != (windows_->n_holders(*node.window_page) == 1)) return false;
  }
  for (const List* list : {&passed_windows_, &likely_windows_}) {
    for (auto at = list->oldest; at && n_listed <= n_unused; at = nodes_[at->value].window.newer) {
      n_listed++;
      const Node& node = nodes_[at->value];
      if (!node.is_window_unused || node.is_window_likely != (list == &likely_windows_)) return false;
    }
  }
  return n_unused == n_windows_evictable_ && n_listed == n_unused;
}

bool PrefixTree::is_consistent() const {
  if (!are_windows_consistent()) return false;
  if (!pages_->is_consistent() || !states_->is_consistent()) return false;
  std::vector<uint32_t> n_children(nodes_.size(), 0);
  std::vector<bool> is_in_node(pages_->n_pages(), false), is_kept(states_->size(), false);
  uint32_t n_unused = 0, n_absent = 0, n_states = 0;
  for (const Node& node : nodes_) {
    n_unused += node.is_unused;
    n_absent += node.phase == Phase::absent;
    n_states += node.state.has_value();
    if (node.state) {
      if (node.phase != Phase::ready || is_kept[node.state->value] || states_->n_holders(*node.state) == 0) {
        return false;
      }
      is_kept[node.state->value] = true;
    }
    if (node.phase == Phase::absent) {
      if (node.is_unused || node.n_children > 0) return false;
      continue;
    }
    if (is_in_node[node.page.value]) return false;
    is_in_node[node.page.value] = true;
    const uint32_t n_holders = pages_->n_holders(node.page);
    if (node.phase == Phase::pending ? node.is_unused || n_holders != 2 : node.is_unused != (n_holders == 1)) {
      return false;
    }
    if (!node.parent) continue;
    n_children[node.parent->value]++;
    const Node& parent = nodes_[node.parent->value];
    // Whoever holds a node holds its parent, so a parent has at least as many holders as any child.
    if (parent.phase == Phase::absent || pages_->n_holders(parent.page) < n_holders) return false;
    if (node.phase == Phase::ready && parent.phase == Phase::pending) return false;
  }
  for (size_t i = 0; i < nodes_.size(); i++) {
    if (nodes_[i].n_children != n_children[i]) return false;
  }
  uint32_t n_listed = 0;
  for (auto at = with_state_.oldest; at; at = nodes_[at->value].with_state.newer) {
    n_listed++;
    if (!nodes_[at->value].state || n_listed > n_states) return false;
  }
  return n_unused == n_evictable_ && n_absent == free_nodes_.size() && n_states == n_states_ && n_listed == n_states;
}

}  // namespace rocmforge
