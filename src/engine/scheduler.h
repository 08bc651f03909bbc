#pragma once
// Which tokens of which sequences go into the next step, and which pages they use. Pure: no clock, no device, no
// threads; the same calls give the same plans.
//
//   submit --> waiting --admitted--> running --ended, failed, cancelled--> gone
//                 ^                     |
//                 +------preempted------+
//
// A step: every running sequence advances by at least one token, so decoding never waits for a long prompt; the rows
// that are left go to prompts, oldest first, in chunks. A waiting sequence is admitted when the pages of all its tokens
// are free, with one more for each that runs: first one of the client with the fewest running sequences, of several the
// oldest. One place in 16 is kept for clients with a key that have nothing running. So a client's first sequence never
// waits for another's second, and of one client they are admitted in order of arrival. Only a sequence whose next page
// is just being computed by another is passed over: it shares that page a step or two later.
//
// Pages run out only where an answer grows. Then cached pages go first, then the newest running sequence is preempted:
// its pages are given up and it waits again, in its old place; what it had computed is recomputed or found in the tree.
// The oldest is never preempted by another, so somebody always advances, and whoever is oldest ends.
//
// A sequence writes only pages that it alone holds and that are not ready in the prefix tree.
//
// Where layers are recurrent (n_states > 0) a sequence also has a slot with its state, and can begin only behind a page
// of the tree that has one: what it shares beyond is computed again for its state alone. Runs end where a state is
// worth keeping, and the slot is given to the tree; the next run goes on from it into another slot:
//   the junction    where what the tree knows, or what a waiting sequence has in common with this one, ends
//   the end         the last page boundary in a prompt; the last one an answer has crossed, in exchange for the former
//   the spacing     else so many pages behind the one before
//
// Where windowed layers have pages of their own (n_window_pages > 0) a sequence holds those that its window still
// reaches, gives the others back after each step, and can begin only where the tree has all that its window reaches.
// What it shares beyond is computed again. There are enough such pages for all that run, so none is preempted for them.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/request.h"
#include "kv/page.h"
#include "kv/prefix_tree.h"
#include "kv/state.h"

namespace rocmforge {

struct SchedulerOptions {
  uint32_t n_pages = 0;
  uint32_t n_context = 0;         // tokens of one sequence
  uint32_t max_running = 1;       // at most max_step_tokens and max_step_outputs
  uint32_t max_step_tokens = 1;   // rows of a step
  uint32_t max_step_outputs = 1;  // rows of a step whose outputs are read
  // Slots for states of recurrent layers, 0: there are none. A running sequence takes up to two, so there are at least
  // two, and with fewer than 2 x max_running fewer run.
  uint32_t n_states = 0;
  uint32_t state_spacing = 1;  // pages
  // Pages of windowed layers and the widest of their windows, in positions; 0: these layers are in the other pages.
  // With fewer than window_pages_for(window, max_running, max_step_tokens) fewer run; one always can.
  uint32_t n_window_pages = 0, window = 0;
  // A sequence is one run, and nothing of it is found in the prefix tree: its rows attend to each other both ways.
  bool whole_sequences = false;
};

struct SequenceRequest {
  RequestId id;  // larger than those before
  std::vector<TokenId> tokens;
  uint32_t max_length = 0;  // tokens at its end
  std::string salt = {};
  bool wants_all_outputs = false;  // of every token: such a sequence computes all of them itself
  ClientId client{};
};

enum class RunOutputs : uint8_t { none, last, all };

// Tokens of one sequence in one step. The views are valid until commit().
struct SequenceRun {
  RequestId id;
  std::span<const TokenId> tokens;
  uint32_t first_position = 0;
  std::span<const PageId> pages;
  RunOutputs outputs = RunOutputs::none;
  bool is_last_of_known = false;     // no known token is left after these
  std::optional<uint32_t> n_cached;  // in the sequence's first run: tokens found computed
  // As in BatchSequence (plan/batch.h).
  std::optional<StateId> state_before = {}, state_after = {};
  uint32_t first_stored = 0;
  std::span<const PageId> window_pages = {};
};

struct StepPlan {
  std::vector<SequenceRun> runs;
  uint32_t n_tokens = 0;
  uint32_t n_outputs = 0;
};

struct RunResult {
  enum class Kind : uint8_t {
    advanced,  // computed; goes on
    ended,     // computed; was the last
    failed,    // what its pages hold is not to be trusted
    stopped,   // not computed, and nobody wants more; what was computed before stays
    waits,     // computed, and its token is not known yet: the last row comes again. REQUIRES: no states
  };
  Kind kind = Kind::advanced;
  std::optional<TokenId> token = {};  // REQUIRED of a run that advanced and was the last of the known tokens
  std::vector<TokenId> forced = {};   // that follow it without a choice
};

// Of one client: sequences and their tokens.
struct QueueShare {
  uint32_t n = 0;
  uint64_t n_tokens = 0;
};

struct SchedulerStats {
  uint32_t n_running = 0, n_waiting = 0;
  uint64_t n_waiting_tokens = 0;
  std::map<uint64_t, QueueShare> waiting = {};  // by client
  uint32_t n_pages_used = 0, n_pages_cached = 0;
  uint64_t n_preemptions = 0;
  uint32_t n_states_used = 0, n_states_cached = 0;
  // Tokens: looked up, found in pages, and of these not computed again.
  uint64_t n_prefix_queries = 0, n_prefix_matched = 0, n_prefix_hits = 0;
  uint32_t n_window_pages_used = 0, n_window_pages_cached = 0;
  uint64_t n_recomputed = 0;  // tokens of shared pages that were computed for their states or windows alone
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);
  ~Scheduler();

