#include "engine/scheduler.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "engine/scheduler_sequence.h"

namespace rocmforge {

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options),
      pool_(options.n_pages),
      windows_(options.n_window_pages),
      states_(options.n_states),
      tree_(pool_, states_, &windows_),
      step_tokens_(options.max_step_tokens) {
  CHECK(options.n_pages > 0 && options.max_running > 0);
  CHECK(options.max_running <= options.max_step_tokens && options.max_running <= options.max_step_outputs);
  CHECK(options.n_states != 1 && options.state_spacing > 0);
  if (has_states()) options_.max_running = std::min(options.max_running, options.n_states / 2);
  if (has_windows()) {
    CHECK(options.window > 0 && !has_states());
    options_.max_running = std::min(options_.max_running, most_running_by_windows());
    CHECK(options_.max_running > 0);
  }
}

Scheduler::~Scheduler() = default;

uint32_t Scheduler::max_length(const SchedulerOptions& options) {
  const uint32_t n_in_one_run = options.whole_sequences ? options.max_step_tokens : options.n_context;
  return static_cast<uint32_t>(
      std::min<uint64_t>(std::min(options.n_context, n_in_one_run), uint64_t{options.n_pages} * kPageTokens));
}

Scheduler::Sequences::iterator Scheduler::find(Sequences& sequences, RequestId id) {
  const auto at = std::ranges::lower_bound(sequences, id, {}, [](const auto& s) { return s->id; });
  return at != sequences.end() && (*at)->id == id ? at : sequences.end();
}

void Scheduler::insert(Sequences& sequences, std::unique_ptr<Sequence> sequence) {
  const auto at = std::ranges::lower_bound(sequences, sequence->id, {}, [](const auto& s) { return s->id; });
  sequences.insert(at, std::move(sequence));
}

Result<void> Scheduler::submit(SequenceRequest request) {
  if (request.tokens.empty()) return Error{ErrorCode::invalid_argument, "scheduler: a sequence without tokens"};
  if (request.max_length > max_length(options_) || request.tokens.size() > request.max_length) {
    return Error{ErrorCode::limit_exceeded,
                 fmt::format("scheduler: a sequence of {} to {} tokens, at most {} fit", request.tokens.size(),
                             request.max_length, max_length(options_))};
  }
  CHECK(waiting_.empty() || waiting_.back()->id < request.id);
  waiting_.push_back(std::make_unique<Sequence>(Sequence{.id = request.id,
                                                         .tokens = std::move(request.tokens),
                                                         .max_length = request.max_length,
                                                         .salt = std::move(request.salt),
                                                         .wants_all_outputs = request.wants_all_outputs,
                                                         .client = request.client}));
  return {};
}

bool Scheduler::cancel(RequestId id) {
  if (const auto at = find(waiting_, id); at != waiting_.end()) {
    waiting_.erase(at);
    return true;
  }
  const auto at = find(running_, id);
  if (at == running_.end()) return false;
  if (is_open_) {
    (*at)->is_cancelled = true;  // the step still writes its pages
  } else {
    give_up_memory(**at, true);
    running_.erase(at);
  }
  return true;
}

const StepPlan& Scheduler::schedule() {
  CHECK(has_work() && !is_open_);
  plan_.runs.clear();
  plan_.n_tokens = plan_.n_outputs = 0;
  const uint64_t n_preemptions = totals_.n_preemptions;
  secure_pages();
  if (has_states()) cut_where_newcomers_part();
  const auto n_running = static_cast<uint32_t>(running_.size());
  uint32_t rows_left = step_tokens_ - n_running;
  uint32_t outputs_left = options_.max_step_outputs - n_running;
  for (const auto& sequence : running_) add_run(*sequence, rows_left, outputs_left);
  // Whoever was preempted would be the first to come back, for the same pages.
  if (totals_.n_preemptions == n_preemptions) admit(rows_left, outputs_left);
  CHECK(!plan_.runs.empty());
  is_open_ = true;
  return plan_;
}

// A page for the next position of every running sequence, oldest first.
void Scheduler::secure_pages() {
  for (size_t i = 0; i < running_.size(); i++) {
    const Sequence* sequence = running_[i].get();
    while (i < running_.size() &&
           sequence->pages.size() < pages_for_tokens(static_cast<uint32_t>(sequence->tokens.size()))) {
      if (const auto page = take_page()) {
        running_[i]->pages.push_back(*page);
      } else {
        preempt_newest();
      }
    }
  }
}

