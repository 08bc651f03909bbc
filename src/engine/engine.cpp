#include "engine/engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/thread.h"
#include "base/trace.h"
#include "base/units.h"
#include "engine/cache_size.h"
#include "engine/embedder.h"
#include "engine/engine_core.h"

namespace rocmforge {
namespace {

// Rows of hidden states that one step gives for embeddings.
constexpr uint32_t kEmbeddingRows = 64;

Error bad_request(std::string fact) {
  return {ErrorCode::invalid_argument, "engine: " + std::move(fact)};
}

uint32_t step_outputs(const EngineOptions& options) {
  return std::max(options.max_running, std::min(kEmbeddingRows, options.max_step_tokens));
}

PassMemory pass_memory(const ExecutionPlan& plan, const SchedulerOptions& options, KvType kv_type) {
  return plan.pass_memory(options.max_step_tokens, options.max_step_outputs, options.n_pages, kv_type, options.n_states,
                          options.n_window_pages);
}

// What weights and workspaces leave for pages and states.
uint64_t bytes_left(const ExecutionPlan& plan, SchedulerOptions options, const EngineOptions& asked) {
  options.n_pages = options.n_states = options.n_window_pages = 0;
  const MemoryBill bill = plan.memory_bill(pass_memory(plan, options, asked.kv_type));
  uint64_t limit = plan.budget_bytes() ? *plan.budget_bytes() : plan.backend().placement().available_bytes();
  if (asked.max_bytes != 0) limit = std::min(limit, bill.held_bytes + asked.max_bytes);
  return limit - std::min(limit, bill.total());
}

Result<SchedulerOptions> scheduler_options(const ExecutionPlan& plan, const EngineOptions& asked) {
  if (asked.max_running == 0 || asked.max_step_tokens < asked.max_running) {
    return bad_request(
        fmt::format("{} sequences with {} tokens a step: each needs one", asked.max_running, asked.max_step_tokens));
  }
  SchedulerOptions options{.n_pages = pages_for_tokens(asked.n_kv_tokens),
                           .n_context = plan.n_context(),
                           .max_running = asked.max_running,
                           .max_step_tokens = asked.max_step_tokens,
                           .max_step_outputs = step_outputs(asked)};
  if (!plan.has_logits()) {
    options.whole_sequences = true;
    options.max_step_tokens = std::max({options.max_step_tokens, options.n_context, plan.backend().rows_of_a_pass()});
  }
  divide_cache(options, CacheUnits::of(plan, asked.kv_type), bytes_left(plan, options, asked), asked.kv_percent);
  const bool has_pages = options.n_pages > 0;
  options.n_pages = std::max(options.n_pages, 1u);
  const PassMemory memory = pass_memory(plan, options, asked.kv_type);
  TRY(plan.check_budget(memory));
  if (!has_pages) {
    return Error{
        ErrorCode::out_of_memory,
        fmt::format("engine: {} needed with a single page of {} positions; allow more memory or choose smaller "
                    "steps",
                    format_bytes(plan.memory_bill(memory).total()), kPageTokens)};
  }
  return options;
}

}  // namespace

// What any thread may touch is under `mutex`; the core is the thread's alone.
struct Engine::State {
  State(std::unique_ptr<Model> m, const tokenizer::Tokenizer& t, const EngineOptions& o, const SchedulerOptions& s)
      : model(std::move(m)),
        tokenizer(t),
        options(o),
        sizes(s),
        n_context(Scheduler::max_length(s)),
        core(model->plan(), s, o.kv_type, o.clock, {.side_work = o.side_work}) {}

  std::unique_ptr<Model> model;
  const tokenizer::Tokenizer& tokenizer;
  const EngineOptions options;
  const SchedulerOptions sizes;
  const uint32_t n_context;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<LiveRequest>> arrivals;
  std::vector<RequestId> cancels;
  std::optional<Error> stopping;
  // Made while there is memory.
  Error farewell{ErrorCode::cancelled, "engine: the model is being unloaded"};
  Error no_memory{ErrorCode::out_of_memory, "engine: no memory left for a step"};
  uint64_t last_id = 0;
  size_t n_open = 0;                      // accepted and, as of the last step, not ended
  uint64_t n_queued_tokens = 0;           // prompts of arrivals and of those that waited after the last step
  std::map<uint64_t, QueueShare> queued;  // the same by client
  std::optional<Error> death;             // as of the last step, like stats
  EngineStats stats;                      // loading is left out

