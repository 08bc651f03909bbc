// The scheduler's pages of windowed layers: where sequences begin, what they give back, what the tree keeps.

#include <algorithm>

#include "base/check.h"
#include "engine/scheduler_sequence.h"

namespace rocmforge {

// The most n with window_pages_for(window, n, rows of a step) <= n_window_pages.
uint32_t Scheduler::most_running_by_windows() const {
  const uint64_t for_rows = window_pages_for(options_.window, 0, options_.max_step_tokens);
  const uint64_t for_one = window_pages_for(options_.window, 1, options_.max_step_tokens) - for_rows;
  if (options_.n_window_pages < for_rows) return 0;
  const uint64_t n = (options_.n_window_pages - for_rows) / for_one;
  return static_cast<uint32_t>(std::min<uint64_t>(n, options_.max_running));
}

// Of nodes from the start of a prompt, the most behind which a sequence can begin.
size_t Scheduler::count_to_window(std::span<const NodeId> nodes) const {
  size_t most = 0, n_together = 0;
  for (size_t n = 1; n <= nodes.size(); n++) {
    n_together = tree_.window_page(nodes[n - 1]) ? n_together + 1 : 0;
    const size_t first = first_window_page(static_cast<uint32_t>(n) * kPageTokens, options_.window);
    if (n_together >= n - first) most = n;
  }
  return most;
}

// Behind what it shares, and behind what it could have shared: a further request with this prompt begins there.
void Scheduler::begin_windows(Sequence& sequence, size_t n_matched) {
  const uint32_t n = sequence.n_in_tree();
  sequence.first_window = first_window_page(sequence.n_computed, options_.window);
  CHECK(sequence.first_window <= n && sequence.window_pages.empty());
  for (uint32_t i = sequence.first_window; i < n; i++) {
    sequence.window_pages.push_back(tree_.resume_window_page(sequence.nodes[i]));
  }
  // Nobody reads the earlier ones: any page is as good.
  const PageId any = n > sequence.first_window ? sequence.window_pages[0] : PageId(0);
  sequence.window_pages.insert(sequence.window_pages.begin(), sequence.first_window, any);
  const auto end_of_prompt = static_cast<uint32_t>((sequence.tokens.size() - 1) / kPageTokens);
  sequence.likely = {end_of_prompt, static_cast<uint32_t>(n_matched)};
}

// What runs holds no more than most_running_by_windows() allows for, and the tree gives up the rest.
void Scheduler::grow_windows(Sequence& sequence, uint32_t n_tokens) {
  while (sequence.window_pages.size() < pages_for_tokens(n_tokens)) {
    if (windows_.n_free() == 0) CHECK(tree_.evict_window_page());
    sequence.window_pages.push_back(windows_.take().value());
  }
}

// Page i has become full and is in the tree.
void Scheduler::share_window_page(Sequence& sequence, uint32_t i) {
  if (has_windows() && i >= sequence.first_window) tree_.keep_window_page(sequence.nodes[i], sequence.window_pages[i]);
}

void Scheduler::give_back_passed(Sequence& sequence) {
  const uint32_t end = std::min(first_window_page(sequence.n_computed, options_.window),
                                static_cast<uint32_t>(sequence.window_pages.size()));
  for (uint32_t& i = sequence.first_window; i < end; i++) {
    const bool likely = std::ranges::any_of(
        sequence.likely, [&](uint32_t n) { return i < n && i >= first_window_page(n * kPageTokens, options_.window); });
    give_back_window_page(sequence, i, likely);
  }
}

// A page that the tree did not take, since it had one of the same tokens, is free now.
void Scheduler::give_back_window_page(Sequence& sequence, uint32_t i, bool likely) {
  const PageId page = sequence.window_pages[i];
  if (i < sequence.n_in_tree() && tree_.window_page(sequence.nodes[i]) == page) {
    tree_.release_window_page(sequence.nodes[i], likely);
  } else {
    windows_.release(page);
  }
}

// REQUIRES: the sequence still holds its nodes
void Scheduler::give_up_windows(Sequence& sequence) {
  for (uint32_t i = sequence.first_window; i < sequence.window_pages.size(); i++) {
    give_back_window_page(sequence, i, true);
  }
  sequence.window_pages.clear();
  sequence.first_window = 0;
  sequence.likely.clear();
}

bool Scheduler::are_windows_consistent() const {
  std::vector<uint32_t> n_holders(windows_.n_pages(), 0);
  for (const auto& sequence : running_) {
    for (uint32_t i = sequence->first_window; i < sequence->window_pages.size(); i++) {
      n_holders[sequence->window_pages[i].value]++;
    }
  }
  uint32_t n_kept = 0;  // by the tree alone
  for (uint32_t i = 0; i < windows_.n_pages(); i++) {
    const uint32_t n = windows_.n_holders(PageId(i));
    if (n < n_holders[i] || n > n_holders[i] + 1) return false;
    n_kept += n == 1 && n_holders[i] == 0;
  }
  return n_kept == tree_.n_window_pages_evictable();
}

}  // namespace rocmforge