std::optional<PageId> Scheduler::take_page() {
  if (pool_.n_free() == 0 && !tree_.evict()) return std::nullopt;
  return pool_.allocate().value();
}

void Scheduler::preempt_newest() {
  std::unique_ptr<Sequence> sequence = std::move(running_.back());
  running_.pop_back();
  give_up_memory(*sequence, true);
  insert(waiting_, std::move(sequence));
  totals_.n_preemptions++;
}

// One row is the sequence's own; more come from what is left.
void Scheduler::add_run(Sequence& sequence, uint32_t& rows_left, uint32_t& outputs_left) {
  uint32_t n_more = std::min(sequence.n_left() - 1, rows_left);
  if (sequence.wants_all_outputs) n_more = std::min(n_more, outputs_left);
  if (has_states()) n_more = cut_run(sequence, sequence.n_computed + 1 + n_more) - sequence.n_computed - 1;
  const uint32_t n = 1 + n_more;
  const bool is_last = n == sequence.n_left();
  SequenceRun run{.id = sequence.id,
                  .tokens = std::span(sequence.tokens).subspan(sequence.n_computed, n),
                  .first_position = sequence.n_computed,
                  .pages = sequence.pages,
                  .outputs = sequence.wants_all_outputs ? RunOutputs::all
                             : is_last                  ? RunOutputs::last
                                                        : RunOutputs::none,
                  .is_last_of_known = is_last,
                  .n_cached = {}};
  if (has_windows()) {
    grow_windows(sequence, sequence.n_computed + n);
    run.window_pages = sequence.window_pages;
  }
  if (!sequence.has_run) run.n_cached = sequence.n_computed;
  sequence.has_run = true;
  if (has_states()) add_states(sequence, run);
  rows_left -= n_more;
  if (sequence.wants_all_outputs) outputs_left -= n_more;
  plan_.n_tokens += n;
  plan_.n_outputs += run.outputs == RunOutputs::all ? n : run.outputs == RunOutputs::last ? 1 : 0;
  plan_.runs.push_back(run);
}

// One place in so many is kept for clients that have nothing running.
constexpr uint32_t kPlacesOfANewcomer = 16;

void Scheduler::admit(uint32_t rows_left, uint32_t outputs_left) {
  if (waiting_.empty()) return;
  std::map<uint64_t, uint32_t> n_running;  // by client
  for (const auto& sequence : running_) n_running[sequence->client.value]++;
  std::set<uint64_t> was_preempted;  // clients with a sequence that waits to go on
  for (const auto& sequence : waiting_) {
    if (sequence->has_run) was_preempted.insert(sequence->client.value);
  }
  std::vector<bool> is_passed_over(waiting_.size());
  while (running_.size() < options_.max_running && rows_left > 0 && outputs_left > 0) {
    // The oldest of those clients that were preempted; if none was, of the client that has the fewest running.
    const auto rank = [&](size_t k) {
      const uint64_t client = waiting_[k]->client.value;
      return was_preempted.contains(client) ? std::pair(0, 0u) : std::pair(1, n_running[client]);
    };
    size_t i = waiting_.size();
    for (size_t k = 0; k < waiting_.size(); k++) {
      if (!is_passed_over[k] && (i == waiting_.size() || rank(k) < rank(i))) i = k;
    }
    if (i == waiting_.size()) break;
    Sequence& sequence = *waiting_[i];
    // Whoever is next has the fewest running: if it has some, a newcomer's place stays free.
    const bool is_newcomer = sequence.client == ClientId{} || n_running[sequence.client.value] == 0;
    if (!is_newcomer && !sequence.has_run &&
        running_.size() + options_.max_running / kPlacesOfANewcomer >= options_.max_running) {
      break;
    }
    if (options_.whole_sequences && sequence.n_left() > rows_left) break;
    PrefixTree::Match match;
    if (!sequence.awaited || !tree_.is_pending(*sequence.awaited)) {
      // The last token is always computed: its output is what is wanted.
      const auto known = std::span(sequence.tokens).first(sequence.tokens.size() - 1);
      if (may_share(sequence)) match = tree_.find(sequence.salt, known);
      sequence.awaited = match.pending;
    }
    if (sequence.awaited) {
      is_passed_over[i] = true;
      continue;
    }
    const size_t n_matched = match.nodes.size();
    if (has_windows()) match.nodes.resize(count_to_window(match.nodes));
    if (!fits(sequence, match.nodes)) break;
    begin(sequence, std::move(match), n_matched);
    if (has_states()) {
      for (const auto& waiting : waiting_) cut_where_they_part(sequence, *waiting);
    }
    add_run(sequence, --rows_left, --outputs_left);
    std::unique_ptr<Sequence> admitted = std::move(waiting_[i]);
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
    is_passed_over.erase(is_passed_over.begin() + static_cast<ptrdiff_t>(i));
    n_running[admitted->client.value]++;
    insert(running_, std::move(admitted));
  }
}