  EngineCore core;
  std::once_flag joined;
  std::thread thread;

  Result<void> check_tokens(std::span<const TokenId> tokens) const;
  Result<RequestId> accept(std::unique_ptr<LiveRequest> request);
  void work();
  bool work_once();
  void publish();
};

PassSize Engine::pass_size(const EngineOptions& options) {
  return {.max_rows = options.max_step_tokens,
          .max_outputs = step_outputs(options),
          .n_pages = pages_for_tokens(options.n_kv_tokens),
          .kv_type = options.kv_type,
          .in_token_loop = true};
}

Result<std::unique_ptr<Engine>> Engine::create(std::unique_ptr<Model> model, const EngineOptions& options) {
  const tokenizer::Tokenizer* tokenizer = TRY(model->tokenizer());
  const SchedulerOptions sizes = TRY(scheduler_options(model->plan(), options));
  auto state = std::make_unique<State>(std::move(model), *tokenizer, options, sizes);
  state->stats.n_pages = sizes.n_pages;
  state->stats.n_states = sizes.n_states;
  state->stats.n_window_pages = sizes.n_window_pages;
  state->stats.last_progress = options.clock();
  state->thread = TRY(start_thread([s = state.get()] { s->work(); }));
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}

Engine::~Engine() {
  stop(std::move(state_->farewell));
}

Result<RequestId> Engine::submit(GenerationRequest request, EventReceiver receiver) {
  State& s = *state_;
  if (!s.model->plan().has_logits()) return no_logits(s.model->plan());
  TRY(check_options(request.sampling));
  if (request.n_prompt_logprobs.value_or(0) > kMaxLogprobs) {
    return bad_request(
        fmt::format("{} logprobs of each token of the prompt; at most {}", *request.n_prompt_logprobs, kMaxLogprobs));
  }
  TRY(s.check_tokens(request.prompt));
  const auto n_prompt = static_cast<uint64_t>(request.prompt.size());
  if (n_prompt >= s.n_context || n_prompt + request.max_tokens.value_or(0) > s.n_context) {
    return Error{ErrorCode::limit_exceeded,
                 fmt::format("engine: {} tokens of the prompt and {} of the answer exceed the context of {}", n_prompt,
                             request.max_tokens.value_or(1), s.n_context)};
  }
  const uint32_t max_tokens = request.max_tokens.value_or(s.n_context - static_cast<uint32_t>(n_prompt));
  return s.accept(std::make_unique<LiveRequest>(RequestId(), std::move(request), max_tokens, std::move(receiver),
                                                s.tokenizer, s.options.clock()));
}

Result<RequestId> Engine::submit(EmbeddingRequest request, EventReceiver receiver) {
  State& s = *state_;
  TRY(check_embedding(request, s.model->plan(), s.n_context));
  return s.accept(
      std::make_unique<LiveRequest>(RequestId(), std::move(request), std::move(receiver), s.options.clock()));
}

Result<void> Engine::State::check_tokens(std::span<const TokenId> tokens) const {
  if (tokens.empty()) return bad_request("a request without tokens");
  const uint32_t n_vocab = model->plan().spec().n_vocab;
  for (const TokenId token : tokens) {
    if (token.value < 0 || static_cast<uint32_t>(token.value) >= n_vocab) {
      return bad_request(fmt::format("token {} is outside the vocabulary of {}", token.value, n_vocab));
    }
  }
  return {};
}

// A client with a key may have no more requests waiting than the queue has free places: one alone fills half of the
// queue, two a third each, and there is room for one more client. Their tokens likewise.
//
// The request was made without the lock: the matcher of its constraint may wait for another's mask.
Result<RequestId> Engine::State::accept(std::unique_ptr<LiveRequest> request) {
  const ClientId client = request->client();
  const uint64_t n_tokens = request->n_prompt();
  const std::lock_guard lock(mutex);
  const auto refuse = [&](ErrorCode code, std::string fact) {
    stats.n_refused++;
    return Error{code, "engine: " + std::move(fact)};
  };
  if (death) {
    stats.n_refused++;
    return *death;
  }
  if (stats.is_draining) return refuse(ErrorCode::draining, "no more requests: about to stop");
  const size_t n_queued = arrivals.size() + stats.n_waiting;
  if (n_queued >= options.max_queued || (n_queued > 0 && n_queued_tokens + n_tokens > options.max_queued_tokens)) {
    return refuse(ErrorCode::queue_full,
                  fmt::format("{} requests of {} tokens wait already", n_queued, n_queued_tokens));
  }
  QueueShare& own = queued[client.value];
  if (client != ClientId{} && own.n > 0 &&
      (own.n >= options.max_queued - n_queued ||
       own.n_tokens + n_tokens > options.max_queued_tokens - std::min(options.max_queued_tokens, n_queued_tokens))) {
    return refuse(ErrorCode::queue_full,
                  fmt::format("{} requests of {} tokens of this client wait already, its share", own.n, own.n_tokens));
  }
  if (n_open++ == 0) stats.last_progress = options.clock();
  const RequestId id(++last_id);
  request->set_id(id);
  arrivals.push_back(std::move(request));
  n_queued_tokens += n_tokens;
  own.n++;
  own.n_tokens += n_tokens;
  stats.n_requests++;
  changed.notify_one();
  return id;
}

void Engine::cancel(RequestId id) {
  const std::lock_guard lock(state_->mutex);
  if (state_->n_open == 0) return;
  state_->cancels.push_back(id);
  state_->changed.notify_one();
}

// Our code throws nothing, but memory can run out, and what a step was at is not known then: all end, and the registry
// makes another engine for who comes next.
void Engine::State::work() {
  name_this_thread("engine");
  for (bool goes_on = true; goes_on;) {
    try {
      goes_on = work_once();
    } catch (const std::bad_alloc&) {
      if (!core.is_dead()) core.die(std::move(no_memory));
    } catch (const std::exception& exception) {
      if (!core.is_dead()) core.die(error_of(exception));
    }
  }
}

// Lets in who has come, sends off who has been cancelled, runs a step. False at the end.
bool Engine::State::work_once() {
  std::vector<std::unique_ptr<LiveRequest>> arrived;
  std::vector<RequestId> cancelled;
  std::optional<Error> end;
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] {
      const bool is_news = core.is_dead() && !death;
      return stopping || !arrivals.empty() || !cancels.empty() || core.has_work() || is_news;
    });
    arrived.swap(arrivals);
    cancelled.swap(cancels);
    end = stopping;
  }
  for (auto& request : arrived) {
    if (core.is_dead()) {
      request->finish(options.clock(), FinishReason::error, core.death());
    } else {
      core.accept(std::move(request));
    }
  }
  for (const RequestId id : cancelled) core.cancel(id);
  if (end) {
    core.end_all(*end);
  } else if (core.has_work()) {
    core.step();
  }
  publish();
  return !end;
}

