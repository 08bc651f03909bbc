#include "engine/scheduler.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"

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

  // While it runs. Its first n_in_tree pages are the tree's, of those the first n_ready are ready; is_shared ends where
  // another sequence is computing the same page at the same time.
  std::vector<PageId> pages = {};
  uint32_t n_computed = 0;
  uint32_t n_in_tree = 0, n_ready = 0;
  bool is_shared = true;

  uint32_t n_left() const { return static_cast<uint32_t>(tokens.size()) - n_computed; }
  std::span<const TokenId> page_tokens(uint32_t i) const {
    return std::span(tokens).subspan(size_t{i} * kPageTokens, kPageTokens);
  }
  std::optional<PageId> parent_of(uint32_t i) const { return i > 0 ? std::optional(pages[i - 1]) : std::nullopt; }
};

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options), pool_(options.n_pages), tree_(pool_), step_tokens_(options.max_step_tokens) {
  CHECK(options.n_pages > 0 && options.max_running > 0);
  CHECK(options.max_running <= options.max_step_tokens && options.max_running <= options.max_step_outputs);
}

Scheduler::~Scheduler() = default;

uint32_t Scheduler::max_length(const SchedulerOptions& options) {
  return static_cast<uint32_t>(std::min<uint64_t>(options.n_context, uint64_t{options.n_pages} * kPageTokens));
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
    give_up_pages(**at, true);
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
    while (i < running_.size() && sequence->pages.size() < pages_for_tokens(sequence->n_computed + 1)) {
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
  give_up_pages(*sequence, true);
  insert(waiting_, std::move(sequence));
  totals_.n_preemptions++;
}

// One row is the sequence's own; more come from what is left.
void Scheduler::add_run(Sequence& sequence, uint32_t& rows_left, uint32_t& outputs_left) {
  uint32_t n_more = std::min(sequence.n_left() - 1, rows_left);
  if (sequence.wants_all_outputs) n_more = std::min(n_more, outputs_left);
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
  if (!sequence.has_run) run.n_cached = sequence.n_computed;
  sequence.has_run = true;
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
    PrefixTree::Match match;
    if (!sequence.awaited || !tree_.is_pending(*sequence.awaited)) {
      // The last token is always computed: its output is what is wanted.
      const auto known = std::span(sequence.tokens).first(sequence.tokens.size() - 1);
      if (!sequence.wants_all_outputs) match = tree_.find(sequence.salt, known);
      sequence.awaited = match.pending;
    }
    if (sequence.awaited) {
      is_passed_over[i] = true;
      continue;
    }
    if (!fits(sequence, match.pages)) break;
    begin(sequence, match.pages);
    add_run(sequence, --rows_left, --outputs_left);
    std::unique_ptr<Sequence> admitted = std::move(waiting_[i]);
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
    is_passed_over.erase(is_passed_over.begin() + static_cast<ptrdiff_t>(i));
    n_running[admitted->client.value]++;
    insert(running_, std::move(admitted));
  }
}

bool Scheduler::fits(const Sequence& sequence, std::span<const PageId> shared) const {
  const auto n_unused = std::ranges::count_if(shared, [&](PageId page) { return pool_.n_holders(page) == 1; });
  const size_t n_available = pool_.n_free() + tree_.n_evictable() - static_cast<size_t>(n_unused);
  return pages_for_tokens(sequence.tokens.size()) - shared.size() + running_.size() <= n_available;
}

void Scheduler::begin(Sequence& sequence, std::span<const PageId> shared) {
  for (const PageId page : shared) tree_.hold(page);
  sequence.pages.assign(shared.begin(), shared.end());
  sequence.n_in_tree = sequence.n_ready = static_cast<uint32_t>(shared.size());
  sequence.n_computed = sequence.n_in_tree * kPageTokens;
  sequence.is_shared = !sequence.wants_all_outputs;
  if (!sequence.has_run && sequence.is_shared) {
    totals_.n_prefix_queries += sequence.tokens.size();
    totals_.n_prefix_hits += sequence.n_computed;
  }
  while (sequence.pages.size() < pages_for_tokens(sequence.tokens.size())) {
    sequence.pages.push_back(take_page().value());
  }
  if (!sequence.is_shared) return;
  for (uint32_t& i = sequence.n_in_tree; i < sequence.tokens.size() / kPageTokens; i++) {
    const PageId page = tree_.insert(sequence.parent_of(i), sequence.salt, sequence.page_tokens(i), sequence.pages[i],
                                     PrefixTree::State::pending);
    if (page != sequence.pages[i]) break;
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
    if (is_good) {
      sequence.n_computed += static_cast<uint32_t>(run.tokens.size());
      share_full_pages(sequence);
    }
    if (result.kind == RunResult::Kind::advanced && !sequence.is_cancelled) {
      CHECK(result.token.has_value() == run.is_last_of_known);
      if (!result.token) continue;
      sequence.tokens.push_back(*result.token);
      CHECK(sequence.tokens.size() <= sequence.max_length);
      continue;
    }
    give_up_pages(sequence, is_good);
    next = running_.erase(at);
  }
}

// Puts pages that have become full where others find them. Where another page of the same tokens is there already, it
// takes this one's place.
void Scheduler::share_full_pages(Sequence& sequence) {
  for (uint32_t& i = sequence.n_ready; sequence.is_shared && i < sequence.n_computed / kPageTokens; i++) {
    PageId& own = sequence.pages[i];
    if (i < sequence.n_in_tree) {
      tree_.publish(own);
      continue;
    }
    const PageId there =
        tree_.insert(sequence.parent_of(i), sequence.salt, sequence.page_tokens(i), own, PrefixTree::State::ready);
    if (tree_.state(there) == PrefixTree::State::pending) {
      sequence.is_shared = false;
      return;
    }
    if (there != own) {
      tree_.hold(there);
      tree_.release(own);
      own = there;
    }
    sequence.n_in_tree++;
  }
}

void Scheduler::give_up_pages(Sequence& sequence, bool keep) {
  for (; !sequence.pages.empty(); sequence.pages.pop_back()) tree_.release(sequence.pages.back(), keep);
  sequence.n_computed = sequence.n_in_tree = sequence.n_ready = 0;
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
  return stats;
}

bool Scheduler::is_consistent() const {
  std::vector<uint32_t> n_holders(pool_.n_pages(), 0);
  for (const auto& sequence : running_) {
    for (const PageId page : sequence->pages) n_holders[page.value]++;
    if (sequence->n_computed >= sequence->tokens.size()) return false;
  }
  for (const auto& sequence : waiting_) {
    if (!sequence->pages.empty()) return false;
  }
  for (uint32_t i = 0; i < pool_.n_pages(); i++) {
    const uint32_t n_tree = tree_.state(PageId(i)) != PrefixTree::State::absent ? 1 : 0;
    if (pool_.n_holders(PageId(i)) != n_holders[i] + n_tree) return false;
  }
  return tree_.is_consistent();
}

}  // namespace rocmforge
