// Random lives of a scheduler: arrivals, cancels (also while a step is open), steps that fail as a whole or for one
// sequence, few pages, any budget. Pages have simulated contents: what a step writes is a hash of everything before it,
// so a sequence that reads a page finds out if it was mixed up, overwritten or shared too early. A state is the hash of
// all tokens so far: every run must begin from that of the tokens before it. Pages of windowed layers have contents of
// their own, which must be right as far as the window of a run's first row reaches.
//
// A failing seed is printed; ROCMFORGE_SIMULATION_SEED=N runs it alone. ROCMFORGE_SIMULATION_SEEDS is their number.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/scheduler.h"

namespace rocmforge {
namespace {

constexpr uint32_t kEvents = 220;

uint64_t chain(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0xBF58476D1CE4E5B9u;
  return hash ^ hash >> 29;
}

// A request as the world outside the scheduler knows it.
struct Request {
  RequestId id;
  std::vector<TokenId> tokens;
  std::vector<uint64_t> content;  // what its pages must hold, by position
  uint32_t max_length = 0;
  std::string salt;
  bool wants_all_outputs = false;
  ClientId client{};
  uint64_t variety = 0;  // of its answer: equal ones answer equal prompts alike
  bool is_cancelled = false;

  void append(TokenId token) {
    const uint64_t before = content.empty() ? std::hash<std::string>{}(salt) : content.back();
    tokens.push_back(token);
    content.push_back(chain(before, static_cast<uint64_t>(token.value)));
  }
  TokenId answer() const { return TokenId(static_cast<int32_t>(chain(content.back(), variety) % 50)); }
};

class World {
 public:
  explicit World(uint64_t seed) : rng_(seed), options_(random_options()), scheduler_(options_) {
    contents_.resize(options_.n_pages);
    states_.resize(options_.n_states);
    windows_.resize(options_.n_window_pages);
  }

  // The first broken promise, or nothing.
  std::string run() {
    for (uint32_t i = 0; i < kEvents && error_.empty(); i++) random_event();
    finish();
    return error_;
  }
  uint64_t n_preemptions() const { return scheduler_.stats().n_preemptions; }
  uint64_t n_hits() const { return scheduler_.stats().n_prefix_hits; }
  uint64_t n_resumed() const { return options_.n_states > 0 ? n_hits() : 0; }
  uint64_t n_recomputed() const { return scheduler_.stats().n_recomputed; }
  uint64_t n_hits_by_window() const { return options_.n_window_pages > 0 ? n_hits() : 0; }
  uint64_t n_recomputed_for_window() const { return options_.n_window_pages > 0 ? n_recomputed() : 0; }

 private:
  uint64_t below(uint64_t n) { return rng_() % n; }
  bool chance(uint64_t percent) { return below(100) < percent; }

  SchedulerOptions random_options() {
    SchedulerOptions options;
    options.n_pages = static_cast<uint32_t>(2 + below(chance(50) ? 8 : 40));
    options.n_context = static_cast<uint32_t>(20 + below(600));
    options.max_running = static_cast<uint32_t>(1 + below(8));
    options.max_step_tokens = static_cast<uint32_t>(options.max_running + below(chance(50) ? 4 : 300));
    options.max_step_outputs = static_cast<uint32_t>(options.max_running + below(64));
    if (chance(60)) {
      options.n_states = static_cast<uint32_t>(2 + below(2 * options.max_running + (chance(50) ? 2 : 20)));
      options.state_spacing = static_cast<uint32_t>(1 + below(5));
    } else if (chance(70)) {
      options.window = static_cast<uint32_t>(1 + below(chance(50) ? 40 : 200));
      const uint64_t n = 1 + below(options.max_running);
      options.n_window_pages =
          static_cast<uint32_t>(window_pages_for(options.window, n, options.max_step_tokens) + below(12));
    }
    arrival_percent_ = 10 + below(40);
    cancel_percent_ = below(15);
    failure_percent_ = chance(50) ? 0 : below(10);
    wait_percent_ = chance(50) ? 0 : below(30);
    return options;
  }