void Engine::State::publish() {
  const CoreStats now = core.stats();
  const std::lock_guard lock(mutex);
  n_open = arrivals.size() + core.n_requests();
  n_queued_tokens = now.scheduler.n_waiting_tokens;
  queued = now.scheduler.waiting;
  for (const auto& request : arrivals) {
    n_queued_tokens += request->n_prompt();
    QueueShare& share = queued[request->client().value];
    share.n++;
    share.n_tokens += request->n_prompt();
  }
  stats.n_running = now.scheduler.n_running;
  stats.n_waiting = now.scheduler.n_waiting;
  stats.n_pages_used = now.scheduler.n_pages_used;
  stats.n_pages_cached = now.scheduler.n_pages_cached;
  stats.n_states_used = now.scheduler.n_states_used;
  stats.n_states_cached = now.scheduler.n_states_cached;
  stats.n_window_pages_used = now.scheduler.n_window_pages_used;
  stats.n_window_pages_cached = now.scheduler.n_window_pages_cached;
  death = core.death();
  stats.is_dead = core.is_dead();
  stats.n_finished = now.n_finished;
  stats.n_cancelled = now.n_cancelled;
  stats.n_failed = now.n_failed;
  stats.n_prompt_tokens = now.n_prompt_tokens;
  stats.n_generated_tokens = now.n_generated_tokens;
  stats.n_prefix_queries = now.scheduler.n_prefix_queries;
  stats.n_prefix_matched = now.scheduler.n_prefix_matched;
  stats.n_prefix_hits = now.scheduler.n_prefix_hits;
  stats.n_recomputed = now.scheduler.n_recomputed;
  stats.n_preemptions = now.scheduler.n_preemptions;
  stats.n_device_errors = now.n_device_errors;
  stats.n_not_finite = now.n_not_finite;
  stats.choices = now.choices;
  stats.n_steps = now.n_steps;
  stats.step_seconds = now.step_seconds;
  stats.last_progress = options.clock();
}

