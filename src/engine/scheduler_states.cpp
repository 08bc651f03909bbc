// The scheduler's states of recurrent layers: where sequences begin, where runs are cut, which states are kept.

#include <algorithm>

#include "base/check.h"
#include "engine/scheduler_sequence.h"

namespace rocmforge {
namespace {

// Of one sequence, for those that wait: each may cost a short run.
constexpr size_t kMaxCuts = 8;

// The last page boundary before the last token, which is always computed.
uint32_t last_boundary(size_t n_tokens) {
  return static_cast<uint32_t>((n_tokens - 1) / kPageTokens * kPageTokens);
}

void add_cut(std::vector<uint32_t>& cuts, uint32_t position) {
  const auto at = std::ranges::lower_bound(cuts, position);
  if (at == cuts.end() || *at != position) cuts.insert(at, position);
}

}  // namespace

// Running sequences hold at most two slots each, and the tree gives up the others.
StateId Scheduler::take_state() {
  if (states_.n_free() == 0) CHECK(tree_.evict_state());
  return states_.take().value();
}

void Scheduler::begin_state(Sequence& sequence, uint32_t n_to_state) {
  sequence.n_computed = sequence.n_kept = n_to_state * kPageTokens;
  if (n_to_state > 0) sequence.state = tree_.resume_from(sequence.nodes[n_to_state - 1]);
  if (sequence.wants_all_outputs) return;
  if (sequence.n_matched > sequence.n_computed) add_cut(sequence.cuts, sequence.n_matched);
  const uint32_t end = last_boundary(sequence.tokens.size());
  if (end > sequence.n_computed) add_cut(sequence.cuts, end);
}

// Compares every waiting sequence once, on arrival: a running one may pass the common point before it is admitted.
void Scheduler::cut_where_newcomers_part() {
  for (const auto& waiting : waiting_) {
    if (waiting->is_compared) continue;
    waiting->is_compared = true;
    for (const auto& owner : running_) cut_where_they_part(*owner, *waiting);
  }
}

void Scheduler::cut_where_they_part(Sequence& owner, const Sequence& waiting) {
  if (&owner == &waiting || owner.wants_all_outputs || waiting.wants_all_outputs || owner.salt != waiting.salt) return;
  if (owner.cuts.size() >= kMaxCuts) return;
  const size_t n_most = std::min<size_t>(owner.tokens.size(), last_boundary(waiting.tokens.size()));
  const auto parted = std::mismatch(owner.tokens.begin(), owner.tokens.begin() + static_cast<ptrdiff_t>(n_most),
                                    waiting.tokens.begin());
  const auto n_alike = static_cast<size_t>(parted.first - owner.tokens.begin());
  const auto position = static_cast<uint32_t>(n_alike / kPageTokens * kPageTokens);
  if (position > owner.n_computed) add_cut(owner.cuts, position);
}

// Where a run ends that could go on to `end`.
uint32_t Scheduler::cut_run(const Sequence& sequence, uint32_t end) const {
  if (sequence.wants_all_outputs) return end;
  const auto cut = std::ranges::upper_bound(sequence.cuts, sequence.n_computed);
  if (cut != sequence.cuts.end() && *cut <= end) return *cut;
  // Not exactly at the spacing, which would leave short runs behind, but at the last boundary of the first run that
  // goes so far.
  const uint32_t boundary = end / kPageTokens * kPageTokens;
  const bool is_far =
      boundary > sequence.n_computed && boundary - sequence.n_kept >= options_.state_spacing * kPageTokens;
  return is_far ? boundary : end;
}

void Scheduler::add_states(Sequence& sequence, SequenceRun& run) {
  const bool is_own = sequence.state && states_.n_holders(*sequence.state) == 1;
  sequence.next_state = is_own ? *sequence.state : take_state();
  run.state_before = sequence.state;
  run.state_after = sequence.next_state;
  run.first_stored = sequence.n_matched;
  const auto end = run.first_position + static_cast<uint32_t>(run.tokens.size());
  CHECK(end <= sequence.n_matched || run.first_position >= sequence.n_matched);
}

// A state that was not computed, or perhaps in part, is no state.
void Scheduler::close_states(Sequence& sequence, bool is_computed) {
  if (sequence.state && sequence.state != sequence.next_state) states_.release(*sequence.state);
  sequence.state = sequence.next_state;
  sequence.next_state.reset();
  if (is_computed) return;
  states_.release(*sequence.state);
  sequence.state.reset();
}

// After a run and before the next token is known.
void Scheduler::keep_wanted_state(Sequence& sequence) {
  const uint32_t n = sequence.n_computed;
  const bool is_cut = std::ranges::binary_search(sequence.cuts, n);
  std::erase_if(sequence.cuts, [&](uint32_t position) { return position <= n; });
  if (n % kPageTokens != 0 || sequence.n_ready < n / kPageTokens || sequence.wants_all_outputs) return;
  const bool is_far = n - sequence.n_kept >= options_.state_spacing * kPageTokens;
  const bool is_end = sequence.n_left() == 0;
  if (!is_cut && !is_far && !is_end) return;
  const NodeId node = sequence.nodes[n / kPageTokens - 1];
  tree_.keep_state(node, *sequence.state);
  if (is_end && sequence.end_of_answer && !tree_.is_state_shared(*sequence.end_of_answer)) {
    tree_.drop_state(*sequence.end_of_answer);
  }
  sequence.end_of_answer.reset();
  if (is_cut || is_far) {
    sequence.n_kept = n;
  } else {
    sequence.end_of_answer = node;
  }
}

// Whoever ends or waits again at a page boundary leaves its state there.
void Scheduler::give_up_state(Sequence& sequence, bool keep) {
  const uint32_t n_full = sequence.n_computed / kPageTokens;
  if (sequence.state && keep && n_full > 0 && sequence.n_computed % kPageTokens == 0 && sequence.n_ready >= n_full) {
    tree_.keep_state(sequence.nodes[n_full - 1], *sequence.state);
  }
  if (sequence.state) states_.release(*sequence.state);
  sequence.state.reset();
  sequence.cuts.clear();
  sequence.n_kept = 0;
  sequence.end_of_answer.reset();
}

bool Scheduler::are_states_consistent() const {
  std::vector<uint32_t> n_holders(states_.size(), 0);
  for (const auto& sequence : running_) {
    if (has_states() && !sequence->state && sequence->n_computed > 0) return false;
    if (sequence->state) n_holders[sequence->state->value]++;
    if (sequence->next_state && sequence->next_state != sequence->state) n_holders[sequence->next_state->value]++;
  }
  uint32_t n_kept = 0;  // by the tree
  for (uint32_t i = 0; i < states_.size(); i++) {
    const uint32_t n = states_.n_holders(StateId(i));
    if (n < n_holders[i] || n > n_holders[i] + 1) return false;
    n_kept += n - n_holders[i];
  }
  return n_kept == tree_.n_states();
}

}  // namespace rocmforge