  void random_event() {
    if (chance(arrival_percent_)) {
      arrive();
    } else if (chance(cancel_percent_)) {
      cancel();
    } else if (chance(3)) {
      const uint64_t n_more = options_.max_step_tokens - options_.max_running;
      step_tokens_ = options_.max_running + static_cast<uint32_t>(below(n_more + 1));
      scheduler_.set_step_tokens(step_tokens_);
    } else if (is_open_) {
      close_step();
    } else if (scheduler_.has_work()) {
      open_step();
    }
    check_state();
  }

  // Prompts of a few families: they begin alike and part somewhere.
  void arrive() {
    const uint64_t family = below(3);
    const uint64_t n_common = chance(50) ? 0 : below(300), n_own = below(chance(70) ? 20 : 150);
    const uint32_t n_copies = chance(20) ? 3 : 1;
    Request request;
    request.salt = chance(80) ? "" : "other";
    request.wants_all_outputs = chance(10);
    request.variety = below(3);
    request.client = ClientId(below(3));
    for (uint64_t i = 0; i < n_common; i++) request.append(TokenId(static_cast<int32_t>(family + i / 70)));
    for (uint64_t i = 0; i <= n_own; i++) request.append(TokenId(static_cast<int32_t>(below(3))));
    request.max_length = static_cast<uint32_t>(request.tokens.size() + below(chance(40) ? 40 : 300));
    for (uint32_t i = 0; i < n_copies; i++) {
      request.id = RequestId(++last_id_);
      const bool fits = request.max_length <= std::min(options_.n_context, options_.n_pages * kPageTokens);
      const auto submitted = scheduler_.submit({.id = request.id,
                                                .tokens = request.tokens,
                                                .max_length = request.max_length,
                                                .salt = request.salt,
                                                .wants_all_outputs = request.wants_all_outputs,
                                                .client = request.client});
      if (submitted.ok() != fits) return fail("a request was accepted or refused wrongly");
      if (fits) live_.emplace(request.id, request);
    }
  }

  void cancel() {
    const RequestId id(1 + below(last_id_ + 1));
    const auto at = live_.find(id);
    const bool is_known = at != live_.end();
    if (scheduler_.cancel(id) != is_known) return fail("cancel does not know who is there");
    if (!is_known) return;
    // A step that is open still writes to its pages.
    const bool is_in_step = is_open_ && std::ranges::any_of(plan_.runs, [&](const auto& run) { return run.id == id; });
    if (is_in_step) {
      at->second.is_cancelled = true;
    } else {
      live_.erase(at);
    }
  }

  void open_step() {
    plan_ = scheduler_.schedule();
    is_open_ = true;
    n_steps_++;
    check_plan(step_tokens_);
    check_order();
    ends_.clear();
    for (const SequenceRun& run : plan_.runs) {
      ends_[run.id] = run.first_position + static_cast<uint32_t>(run.tokens.size());
    }
  }

  void check_plan(uint32_t max_tokens) {
    uint32_t n_tokens = 0, n_outputs = 0;
    std::vector<uint32_t> n_listed(options_.n_pages, 0);
    for (const SequenceRun& run : plan_.runs) {
      const auto at = live_.find(run.id);
      if (at == live_.end() || at->second.is_cancelled) return fail("a step for a request that has ended");
      const Request& request = at->second;
      const auto n = static_cast<uint32_t>(run.tokens.size());
      const uint32_t end = run.first_position + n;
      n_tokens += n;
      n_outputs += run.outputs == RunOutputs::all ? n : run.outputs == RunOutputs::last ? 1 : 0;
      if (n == 0 || end > request.tokens.size()) return fail("a run outside its sequence");
      if (run.is_last_of_known != (end == request.tokens.size())) return fail("a wrong end of the known tokens");
      if (!std::ranges::equal(run.tokens, std::span(request.tokens).subspan(run.first_position, n))) {
        return fail("another sequence's tokens");
      }
      if (run.outputs != (request.wants_all_outputs ? RunOutputs::all
                          : run.is_last_of_known    ? RunOutputs::last
                                                    : RunOutputs::none)) {
        return fail("wrong outputs");
      }
      if (run.pages.size() < pages_for_tokens(end)) return fail("too few pages");
      for (uint32_t from = 0; from < run.first_position; from += kPageTokens) {
        const auto expected =
            std::span(request.content).subspan(from, std::min(kPageTokens, run.first_position - from));
        const auto& page = contents_[run.pages[from / kPageTokens].value];
        if (!std::equal(expected.begin(), expected.end(), page.begin())) return fail("a page holds something else");
      }
      check_states(run, request, end);
      check_windows(run, request, end);
      for (const PageId page : run.pages) n_listed[page.value]++;
      if (const auto before = ends_.find(run.id); before != ends_.end() && before->second != run.first_position) {
        return fail("a sequence that went on neither where it was nor from its start");
      }
    }
    for (const SequenceRun& run : plan_.runs) {
      const auto end = run.first_position + static_cast<uint32_t>(run.tokens.size());
      for (uint32_t i = first_stored(run) / kPageTokens; i < pages_for_tokens(end); i++) {
        if (n_listed[run.pages[i].value] != 1) return fail("a shared page is written");
      }
    }
    check_written_windows();
    if (n_tokens != plan_.n_tokens || n_outputs != plan_.n_outputs) return fail("wrong sums");
    if (n_tokens > max_tokens || n_outputs > options_.max_step_outputs) return fail("over the budget");
    if (plan_.runs.size() != scheduler_.stats().n_running || plan_.runs.size() > max_running()) {
      return fail("not every running sequence advances");
    }
  }

