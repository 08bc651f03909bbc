#include "engine/embedder.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include "base/thread.h"
#include "engine/cache_size.h"

namespace rocmforge {
namespace {

// Texts in one step.
constexpr uint32_t kTextsAtOnce = 64;

// Texts that the scheduler looks at: enough for the next steps.
constexpr size_t kTextsWaiting = 256;

Error bad_text(ErrorCode code, std::string fact) {
  return {code, "embed: " + std::move(fact)};
}

}  // namespace

Result<void> check_embedding(const EmbeddingRequest& request, const ExecutionPlan& plan, uint32_t n_context) {
  if (request.tokens.empty()) return bad_text(ErrorCode::invalid_argument, "a text without tokens");
  const uint32_t n_vocab = plan.spec().n_vocab;
  for (const TokenId token : request.tokens) {
    if (token.value < 0 || static_cast<uint32_t>(token.value) >= n_vocab) {
      return bad_text(ErrorCode::invalid_argument,
                      fmt::format("token {} is outside the vocabulary of {}", token.value, n_vocab));
    }
  }
  if (request.pooling == Pooling::rank && !plan.scores()) {
    return bad_text(ErrorCode::invalid_argument,
                    fmt::format("the {} model has no classifier (tensor 'cls.output.weight'): it is no reranker",
                                plan.spec().architecture));
  }
  if (request.tokens.size() > n_context) {
    return bad_text(ErrorCode::limit_exceeded,
                    fmt::format("{} tokens of a text exceed the context of {}", request.tokens.size(), n_context));
  }
  return {};
}

void normalise_embedding(std::span<float> values) {
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  if (squares == 0) return;
  const auto scale = static_cast<float>(1 / std::sqrt(squares));
  for (float& value : values) value *= scale;
}

SchedulerOptions embedding_sizes(const ExecutionPlan& plan, uint32_t n_context, KvType kv_type) {
  const bool is_whole = !plan.has_logits();
  const uint32_t n_rows = std::max(plan.backend().rows_of_a_pass(), is_whole ? n_context : kTextsAtOnce);
  SchedulerOptions sizes{.n_pages = pages_for_tokens(n_context) + pages_for_tokens(n_rows) + kTextsAtOnce,
                         .n_context = n_context,
                         .max_running = kTextsAtOnce,
                         .max_step_tokens = n_rows,
                         .max_step_outputs = kTextsAtOnce,
                         .whole_sequences = is_whole};
  const uint64_t limit = plan.budget_bytes().value_or(plan.backend().placement().available_bytes());
  const uint64_t needed = plan.memory_bill(plan.pass_memory(n_rows, kTextsAtOnce, 0, kv_type, 0)).total();
  divide_cache(sizes, CacheUnits::of(plan, kv_type), limit - std::min(limit, needed), 100);
  return sizes;
}

Result<std::unique_ptr<Embedder>> Embedder::create(const ExecutionPlan& plan, const EmbedderOptions& options) {
  const uint32_t n_context = options.n_context != 0 ? options.n_context : plan.n_context();
  if (n_context > plan.n_context()) {
    return bad_text(ErrorCode::invalid_argument,
                    fmt::format("a context of {} tokens, the plan allows {}", n_context, plan.n_context()));
  }
  const SchedulerOptions sizes = embedding_sizes(plan, n_context, options.kv_type);
  TRY(plan.check_budget(plan.pass_memory(sizes.max_step_tokens, sizes.max_step_outputs, sizes.n_pages, options.kv_type,
                                         sizes.n_states, sizes.n_window_pages)));
  return std::unique_ptr<Embedder>(new Embedder(plan, sizes, options));
}

Embedder::Embedder(const ExecutionPlan& plan, const SchedulerOptions& sizes, const EmbedderOptions& options)
    : plan_(plan),
      sizes_(sizes),
      clock_(options.clock),
      core_(plan, sizes, options.kv_type, options.clock, {.whole_steps = true}) {}

Result<std::vector<std::vector<float>>> Embedder::embed(std::vector<EmbeddingRequest> requests,
                                                        const std::function<bool()>& should_stop) {
  if (core_.is_dead()) return *core_.death();
  for (const EmbeddingRequest& request : requests) TRY(check_embedding(request, plan_, sizes_.n_context));
  std::vector<std::vector<float>> out(requests.size());
  std::optional<Error> error;
  const auto receiver = [&](size_t i) {
    return [&, i](RequestEvent&& event) {
      auto* finish = std::get_if<FinishEvent>(&event);
      if (finish == nullptr) return;
      if (finish->error && !error) error = std::move(finish->error);
      out[i] = std::move(finish->embedding);
    };
  };
  try {
    for (size_t next = 0; next < requests.size() || core_.has_work();) {
      for (; next < requests.size() && core_.n_requests() < kTextsWaiting; next++) {
        core_.accept(
            std::make_unique<LiveRequest>(RequestId(++last_id_), std::move(requests[next]), receiver(next), clock_()));
      }
      if (!error && should_stop && should_stop()) error = bad_text(ErrorCode::cancelled, "stopped");
      if (error) {
        core_.end_all(*error);
        break;
      }
      core_.step();
    }
  } catch (const std::exception& exception) {
    // A step that was left in its middle cannot go on.
    core_.die(error_of(exception));
    throw;
  }
  if (error) return *std::move(error);
  return out;
}

}  // namespace rocmforge