bool Scheduler::may_share(const Sequence& sequence) const {
  return !sequence.wants_all_outputs && !options_.whole_sequences;
}

bool Scheduler::fits(const Sequence& sequence, std::span<const NodeId> shared) const {
  const auto n_unused =
      std::ranges::count_if(shared, [&](NodeId node) { return pool_.n_holders(tree_.page(node)) == 1; });
  const size_t n_available = pool_.n_free() + tree_.n_evictable() - static_cast<size_t>(n_unused);
  return pages_for_tokens(sequence.tokens.size()) - shared.size() + running_.size() <= n_available;
}

// n_matched: pages that the tree has, of which the sequence begins behind those in `match`.
void Scheduler::begin(Sequence& sequence, PrefixTree::Match match, size_t n_matched) {
  for (const NodeId node : match.nodes) {
    tree_.hold(node);
    sequence.pages.push_back(tree_.page(node));
  }
  sequence.nodes = std::move(match.nodes);
  sequence.n_ready = static_cast<uint32_t>(sequence.nodes.size());
  sequence.n_matched = static_cast<uint32_t>(n_matched) * kPageTokens;
  sequence.n_computed = sequence.n_ready * kPageTokens;
  sequence.is_shared = may_share(sequence);
  if (has_states()) begin_state(sequence, match.n_to_state);
  if (has_windows()) begin_windows(sequence, n_matched);
  if (!sequence.has_run && sequence.is_shared) {
    totals_.n_prefix_queries += sequence.tokens.size();
    totals_.n_prefix_matched += sequence.n_matched;
    totals_.n_prefix_hits += sequence.n_computed;
  }
  while (sequence.pages.size() < pages_for_tokens(sequence.tokens.size())) {
    sequence.pages.push_back(take_page().value());
  }
  if (!sequence.is_shared) return;
  for (auto i = sequence.n_in_tree(); i < sequence.tokens.size() / kPageTokens; i++) {
    const NodeId node = tree_.insert(sequence.parent_of(i), sequence.salt, sequence.page_tokens(i), sequence.pages[i],
                                     PrefixTree::Phase::pending);
    if (tree_.page(node) != sequence.pages[i]) break;
    sequence.nodes.push_back(node);
  }
}

void Scheduler::commit(std::span<const RunResult> results) {
  CHECK(is_open_ && results.size() == plan_.runs.size());
  is_open_ = false;
  auto next = running_.begin();  // runs come in their order, but for those that were let in last
  for (size_t i = 0; i < results.size(); i++) {
    const SequenceRun& run = plan_.runs[i];
    const RunResult& result = results[i];
    const auto at = next != running_.end() && (*next)->id == run.id ? next : find(running_, run.id);
    CHECK(at != running_.end());
    next = at + 1;
    Sequence& sequence = **at;
    const bool is_good = result.kind != RunResult::Kind::failed;
    const bool is_computed = is_good && result.kind != RunResult::Kind::stopped;
    if (has_states()) close_states(sequence, is_computed);
    const bool waits = result.kind == RunResult::Kind::waits;
    CHECK(!waits || (run.is_last_of_known && !has_states()));
    if (is_computed) {
      const uint32_t n = static_cast<uint32_t>(run.tokens.size()) - waits;
      if (sequence.n_computed < sequence.n_matched) {
        totals_.n_recomputed += std::min<uint64_t>(n, sequence.n_matched - sequence.n_computed);
      }
      sequence.n_computed += n;
      share_full_pages(sequence);
      if (has_states()) keep_wanted_state(sequence);
      if (has_windows()) give_back_passed(sequence);
    }
    if (waits && !sequence.is_cancelled) continue;
    if (result.kind == RunResult::Kind::advanced && !sequence.is_cancelled) {
      CHECK(result.token.has_value() == run.is_last_of_known);
      if (!result.token) continue;
      sequence.tokens.push_back(*result.token);
      sequence.tokens.insert(sequence.tokens.end(), result.forced.begin(), result.forced.end());
      CHECK(sequence.tokens.size() <= sequence.max_length);
      continue;
    }
    give_up_memory(sequence, is_good);
    next = running_.erase(at);
  }
}