  // A run begins where its state is, and writes a slot that nobody else has.
  void check_states(const SequenceRun& run, const Request& request, uint32_t end) {
    if (options_.n_states == 0) {
      if (run.state_before || run.state_after || run.first_stored != 0) fail("states where there are none");
      return;
    }
    if (!run.state_after || run.state_before.has_value() != (run.first_position > 0)) return fail("a state is missing");
    if (run.state_before && states_[run.state_before->value] != request.content[run.first_position - 1]) {
      return fail("a state of other tokens");
    }
    if (scheduler_.states().n_holders(*run.state_after) != 1) return fail("a state that others hold is written");
    for (const SequenceRun& other : plan_.runs) {
      const bool is_same = other.id == run.id;
      if (!is_same && (other.state_after == run.state_after || other.state_before == run.state_after)) {
        return fail("two sequences in one slot");
      }
    }
    if (run.first_stored % kPageTokens != 0 || (run.first_stored > run.first_position && run.first_stored < end)) {
      return fail("a run of which only a part is stored");
    }
    for (uint32_t i = run.first_position; i < std::min(end, run.first_stored); i++) {
      if (content(run.pages, i) != request.content[i]) return fail("a page that is not written is not there");
    }
  }
  void check_windows(const SequenceRun& run, const Request& request, uint32_t end) {
    if (options_.n_window_pages == 0) {
      if (!run.window_pages.empty()) fail("window pages where there are none");
      return;
    }
    if (run.window_pages.size() < pages_for_tokens(end)) return fail("too few window pages");
    const uint32_t seen = std::min(run.first_position, options_.window - 1);
    for (uint32_t position = run.first_position - seen; position < run.first_position; position++) {
      if (window_content(run, position) != request.content[position]) return fail("a window page holds something else");
    }
  }
  // Nobody else reads or writes what a run writes, as far as its window reaches.
  void check_written_windows() {
    std::vector<uint32_t> n_listed(options_.n_window_pages, 0);
    for (const SequenceRun& run : plan_.runs) {
      for (size_t i = first_window_page(run.first_position, options_.window); i < run.window_pages.size(); i++) {
        n_listed[run.window_pages[i].value]++;
      }
    }
    for (const SequenceRun& run : plan_.runs) {
      for (size_t i = run.first_position / kPageTokens; i < run.window_pages.size(); i++) {
        const PageId page = run.window_pages[i];
        if (n_listed[page.value] != 1 || scheduler_.windows().n_holders(page) != 1) {
          return fail("a shared window page is written");
        }
      }
    }
  }
  uint64_t& window_content(const SequenceRun& run, uint32_t position) {
    return windows_[run.window_pages[position / kPageTokens].value][position % kPageTokens];
  }
  static uint32_t first_stored(const SequenceRun& run) { return std::max(run.first_position, run.first_stored); }
  uint32_t max_running() const {
    if (options_.n_window_pages > 0) {
      uint32_t n = options_.max_running;
      while (window_pages_for(options_.window, n, options_.max_step_tokens) > options_.n_window_pages) n--;
      return n;
    }
    return options_.n_states > 0 ? std::min(options_.max_running, options_.n_states / 2) : options_.max_running;
  }

