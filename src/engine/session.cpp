#include "engine/session.h"

#include <fmt/core.h>

#include <algorithm>

namespace rocmforge {

Result<Session> Session::create(const ExecutionPlan& plan, const SessionOptions& asked) {
  SessionOptions options = asked;
  if (options.n_context == 0) options.n_context = plan.n_context();
  if (options.n_context > plan.n_context()) {
    return Error{ErrorCode::invalid_argument, fmt::format("session: a context of {} tokens, the plan allows {}",
                                                          options.n_context, plan.n_context())};
  }
  options.max_rows = std::clamp(options.max_rows, 1u, options.n_context);
  options.max_outputs = std::clamp(options.max_outputs, 1u, options.max_rows);
  Session session(plan, options);
  TRY(plan.check_budget(session.memory()));
  return session;
}

Session::Session(const ExecutionPlan& plan, const SessionOptions& options)
    : plan_(&plan),
      options_(options),
      pool_(std::make_unique<PagePool>(pages_for_tokens(options.n_context))),
      pages_(*pool_) {}

PassMemory Session::memory() const {
  return plan_->pass_memory(options_.max_rows, options_.max_outputs, pool_->n_pages(), options_.kv_type);
}

MemoryBill Session::memory_bill() const {
  return plan_->memory_bill(memory());
}

Result<std::span<const float>> Session::evaluate(std::span<const TokenId> tokens) {
  return run(tokens, true);
}
Result<std::span<const float>> Session::evaluate_all(std::span<const TokenId> tokens) {
  return run(tokens, false);
}

Result<std::span<const float>> Session::run(std::span<const TokenId> tokens, bool last_only) {
  const uint64_t n_after = uint64_t{n_past()} + tokens.size();
  if (tokens.empty()) return Error{ErrorCode::invalid_argument, "session: no tokens"};
  if (n_after > options_.n_context) {
    return Error{ErrorCode::limit_exceeded, fmt::format("session: {} tokens after {} do not fit the context of {}",
                                                        tokens.size(), n_past(), options_.n_context)};
  }
  if (!is_reserved_) {
    TRY(plan_->backend().reserve(memory()));
    is_reserved_ = true;
  }
  TRY(pages_.grow_to(n_after));
  const size_t n_vocab = plan_->spec().n_vocab;
  logits_.resize((last_only ? 1 : tokens.size()) * n_vocab);
  const size_t max_rows = last_only ? options_.max_rows : options_.max_outputs;
  for (size_t at = 0; at < tokens.size();) {
    const size_t n = std::min(max_rows, tokens.size() - at);
    const bool is_last = at + n == tokens.size();
    Batch batch;
    batch.add(tokens.subspan(at, n), n_past() + static_cast<uint32_t>(at), pages_.pages(), last_only);
    if (last_only && !is_last) batch.output_rows.clear();
    TRY(check_batch(batch, plan_->spec().n_vocab, options_.n_context, options_.max_rows));
    TRY(forward(*plan_, batch, {.prefetch_window = options_.prefetch_window, .after_stage = {}}));
    if (const size_t n_out = batch.n_outputs(); n_out > 0) {
      const size_t first = last_only ? 0 : at;
      TRY(plan_->backend().read(std::span(logits_).subspan(first * n_vocab, n_out * n_vocab), plan_->logits()));
    }
    at += n;
  }
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  return std::span<const float>(logits_);
}

void Session::rewind(uint32_t n_tokens) {
  if (n_tokens < n_past()) tokens_.resize(n_tokens);
  pages_.shrink_to(n_past());
}

}  // namespace rocmforge