void EngineStats::add_counts(const EngineStats& other) {
  for (const auto count :
       {&EngineStats::n_requests, &EngineStats::n_finished, &EngineStats::n_cancelled, &EngineStats::n_failed,
        &EngineStats::n_refused, &EngineStats::n_prompt_tokens, &EngineStats::n_generated_tokens,
        &EngineStats::n_prefix_queries, &EngineStats::n_prefix_matched, &EngineStats::n_prefix_hits,
        &EngineStats::n_recomputed, &EngineStats::n_preemptions, &EngineStats::n_device_errors,
        &EngineStats::n_not_finite, &EngineStats::n_refused_recordings, &EngineStats::n_steps}) {
    this->*count += other.*count;
  }
  for (const auto count : {&ChoiceCounts::n_free, &ChoiceCounts::n_candidates, &ChoiceCounts::n_allowed,
                           &ChoiceCounts::n_whole_rows, &ChoiceCounts::n_forced}) {
    choices.*count += other.choices.*count;
  }
  step_seconds += other.step_seconds;
  loading.read_bytes += other.loading.read_bytes;
}

const Model& Engine::model() const {
  return *state_->model;
}

const tokenizer::Tokenizer& Engine::tokenizer() const {
  return state_->tokenizer;
}

uint32_t Engine::n_context() const {
  return state_->n_context;
}

uint32_t Engine::n_kv_tokens() const {
  return state_->sizes.n_pages * kPageTokens;
}

MemoryBill Engine::memory_bill() const {
  const SchedulerOptions& sizes = state_->sizes;
  const ExecutionPlan& plan = state_->model->plan();
  return plan.memory_bill(pass_memory(plan, sizes, state_->options.kv_type));
}

EngineStats Engine::stats() const {
  LoadingStats loading = state_->model->plan().weights().loading_stats();
  const std::lock_guard lock(state_->mutex);
  EngineStats stats = state_->stats;
  stats.n_waiting += static_cast<uint32_t>(state_->arrivals.size());
  // The first step after a pause has taken its requests from the arrivals and not told of them yet.
  if (stats.n_running + stats.n_waiting == 0) stats.n_waiting = static_cast<uint32_t>(state_->n_open);
  stats.loading = loading;
  stats.n_refused_recordings = state_->model->backend().n_refused_recordings();
  return stats;
}

std::optional<Error> Engine::death() const {
  const std::lock_guard lock(state_->mutex);
  return state_->death;
}

void Engine::begin_drain() {
  const std::lock_guard lock(state_->mutex);
  state_->stats.is_draining = true;
}

bool Engine::is_idle() const {
  const std::lock_guard lock(state_->mutex);
  return state_->n_open == 0;
}

void Engine::stop(Error error) {
  std::call_once(state_->joined, [&] {
    {
      const std::lock_guard lock(state_->mutex);
      state_->stats.is_draining = true;
      state_->stopping = std::move(error);
      state_->changed.notify_one();
    }
    state_->thread.join();
  });
}

}  // namespace rocmforge