  // First come, first served, by client: nobody begins before an older one of the same client that waits, unless that
  // one awaits a page. And the oldest of those that ran goes on.
  void check_order() {
    std::map<RequestId, const SequenceRun*> runs;
    for (const SequenceRun& run : plan_.runs) runs[run.id] = &run;
    const auto oldest = std::ranges::find_if(ends_, [&](const auto& entry) { return live_.contains(entry.first); });
    if (oldest != ends_.end() && !runs.contains(oldest->first)) return fail("the oldest was preempted");
    std::map<ClientId, RequestId> newest_begun;
    for (const auto& [id, run] : runs) {
      const auto live = live_.find(id);
      if (live != live_.end() && !ends_.contains(id)) newest_begun[live->second.client] = id;
    }
    for (const auto& [id, request] : live_) {
      const auto newest = newest_begun.find(request.client);
      if (newest == newest_begun.end() || id > newest->second) continue;
      if (!runs.contains(id) && !awaits_a_page(request)) return fail("a younger request began before an older one");
    }
    for (const auto& [id, end] : ends_) {
      // Preempted in this step: then nobody else began.
      if (live_.contains(id) && !runs.contains(id) && !newest_begun.empty()) return fail("preempted for a newcomer");
    }
  }

  // Whether a running sequence is yet to compute a page that this one could share.
  bool awaits_a_page(const Request& request) const {
    for (const SequenceRun& run : plan_.runs) {
      const Request& other = live_.at(run.id);
      if (other.salt != request.salt || other.wants_all_outputs || request.wants_all_outputs) continue;
      const size_t n_most = std::min(other.tokens.size(), request.tokens.size() - 1);
      const auto parted = std::mismatch(other.content.begin(), other.content.begin() + static_cast<ptrdiff_t>(n_most),
                                        request.content.begin());
      const auto n_alike = static_cast<size_t>(parted.first - other.content.begin());
      if (n_alike / kPageTokens > first_stored(run) / kPageTokens) return true;
    }
    return false;
  }

  void close_step() {
    const bool has_failed = chance(failure_percent_ / 2);
    std::vector<RunResult> results;
    std::vector<RequestId> ended;
    for (const SequenceRun& run : plan_.runs) {
      Request& request = live_.at(run.id);
      const bool is_failed = has_failed || chance(failure_percent_ / 2);
      const bool is_stopped = !is_failed && chance(failure_percent_ / 4);
      const bool is_good = !is_failed && !is_stopped;
      const auto end = run.first_position + static_cast<uint32_t>(run.tokens.size());
      for (uint32_t position = first_stored(run); position < end; position++) {
        content(run.pages, position) = is_good ? request.content[position] : 0xBAD;
        if (!run.window_pages.empty()) window_content(run, position) = is_good ? request.content[position] : 0xBAD;
      }
      if (run.state_after) states_[run.state_after->value] = is_good ? request.content[end - 1] : 0xBAD;
      RunResult result{.kind = is_failed    ? RunResult::Kind::failed
                               : is_stopped ? RunResult::Kind::stopped
                                            : RunResult::Kind::advanced};
      if (is_good && run.is_last_of_known) {
        const bool is_full = request.tokens.size() == request.max_length;
        if (options_.n_states == 0 && chance(wait_percent_)) {
          result.kind = RunResult::Kind::waits;
          ends_[run.id] = end - 1;
        } else if (is_full || request.wants_all_outputs || below(300) == 0) {
          result.kind = RunResult::Kind::ended;
        } else {
          result.token = request.answer();
        }
      }
      const bool goes_on = result.kind == RunResult::Kind::advanced || result.kind == RunResult::Kind::waits;
      if (!goes_on || request.is_cancelled) {
        ended.push_back(run.id);
      } else if (result.token) {
        request.append(*result.token);
      }
      results.push_back(result);
    }
    scheduler_.commit(results);
    is_open_ = false;
    for (const RequestId id : ended) live_.erase(id);
    if (has_failed && chance(50)) scheduler_.forget_prefixes();
  }

