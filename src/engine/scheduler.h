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

namespace rocmforge {

struct SchedulerOptions {
  uint32_t n_pages = 0;
  uint32_t n_context = 0;         // tokens of one sequence
  uint32_t max_running = 1;       // at most max_step_tokens and max_step_outputs
  uint32_t max_step_tokens = 1;   // rows of a step
  uint32_t max_step_outputs = 1;  // rows of a step whose outputs are read
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
  };
  Kind kind = Kind::advanced;
  std::optional<TokenId> token = {};  // REQUIRED of a run that advanced and was the last of the known tokens
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
  uint64_t n_prefix_queries = 0, n_prefix_hits = 0;  // tokens
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
  // Every page is held by exactly the sequences that list it and by the tree.
  bool is_consistent() const;

 private:
  struct Sequence;
  using Sequences = std::vector<std::unique_ptr<Sequence>>;  // by ascending id

  static Sequences::iterator find(Sequences& sequences, RequestId id);
  static void insert(Sequences& sequences, std::unique_ptr<Sequence> sequence);
  std::optional<PageId> take_page();
  bool fits(const Sequence& sequence, std::span<const PageId> shared) const;
  void begin(Sequence& sequence, std::span<const PageId> shared);
  void secure_pages();
  void admit(uint32_t rows_left, uint32_t outputs_left);
  void add_run(Sequence& sequence, uint32_t& rows_left, uint32_t& outputs_left);
  void preempt_newest();
  void share_full_pages(Sequence& sequence);
  void give_up_pages(Sequence& sequence, bool keep);

  SchedulerOptions options_;
  PagePool pool_;
  PrefixTree tree_;
  Sequences waiting_, running_;
  StepPlan plan_;
  uint32_t step_tokens_;
  bool is_open_ = false;  // between schedule and commit
  SchedulerStats totals_;
};

}  // namespace rocmforge