  // The longest sequence that is accepted.
  static uint32_t max_length(const SchedulerOptions& options);
  // Waits to be admitted. limit_exceeded: it would not fit even alone; invalid_argument: no tokens
  Result<void> submit(SequenceRequest request);
  // Whether there was such a sequence. Between steps it is gone at once, during one with its commit.
  bool cancel(RequestId id);

  bool has_work() const { return !waiting_.empty() || !running_.empty(); }
  // REQUIRES: has_work(), and no step is open. The plan has at least one run.
  const StepPlan& schedule();
  // Closes the step. REQUIRES: one result per run of the plan
  void commit(std::span<const RunResult> results);
  // Rows of the steps to come. REQUIRES: max_running <= n <= what the scheduler was made with
  void set_step_tokens(uint32_t n);
  // Frees what is cached. REQUIRES: no step is open
  void forget_prefixes();

  SchedulerStats stats() const;
  const PagePool& pool() const { return pool_; }
  const StatePool& states() const { return states_; }
  const PagePool& windows() const { return windows_; }
  // Every page and every state is held by exactly the sequences that list it and by the tree.
  bool is_consistent() const;

 private:
  struct Sequence;
  using Sequences = std::vector<std::unique_ptr<Sequence>>;  // by ascending id

  static Sequences::iterator find(Sequences& sequences, RequestId id);
  static void insert(Sequences& sequences, std::unique_ptr<Sequence> sequence);
  std::optional<PageId> take_page();
  bool may_share(const Sequence& sequence) const;
  bool fits(const Sequence& sequence, std::span<const NodeId> shared) const;
  void begin(Sequence& sequence, PrefixTree::Match match, size_t n_matched);
  void secure_pages();
  void admit(uint32_t rows_left, uint32_t outputs_left);
  void add_run(Sequence& sequence, uint32_t& rows_left, uint32_t& outputs_left);
  void preempt_newest();
  void share_full_pages(Sequence& sequence);
  void give_up_memory(Sequence& sequence, bool keep);

  // scheduler_states.cpp
  bool has_states() const { return options_.n_states > 0; }
  StateId take_state();
  void begin_state(Sequence& sequence, uint32_t n_to_state);
  void cut_where_newcomers_part();
  static void cut_where_they_part(Sequence& owner, const Sequence& waiting);
  uint32_t cut_run(const Sequence& sequence, uint32_t end) const;
  void add_states(Sequence& sequence, SequenceRun& run);
  void close_states(Sequence& sequence, bool is_computed);
  void keep_wanted_state(Sequence& sequence);
  void give_up_state(Sequence& sequence, bool keep);
  bool are_states_consistent() const;

  // scheduler_windows.cpp
  bool has_windows() const { return options_.n_window_pages > 0; }
  uint32_t most_running_by_windows() const;
  size_t count_to_window(std::span<const NodeId> nodes) const;
  void begin_windows(Sequence& sequence, size_t n_matched);
  void grow_windows(Sequence& sequence, uint32_t n_tokens);
  void share_window_page(Sequence& sequence, uint32_t i);
  void give_back_passed(Sequence& sequence);
  void give_back_window_page(Sequence& sequence, uint32_t i, bool likely);
  void give_up_windows(Sequence& sequence);
  bool are_windows_consistent() const;

  SchedulerOptions options_;
  PagePool pool_, windows_;
  StatePool states_;
  PrefixTree tree_;
  Sequences waiting_, running_;
  StepPlan plan_;
  uint32_t step_tokens_;
  bool is_open_ = false;  // between schedule and commit
  SchedulerStats totals_;
};

}  // namespace rocmforge