  void check_state() {
    if (!error_.empty()) return;
    if (!scheduler_.is_consistent()) return fail("pages are lost, held twice or written down wrongly");
    const SchedulerStats stats = scheduler_.stats();
    if (stats.n_running + stats.n_waiting != live_.size()) return fail("a request is lost, or lives on");
    if (live_.empty() && stats.n_pages_used + stats.n_states_used + stats.n_window_pages_used != 0)
      return fail("memory of requests that ended");
    if (stats.n_prefix_hits > stats.n_prefix_matched) return fail("more resumed than matched");
  }

  // Without new arrivals the rest ends, one after the other in the worst case.
  void finish() {
    failure_percent_ = wait_percent_ = 0;
    if (error_.empty() && is_open_) close_step();
    uint64_t n_left = 1;
    for (const auto& [id, request] : live_) n_left += request.max_length + 1;
    const uint64_t last_step = n_steps_ + n_left;
    while (error_.empty() && scheduler_.has_work()) {
      if (n_steps_ > last_step) return fail("no end is in sight");
      open_step();
      if (error_.empty()) close_step();
      check_state();
    }
    if (error_.empty() && !live_.empty()) fail("requests without an end");
  }

  uint64_t& content(std::span<const PageId> pages, uint32_t position) {
    return contents_[pages[position / kPageTokens].value][position % kPageTokens];
  }

  void fail(std::string_view what) {
    if (error_.empty()) error_ = fmt::format("step {}: {}", n_steps_, what);
  }

  std::mt19937_64 rng_;
  uint64_t arrival_percent_ = 0, cancel_percent_ = 0, failure_percent_ = 0, wait_percent_ = 0;
  SchedulerOptions options_;
  Scheduler scheduler_;
  std::map<RequestId, Request> live_;
  std::map<RequestId, uint32_t> ends_;  // of the last step's runs
  std::vector<std::array<uint64_t, kPageTokens>> contents_;
  std::vector<uint64_t> states_;
  std::vector<std::array<uint64_t, kPageTokens>> windows_;
  StepPlan plan_;
  uint32_t step_tokens_ = options_.max_step_tokens;
  bool is_open_ = false;
  uint64_t last_id_ = 0, n_steps_ = 0;
  std::string error_;
};

uint64_t number_of(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(SchedulerSimulation, KeepsItsPromisesWhateverHappens) {
  const uint64_t only = number_of("ROCMFORGE_SIMULATION_SEED", 0);
  const uint64_t n_seeds = only != 0 ? 1 : number_of("ROCMFORGE_SIMULATION_SEEDS", 2000);
  std::atomic<uint64_t> next{only != 0 ? only : 1}, n_preemptions{0}, n_hits{0}, n_resumed{0}, n_recomputed{0};
  std::atomic<uint64_t> n_hits_by_window{0}, n_recomputed_for_window{0};
  const uint64_t last = next + n_seeds - 1;
  std::mutex mutex;
  std::map<uint64_t, std::string> broken;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); i++) {
    threads.emplace_back([&] {
      for (uint64_t seed = next++; seed <= last; seed = next++) {
        World world(seed);
        const std::string error = world.run();
        n_preemptions += world.n_preemptions();
        n_hits += world.n_hits();
        n_resumed += world.n_resumed();
        n_recomputed += world.n_recomputed();
        n_hits_by_window += world.n_hits_by_window();
        n_recomputed_for_window += world.n_recomputed_for_window();
        if (error.empty()) continue;
        const std::lock_guard lock(mutex);
        broken[seed] = error;
        next = last + 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& [seed, error] : broken) ADD_FAILURE() << "ROCMFORGE_SIMULATION_SEED=" << seed << ": " << error;
  if (only == 0) {
    EXPECT_GT(n_preemptions, n_seeds / 4) << "the simulation has become too easy";
    EXPECT_GT(n_resumed, n_seeds) << "the simulation has become too easy";
    EXPECT_GT(n_recomputed, n_seeds) << "the simulation has become too easy";
    EXPECT_GT(n_hits_by_window, n_seeds) << "the simulation has become too easy";
    EXPECT_GT(n_recomputed_for_window, n_seeds) << "the simulation has become too easy";
    EXPECT_GT(n_hits, n_seeds) << "the simulation has become too easy";
  }
}

}  // namespace
}  // namespace rocmforge
