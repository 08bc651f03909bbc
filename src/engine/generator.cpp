#include "engine/generator.h"

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/thread.h"
#include "engine/cache_size.h"

namespace rocmforge {
namespace {

// The events of one request, as they come.
struct Receipt {
  const TextReceiver& receive;
  Generated result = {};
  std::optional<FinishEvent> finish = {};
  bool is_refused = false;  // by `receive`

  void take(RequestEvent&& event) {
    if (auto* started = std::get_if<StartEvent>(&event)) {
      result.n_cached = started->n_cached;
    } else if (auto* token = std::get_if<TokenEvent>(&event)) {
      if (is_refused) return;
      result.tokens.push_back(token->token);
      if (token->logprobs) result.logprobs.push_back(*std::move(token->logprobs));
      is_refused = !token->text.empty() && !receive(token->text);
    } else {
      finish = std::get<FinishEvent>(std::move(event));
      if (!is_refused && !finish->text.empty()) is_refused = !receive(finish->text);
    }
  }
};

// Passes are made no shorter than this to fit a budget.
constexpr uint32_t kLeastRows = 256;

// A sequence alone, in passes as long as the backend likes them and the budget allows.
Result<SchedulerOptions> sizes_of(const ExecutionPlan& plan, const GeneratorOptions& options) {
  SchedulerOptions asked{.n_context = options.n_context != 0 ? options.n_context : plan.n_context(), .max_running = 1};
  if (asked.n_context > plan.n_context()) {
    return Error{ErrorCode::invalid_argument, fmt::format("generate: a context of {} tokens, the plan allows {}",
                                                          asked.n_context, plan.n_context())};
  }
  asked.n_pages = pages_for_tokens(asked.n_context);
  const CacheUnits units = CacheUnits::of(plan, options.kv_type);
  const uint64_t limit = plan.budget_bytes().value_or(plan.backend().placement().available_bytes());
  uint32_t n_rows = std::max(std::clamp(plan.backend().rows_of_a_pass(), 1u, asked.n_context), plan.least_rows());
  for (;; n_rows /= 2) {
    SchedulerOptions sizes = asked;
    sizes.max_step_tokens = n_rows;
    const uint64_t needed = plan.memory_bill(plan.pass_memory(n_rows, 1, 0, options.kv_type, 0)).total();
    divide_cache(sizes, units, limit - std::min(limit, needed), 100);
    const auto fits = plan.check_budget(
        plan.pass_memory(n_rows, 1, sizes.n_pages, options.kv_type, sizes.n_states, sizes.n_window_pages));
    if (fits.ok()) return sizes;
    if (n_rows <= std::max(kLeastRows, plan.least_rows())) return fits.error();
  }
}

}  // namespace

Result<std::unique_ptr<Generator>> Generator::create(const ExecutionPlan& plan, const GeneratorOptions& options) {
  const SchedulerOptions sizes = TRY(sizes_of(plan, options));
  return std::unique_ptr<Generator>(new Generator(plan, sizes, options));
}

Result<MemoryBill> Generator::memory_bill(const ExecutionPlan& plan, const GeneratorOptions& options) {
  const SchedulerOptions sizes = TRY(sizes_of(plan, options));
  return plan.memory_bill(plan.pass_memory(sizes.max_step_tokens, sizes.max_step_outputs, sizes.n_pages,
                                           options.kv_type, sizes.n_states, sizes.n_window_pages));
}

Generator::Generator(const ExecutionPlan& plan, const SchedulerOptions& sizes, const GeneratorOptions& options)
    : plan_(plan),
      n_context_(sizes.n_context),
      clock_(options.clock),
      core_(plan, sizes, options.kv_type, options.clock, {.whole_steps = true, .should_stop = [this] {
                                                            return should_stop_ && *should_stop_ && (*should_stop_)();
                                                          }}) {}

Result<Generated> Generator::generate(const tokenizer::Tokenizer& tokenizer, std::span<const TokenId> prompt,
                                      const GenerateOptions& options, const TextReceiver& receive) {
  if (!plan_.has_logits()) return no_logits(plan_);
  TRY(check_options(options.sampling));
  if (core_.is_dead()) return *core_.death();
  if (prompt.empty()) return Error{ErrorCode::invalid_argument, "generate: the prompt has no tokens"};
  for (const TokenId token : prompt) {
    if (token.value < 0 || static_cast<uint32_t>(token.value) >= plan_.spec().n_vocab) {
      return Error{ErrorCode::invalid_argument, fmt::format("generate: token {} is outside the vocabulary of {}",
                                                            token.value, plan_.spec().n_vocab)};
    }
  }
  if (prompt.size() >= n_context_) {
    return Error{ErrorCode::limit_exceeded,
                 fmt::format("generate: a prompt of {} tokens with an answer does not fit the context of {}",
                             prompt.size(), n_context_)};
  }
  Receipt receipt{.receive = receive};
  receipt.result.n_prompt_tokens = static_cast<uint32_t>(prompt.size());
  GenerationRequest request{.prompt = {prompt.begin(), prompt.end()},
                            .sampling = options.sampling,
                            .stop = options.stop,
                            .ignore_end_of_text = options.ignore_end_of_text,
                            .marked_tokens = options.marked_tokens,
                            .constraint = options.constraint};
  const RequestId id(++last_id_);
  const auto max_tokens = std::min(options.max_tokens, n_context_ - static_cast<uint32_t>(prompt.size()));
  should_stop_ = &options.should_stop;
  try {
    core_.accept(std::make_unique<LiveRequest>(
        id, std::move(request), max_tokens, [&](RequestEvent&& event) { receipt.take(std::move(event)); }, tokenizer,
        clock_()));
    while (!receipt.finish) {
      if (receipt.is_refused || (options.should_stop && options.should_stop())) {
        core_.cancel(id);
      } else {
        core_.step();
      }
    }
  } catch (const std::exception& exception) {
    // A step that was left in its middle cannot go on.
    core_.die(error_of(exception));
    throw;
  }
  should_stop_ = nullptr;
  if (receipt.finish->error) return *receipt.finish->error;
  Generated& result = receipt.result;
  const RequestUsage& usage = receipt.finish->usage;
  result.reason = receipt.is_refused ? FinishReason::cancelled : receipt.finish->reason;
  result.prompt_seconds = usage.queue_seconds + usage.prefill_seconds;
  result.decode_seconds = usage.decode_seconds;
  return std::move(result);
}

}  // namespace rocmforge