// Puts pages that have become full where others find them. Where another page of the same tokens is there already, it
// takes this one's place.
void Scheduler::share_full_pages(Sequence& sequence) {
  for (uint32_t& i = sequence.n_ready; sequence.is_shared && i < sequence.n_computed / kPageTokens; i++) {
    PageId& own = sequence.pages[i];
    if (i < sequence.n_in_tree()) {
      tree_.publish(sequence.nodes[i]);
      share_window_page(sequence, i);
      continue;
    }
    const NodeId there =
        tree_.insert(sequence.parent_of(i), sequence.salt, sequence.page_tokens(i), own, PrefixTree::Phase::ready);
    if (tree_.phase(there) == PrefixTree::Phase::pending) {
      sequence.is_shared = false;
      return;
    }
    if (tree_.page(there) != own) {
      tree_.hold(there);
      pool_.release(own);
      own = tree_.page(there);
    }
    sequence.nodes.push_back(there);
    share_window_page(sequence, i);
  }
}

void Scheduler::give_up_memory(Sequence& sequence, bool keep) {
  if (has_states()) give_up_state(sequence, keep);
  if (has_windows()) give_up_windows(sequence);
  for (; sequence.pages.size() > sequence.nodes.size(); sequence.pages.pop_back()) {
    pool_.release(sequence.pages.back());
  }
  for (; !sequence.nodes.empty(); sequence.nodes.pop_back()) tree_.release(sequence.nodes.back(), keep);
  sequence.pages.clear();
  sequence.n_computed = sequence.n_matched = sequence.n_ready = 0;
}

void Scheduler::set_step_tokens(uint32_t n) {
  CHECK(options_.max_running <= n && n <= options_.max_step_tokens);
  step_tokens_ = n;
}

void Scheduler::forget_prefixes() {
  CHECK(!is_open_);
  while (tree_.evict()) continue;
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = totals_;
  stats.n_running = static_cast<uint32_t>(running_.size());
  stats.n_waiting = static_cast<uint32_t>(waiting_.size());
  for (const auto& sequence : waiting_) {
    QueueShare& share = stats.waiting[sequence->client.value];
    share.n++;
    share.n_tokens += sequence->tokens.size();
    stats.n_waiting_tokens += sequence->tokens.size();
  }
  stats.n_pages_cached = tree_.n_evictable();
  stats.n_pages_used = pool_.n_pages() - pool_.n_free() - stats.n_pages_cached;
  stats.n_states_cached = tree_.n_states();
  stats.n_states_used = states_.size() - states_.n_free() - stats.n_states_cached;
  stats.n_window_pages_cached = tree_.n_window_pages_evictable();
  stats.n_window_pages_used = windows_.n_pages() - windows_.n_free() - stats.n_window_pages_cached;
  return stats;
}

bool Scheduler::is_consistent() const {
  std::vector<uint32_t> n_holders(pool_.n_pages(), 0), n_in_tree(pool_.n_pages(), 0);
  for (const auto& sequence : running_) {
    if (sequence->n_computed >= sequence->tokens.size() || sequence->nodes.size() > sequence->pages.size())
      return false;
    for (size_t i = 0; i < sequence->pages.size(); i++) {
      const PageId page = sequence->pages[i];
      n_holders[page.value]++;
      if (i >= sequence->nodes.size()) continue;
      if (tree_.page(sequence->nodes[i]) != page) return false;
      n_in_tree[page.value] = 1;
    }
  }
  for (const auto& sequence : waiting_) {
    if (!sequence->pages.empty() || !sequence->nodes.empty() || sequence->state || !sequence->window_pages.empty()) {
      return false;
    }
  }
  uint32_t n_unused = 0;  // of the tree alone
  for (uint32_t i = 0; i < pool_.n_pages(); i++) {
    const uint32_t n = pool_.n_holders(PageId(i));
    if (n_holders[i] == 0 && n == 1) {
      n_unused++;
    } else if (n != n_holders[i] + n_in_tree[i]) {
      return false;
    }
  }
  return n_unused == tree_.n_evictable() && are_states_consistent() && are_windows_consistent() &&
         tree_.is_consistent();
}

}  // namespace rocmforge
