#pragma once
// A sequence as the scheduler knows it: a part of scheduler.h.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/scheduler.h"

namespace rocmforge {

struct Scheduler::Sequence {
  RequestId id;
  std::vector<TokenId> tokens;
  uint32_t max_length = 0;
  std::string salt;
  bool wants_all_outputs = false;
  ClientId client{};
  bool is_cancelled = false;
  bool has_run = false;
  std::optional<PrefixTree::Pending> awaited = {};  // the page whose computation it waits for
  bool is_compared = false;                         // with what runs: cut_where_newcomers_part()

  // While it runs. Its first pages are those of its nodes in the tree, of these the first n_ready are ready; is_shared
  // ends where another sequence is computing the same page at the same time.
  std::vector<PageId> pages = {};
  std::vector<NodeId> nodes = {};
  uint32_t n_computed = 0;
  uint32_t n_matched = 0;  // tokens whose pages were there when it began
  uint32_t n_ready = 0;
  bool is_shared = true;

  // Where there are states: the one after n_computed tokens (none: zeros) and, while a step is open, the slot of the
  // one after the step; the same slot if nobody else holds it.
  std::optional<StateId> state = {}, next_state = {};
  std::vector<uint32_t> cuts = {};           // positions where a run ends and the state is kept, ascending
  uint32_t n_kept = 0;                       // tokens before the last state that was kept for good, or began it
  std::optional<NodeId> end_of_answer = {};  // the node whose state is exchanged for the next one

  // Where windowed layers have pages of their own: by page, of these held from first_window on.
  std::vector<PageId> window_pages = {};
  uint32_t first_window = 0;
  std::vector<uint32_t> likely = {};  // numbers of pages behind which others are likely to begin

  uint32_t n_left() const { return static_cast<uint32_t>(tokens.size()) - n_computed; }
  uint32_t n_in_tree() const { return static_cast<uint32_t>(nodes.size()); }
  std::span<const TokenId> page_tokens(uint32_t i) const {
    return std::span(tokens).subspan(size_t{i} * kPageTokens, kPageTokens);
  }
  std::optional<NodeId> parent_of(uint32_t i) const { return i > 0 ? std::optional(nodes[i - 1]) : std::nullopt; }
};

}  // namespace rocmforge
