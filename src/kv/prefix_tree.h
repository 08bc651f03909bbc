#pragma once
// Finds the pages and states that belong to given tokens, so that requests with a common prefix share them.
//
// Every node stands for a full page of tokens: its key is its kPageTokens tokens, its parent, and for a first page a
// salt. Tokens and salts are compared; the hash only finds candidates. A node is inserted as pending while its owner
// computes the page (other requests may wait for it, but not use it), and becomes ready when published. A ready node
// that no sequence uses stays in the tree until memory is needed. Eviction takes the least recently used node first.
// Children go before their parents, because a sequence that holds a node holds its ancestors and releases the deepest
// first.
//
// A node holds its page and sometimes the state of recurrent layers after its last position: then a sequence can go on
// behind it. States are evicted apart from nodes, also from those that sequences hold: a sequence that reads a state
// holds the state's slot.
//
// Where windowed layers have pages of their own, a node may hold its page of those, too: a sequence can go on behind a
// node when all nodes that its window reaches have theirs. Such pages are evicted apart from nodes: first those that a
// sequence has passed, then those at the ends of prompts and answers, where others are likely to go on.
//
// The tree itself holds one reference to each of its pages and states in their pools.
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
#include "kv/state.h"

namespace rocmforge {

using NodeId = Id<struct NodeIdTag>;

class PrefixTree {
 public:
  // windows: the pages of windowed layers; null: they have none of their own.
  PrefixTree(PagePool& pages, StatePool& states, PagePool* windows = nullptr);

  // A node that is being computed; the stamp distinguishes later uses of the same id.
  struct Pending {
    NodeId node;
    uint64_t stamp = 0;
  };
  struct Match {
    std::vector<NodeId> nodes;            // ready, from the start of the tokens
    uint32_t n_to_state = 0;              // of these, up to the last that has a state; 0: none has
    std::optional<Pending> pending = {};  // the next node, which another request is computing
  };
  // The longest match of whole pages.
  Match find(std::string_view salt, std::span<const TokenId> tokens) const;
  bool is_pending(const Pending& pending) const;

  enum class Phase : uint8_t { absent, pending, ready };
  // Adds a node with this page below `parent`. If a node with this key exists, nothing changes and that one is
  // returned.
  // REQUIRES: the page is held by one sequence, which then holds the node, and is in no node; tokens.size() ==
  // kPageTokens; the salt is that of the first page
  NodeId insert(std::optional<NodeId> parent, std::string_view salt, std::span<const TokenId> tokens, PageId page,
                Phase phase);
  // REQUIRES: the node is pending
  void publish(NodeId node);
  Phase phase(NodeId node) const { return nodes_[node.value].phase; }
  PageId page(NodeId node) const { return nodes_[node.value].page; }

  // Adds or removes a sequence's reference. A pending node leaves the tree when its owner releases it. keep: a ready
  // node stays in the tree.
  void hold(NodeId node);
  void release(NodeId node, bool keep = true);

  // Frees the page and the state of the least recently used node that no sequence holds; false when there is none.
  bool evict();
  uint32_t n_evictable() const { return n_evictable_; }

  // Keeps the state after a node: one more holder of the slot. A node that has a state keeps that one, and it counts as
  // used now. REQUIRES: the node is ready
  void keep_state(NodeId node, StateId state);
  std::optional<StateId> state(NodeId node) const { return nodes_[node.value].state; }
  // For a sequence that begins behind this node: one more holder of the slot. REQUIRES: the node has a state
  StateId resume_from(NodeId node);
  // Whether its state was resumed, or kept twice.
  bool is_state_shared(NodeId node) const { return nodes_[node.value].is_state_shared; }
  // Gives up the node's state, if it has one.
  void drop_state(NodeId node);
  // Frees the least recently used state that nobody else holds; false when there is none.
  bool evict_state();
  uint32_t n_states() const { return n_states_; }

  // Keeps the window page of a node for others: one more holder of it. A node that has one keeps that one.
  // REQUIRES: the node is ready; the page is held by one sequence
  void keep_window_page(NodeId node, PageId page);
  std::optional<PageId> window_page(NodeId node) const { return nodes_[node.value].window_page; }
  // For a sequence that begins behind this node or a later one: one more holder. REQUIRES: the node has one
  PageId resume_window_page(NodeId node);
  // One holder less of the node's window page. likely: others are likely to begin here.
  void release_window_page(NodeId node, bool likely);
  // Frees the window page that is worth least of those that only the tree holds; false when there is none.
  bool evict_window_page();
  uint32_t n_window_pages_evictable() const { return n_windows_evictable_; }

  // Links, counts and holders agree.
  bool is_consistent() const;

 private:
  // In order of last use.
  struct Links {
    std::optional<NodeId> older, newer;
  };
  struct Node {
    Phase phase = Phase::absent;
    bool is_unused = false;  // in the list of evictable nodes
    bool is_state_shared = false;
    uint32_t n_children = 0;
    uint64_t hash = 0;
    uint64_t stamp = 0;
    PageId page;
    std::optional<StateId> state;
    std::optional<PageId> window_page;
    bool is_window_unused = false;  // in one of the two lists
    bool is_window_likely = false;
    std::optional<NodeId> parent, next_in_bucket;
    Links unused, with_state, window;
    std::string salt;
    std::array<TokenId, kPageTokens> tokens;
  };
  struct List {
    std::optional<NodeId> oldest, newest;
  };

  std::optional<NodeId> lookup(std::optional<NodeId> parent, uint64_t hash, std::string_view salt,
                               std::span<const TokenId> tokens) const;
  std::optional<NodeId>& bucket(uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  NodeId new_node();
  void erase(NodeId node);
  void add_unused(NodeId node);
  void remove_unused(NodeId node);
  List& window_list(const Node& node) { return node.is_window_likely ? likely_windows_ : passed_windows_; }
  void use_window_page(NodeId node);
  void drop_window_page(NodeId node);
  bool are_windows_consistent() const;
  void append(List& list, Links Node::* links, NodeId node);
  void unlink(List& list, Links Node::* links, NodeId node);

  PagePool* pages_;
  StatePool* states_;
  PagePool* windows_;
  std::vector<Node> nodes_;  // as many as were ever there at once
  std::vector<NodeId> free_nodes_;
  std::vector<std::optional<NodeId>> buckets_;
  List unused_;                           // nodes that no sequence holds
  List with_state_;                       // nodes that have a state
  List passed_windows_, likely_windows_;  // nodes whose window pages only the tree holds
  uint32_t n_evictable_ = 0, n_states_ = 0, n_windows_evictable_ = 0;
  uint64_t next_stamp_ = 1;
};

}  // namespace rocmforge
