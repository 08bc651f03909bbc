#include "engine/engine_core.h"

#include <algorithm>
#include <exception>

#include "base/check.h"
#include "base/trace.h"

namespace rocmforge {
namespace {

// A device that fails so many steps in a row will not come back.
constexpr uint32_t kMaxDeviceFailures = 3;

// Chunks of prompts are as long as takes about this long: others wait for their next token meanwhile, and a cancel for
// the end of the step.
constexpr double kStepSeconds = 0.2;
constexpr uint32_t kMinChunk = 16, kFirstChunk = 64;  // the first, before anything was measured

// What a step waits where all of its rows wait for work of constraints.
constexpr Duration kIdleWait = std::chrono::milliseconds(50);

// The file that was opened is not there any more, or is another: no weight of it can be read again.
bool is_file_gone(ErrorCode code) {
  return code == ErrorCode::file_changed || code == ErrorCode::file_truncated || code == ErrorCode::file_not_found;
}

}  // namespace

EngineCore::EngineCore(const ExecutionPlan& plan, const SchedulerOptions& options, KvType kv_type, Clock clock,
                       StepControl control)
    : plan_(plan),
      kv_type_(kv_type),
      options_(options),
      clock_(std::move(clock)),
      control_(std::move(control)),
      scheduler_(options),
      outputs_(plan) {
  // Nobody waits for a next token where there is none.
  control_.whole_steps |= options.whole_sequences;
  if (control_.whole_steps) return;
  scheduler_.set_step_tokens(std::min(options.max_running + kFirstChunk, options.max_step_tokens));
}

void EngineCore::accept(std::unique_ptr<LiveRequest> request) {
  CHECK(!is_dead());
  if (request->wants_nothing()) {
    totals_.n_finished++;
    return request->finish(clock_(), FinishReason::length, {});
  }
  const auto submitted = scheduler_.submit(request->sequence(!plan_.has_logits()));
  CHECK(submitted.ok());
  const RequestId id = request->id();
  CHECK(requests_.empty() || requests_.back().first < id);
  requests_.emplace_back(id, std::move(request));
}

EngineCore::Requests::iterator EngineCore::find(RequestId id) {
  const auto at = std::ranges::lower_bound(requests_, id, {}, &Requests::value_type::first);
  return at != requests_.end() && at->first == id ? at : requests_.end();
}

std::unique_ptr<LiveRequest> EngineCore::take(Requests::iterator at) {
  std::unique_ptr<LiveRequest> request = std::move(at->second);
  requests_.erase(at);
  return request;
}

void EngineCore::cancel(RequestId id) {
  const auto at = find(id);
  if (at == requests_.end()) return;
  CHECK(scheduler_.cancel(id));
  totals_.n_cancelled++;
  take(at)->finish(clock_(), FinishReason::cancelled, {});
}

void EngineCore::end_all(const Error& error) {
  for (const auto& [id, request] : std::exchange(requests_, {})) {
    CHECK(scheduler_.cancel(id));
    totals_.n_failed++;
    request->finish(clock_(), FinishReason::error, error);
  }
}

void EngineCore::die(Error error) noexcept {
  death_ = std::move(error);
  for (const auto& [id, request] : std::exchange(requests_, {})) {
    totals_.n_failed++;
    try {
      request->finish(clock_(), FinishReason::error, death_);
    } catch (const std::exception&) {
    }
  }
}

void EngineCore::step() {
  const TimePoint begin = clock_();
  const StepPlan& plan = [&]() -> const StepPlan& {
    const TraceSpan span("engine", "schedule");
    return scheduler_.schedule();
  }();
  send_starts(plan);
  const Layout& layout = lay_out(plan);
  failure_.reset();
  if (auto ran = run(layout.batch); !ran.ok()) failure_ = std::move(ran).error();
  deliver();
  outputs_.begin(plan.n_outputs, layout.n_sampled);
  // A device that works by itself is waited for here: only then the step is over.
  if (!failure_ && layout.n_sampled > 0) {
    if (auto waited = outputs_.wait(); !waited.ok()) failure_ = std::move(waited).error();
  }
  const TimePoint now = clock_();

  const TraceSpan span("engine", "choose tokens", {{{"sequences", uint64_t{plan.runs.size()}}}});
  if (!failure_) choose(plan, layout);
  std::vector<RunResult> results(plan.runs.size());
  for (size_t i = 0; i < results.size() && !failure_; i++) {
    results[i] = advance(plan.runs[i], layout.first_outputs[i], now);
  }
  const bool is_stopped = control_.should_stop && failure_ && failure_->code == ErrorCode::cancelled;
  std::vector<RequestId> ended;
  for (size_t i = 0; i < results.size(); i++) {
    const bool goes_on = results[i].kind == RunResult::Kind::advanced || results[i].kind == RunResult::Kind::waits;
    if (failure_ && goes_on) {
      LiveRequest& one = request(plan.runs[i].id);
      is_stopped ? one.cancel() : one.fail(*failure_);
      results[i] = {.kind = is_stopped ? RunResult::Kind::stopped : RunResult::Kind::failed};
    }
    if (results[i].kind == RunResult::Kind::waits) continue;
    (results[i].kind == RunResult::Kind::advanced ? undelivered_ : ended).push_back(plan.runs[i].id);
  }
  scheduler_.commit(results);
  for (const RequestId id : ended) end(id, now);
  totals_.n_steps++;
  totals_.n_rows += layout.batch.n_rows();
  totals_.step_seconds += seconds(clock_() - begin);
  if (!failure_) adapt_to(seconds(now - begin), layout.batch.n_rows());
  if (failure_ && failure_->code == ErrorCode::device_failed) {
    recover();
  } else {
    n_device_failures_ = 0;
    if (failure_ && is_file_gone(failure_->code)) {
      death_ = Error(*failure_).in("engine: the model's file is not the one that was opened");
      end_all(*death_);
    }
  }
  const bool can_wait = has_work() && plan_.backend().runs_ahead() && plan_.weights().is_settled();
  if (!can_wait) deliver();
}

void EngineCore::deliver() {
  std::erase_if(undelivered_, [&](RequestId id) {
    const auto at = find(id);
    return at == requests_.end() || !at->second->has_unsent();
  });
  for (const RequestId id : undelivered_) request(id).deliver(id != undelivered_.back());
  undelivered_.clear();
}

// Begins the choices of all rows, and waits for those under constraints: a short while, so that others go on. A row
// whose choice is not made then comes again; the state of a recurrent layer cannot go back, so there it is waited for.
void EngineCore::choose(const StepPlan& plan, const Layout& layout) {
  const bool must_wait = control_.whole_steps || options_.n_states > 0;
  const auto is_undecided = [&](const SequenceRun& run) { return request(run.id).is_undecided(); };
  side_work_.begin_step(must_wait);
  for (size_t i = 0; i < plan.runs.size(); i++) {
    request(plan.runs[i].id).prepare(plan.runs[i], layout.first_outputs[i], outputs_, side_work_);
  }
  side_work_.wait();
  // Without anybody who goes on, steps would compute the same rows in vain.
  const uint64_t n_done = side_work_.n_done();
  if (std::ranges::all_of(plan.runs, is_undecided)) side_work_.wait_for_another(n_done, kIdleWait);
  for (size_t i = 0; i < plan.runs.size(); i++) {
    request(plan.runs[i].id).collect(plan.runs[i], layout.first_outputs[i], outputs_);
  }
}

// A failed read of the outputs is everybody's failure, a failure to make something of them is the request's own.
RunResult EngineCore::advance(const SequenceRun& run, uint32_t first_output, TimePoint now) {
  LiveRequest& one = request(run.id);
  const uint32_t n_before = one.usage().n_generated;
  const RunResult result = one.advance(run, first_output, outputs_, side_work_, now);
  totals_.n_generated_tokens += one.usage().n_generated - n_before;
  if (result.kind == RunResult::Kind::failed) {
    totals_.n_not_finite += one.error()->code == ErrorCode::model_not_finite;
    if (one.error()->code == ErrorCode::device_failed) failure_ = one.error();
  }
  return result;
}

void EngineCore::send_starts(const StepPlan& plan) {
  const TimePoint now = clock_();
  for (const SequenceRun& run : plan.runs) {
    if (!run.n_cached) continue;
    LiveRequest& one = request(run.id);
    totals_.n_prompt_tokens += one.n_prompt();
    one.start(now, *run.n_cached);
  }
}

// Runs whose logits are wanted come first: of the others no candidates are selected.
const EngineCore::Layout& EngineCore::lay_out(const StepPlan& plan) {
  Layout& layout = layout_;
  layout.batch.clear();
  layout.first_outputs.resize(plan.runs.size());
  for (const bool are_logits : {true, false}) {
    for (size_t i = 0; i < plan.runs.size(); i++) {
      const SequenceRun& run = plan.runs[i];
      const bool is_all = run.outputs == RunOutputs::all;
      if ((!is_all || request(run.id).wants_logits()) != are_logits) continue;
      layout.first_outputs[i] = layout.batch.n_outputs();
      layout.batch.add(run.tokens, run.first_position, run.pages, !is_all);
      if (run.outputs == RunOutputs::none) layout.batch.output_rows.pop_back();
      BatchSequence& sequence = layout.batch.sequences.back();
      sequence.state_before = run.state_before;
      sequence.state_after = run.state_after;
      sequence.first_stored = run.first_stored;
      sequence.window_pages = run.window_pages;
      sequence.pooling = request(run.id).pooling();
    }
    if (are_logits) layout.n_sampled = plan_.has_logits() ? layout.batch.n_outputs() : 0;
  }
  return layout;
}

Result<void> EngineCore::reserve() {
  if (is_reserved_) return {};
  TRY(plan_.backend().reserve(plan_.pass_memory(options_.max_step_tokens, options_.max_step_outputs, options_.n_pages,
                                                kv_type_, options_.n_states, options_.n_window_pages)));
  is_reserved_ = true;
  return {};
}

Result<void> EngineCore::run(const Batch& batch) {
  TRY(reserve());
  TRY(check_batch(batch, plan_.spec().n_vocab, options_.n_context, options_.max_step_tokens,
                  options_.n_window_pages > 0));
  return forward(plan_, batch, {.after_stage = {}, .should_stop = control_.should_stop});
}

void EngineCore::end(RequestId id, TimePoint now) {
  const auto request = take(find(id));
  const FinishReason reason = request->reason();
  (reason == FinishReason::error       ? totals_.n_failed
   : reason == FinishReason::cancelled ? totals_.n_cancelled
                                       : totals_.n_finished)++;
  request->finish(now);
}

// A step that waited for weights looks slow, a faster one shows that it was not the rows.
void EngineCore::adapt_to(double step_seconds, uint32_t n_rows) {
  if (control_.whole_steps || n_rows < kMinChunk) return;
  const double measured = step_seconds / n_rows;
  row_seconds_ = row_seconds_ && measured > *row_seconds_ ? 0.8 * *row_seconds_ + 0.2 * measured : measured;
  const double n = std::min<double>(kStepSeconds / std::max(*row_seconds_, 1e-9), options_.max_step_tokens);
  const uint32_t least = std::min(options_.max_running + kMinChunk, options_.max_step_tokens);
  scheduler_.set_step_tokens(std::max(static_cast<uint32_t>(n), least));
}

// Nothing that was on the device is trusted, and nobody holds pages any more: all who ran were in the step. A driver
// whose failure is sticky refuses the new memory, too.
void EngineCore::recover() {
  totals_.n_device_errors++;
  scheduler_.forget_prefixes();
  is_reserved_ = false;
  const auto reserved = reserve();
  const bool is_lost = !reserved.ok() && reserved.error().code == ErrorCode::device_failed;
  if (!is_lost && ++n_device_failures_ < kMaxDeviceFailures) return;
  death_ = Error(*failure_).in("engine: the device has failed for good");
  end_all(*death_);
}

CoreStats EngineCore::stats() const {
  CoreStats stats = totals_;
  stats.scheduler = scheduler_.stats();
  stats.choices = outputs_.counts();
  return stats;
}

}  // namespace rocmforge
