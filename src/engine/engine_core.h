#pragma once
// The engine without a thread: accepts requests, runs steps, sends events. engine.h adds the thread and the checks of
// requests.
//
// Threads: one at a time.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/live_request.h"
#include "engine/scheduler.h"
#include "engine/side_work.h"
#include "engine/step_outputs.h"
#include "plan/execution_plan.h"

namespace rocmforge {

struct CoreStats {
  SchedulerStats scheduler;
  uint64_t n_finished = 0, n_cancelled = 0, n_failed = 0;
  uint64_t n_prompt_tokens = 0, n_generated_tokens = 0;  // of prompts that were computed; of requests that have begun
  uint64_t n_device_errors = 0, n_not_finite = 0;
  ChoiceCounts choices;
  uint64_t n_steps = 0, n_rows = 0;  // rows: tokens that were computed, of prompts and answers
  double step_seconds = 0;
};

struct StepControl {
  bool whole_steps = false;  // prompts fill all rows of a step: no other request waits for a token meanwhile
  // Asked between the layers of long passes and while weights are read; true ends the requests of the step.
  std::function<bool()> should_stop = {};
  SideWorkLimits side_work = {};
};

class EngineCore {
 public:
  EngineCore(const ExecutionPlan& plan, const SchedulerOptions& options, KvType kv_type, Clock clock,
             StepControl control = {});

  // REQUIRES: the scheduler accepts the request's sequence; !is_dead()
  void accept(std::unique_ptr<LiveRequest> request);
  // Between steps. Sends the pending tokens and the FinishEvent before it returns.
  void cancel(RequestId id);
  void end_all(const Error& error);
  // Ends all requests, also after a step that an exception ended. A request whose FinishEvent cannot be sent is
  // dropped.
  void die(Error error) noexcept;

  bool has_work() const { return !is_dead() && scheduler_.has_work(); }
  size_t n_requests() const { return requests_.size(); }
  // Schedules, runs, samples, commits, delivers. A failure ends the requests of the step. If the device cannot be used
  // again, or the model's file was removed or replaced, all requests end, and the core is_dead().
  // On a device that runs asynchronously, tokens are delivered after the next step was launched, so that the device
  // does not idle while they are converted and sent.
  void step();
  bool is_dead() const { return death_.has_value(); }
  // The reason, for later requests.
  const std::optional<Error>& death() const { return death_; }

  CoreStats stats() const;

 private:
  struct Layout {
    Batch batch;
    std::vector<uint32_t> first_outputs;  // by run of the plan
    uint32_t n_sampled = 0;
  };
  using Requests = std::vector<std::pair<RequestId, std::unique_ptr<LiveRequest>>>;  // by ascending id

  Requests::iterator find(RequestId id);
  LiveRequest& request(RequestId id) { return *find(id)->second; }  // REQUIRES: there is one
  std::unique_ptr<LiveRequest> take(Requests::iterator at);
  const Layout& lay_out(const StepPlan& plan);
  Result<void> reserve();
  Result<void> run(const Batch& batch);
  void send_starts(const StepPlan& plan);
  void choose(const StepPlan& plan, const Layout& layout);
  RunResult advance(const SequenceRun& run, uint32_t first_output, TimePoint now);
  void deliver();
  void end(RequestId id, TimePoint now);
  void recover();
  void adapt_to(double step_seconds, uint32_t n_rows);

  const ExecutionPlan& plan_;
  KvType kv_type_;
  SchedulerOptions options_;
  Clock clock_;
  StepControl control_;
  Scheduler scheduler_;
  Layout layout_;  // of the last step
  StepOutputs outputs_;
  Requests requests_;
  std::vector<RequestId> undelivered_;  // requests that may have a token to send
  CoreStats totals_;
  bool is_reserved_ = false;
  std::optional<Error> failure_;       // of the whole step
  uint32_t n_device_failures_ = 0;     // steps in a row
  std::optional<double> row_seconds_;  // the time of a prompt's row
  std::optional<Error> death_;
  SideWork side_work_{control_.side_work};  // last: it ends first
};

}  // namespace rocmforge
