#include "engine/generate.h"

#include <fmt/core.h>

#include "tokenizer/stream_decoder.h"

namespace rocmforge {
namespace {

// Of a prompt that may be stopped: as many tokens as a session takes in one pass.
constexpr size_t kPromptPiece = 256;

Generated cancelled(Generated result) {
  result.reason = FinishReason::cancelled;
  return result;
}

}  // namespace

Result<Generated> generate(Session& session, const tokenizer::Tokenizer& tokenizer, std::span<const TokenId> prompt,
                           const GenerateOptions& options, const TextReceiver& receive) {
  TRY(check_options(options.sampling));
  if (prompt.empty()) return Error{ErrorCode::invalid_argument, "generate: the prompt has no tokens"};
  if (session.n_past() + prompt.size() > session.n_context()) {
    return Error{ErrorCode::limit_exceeded,
                 fmt::format("generate: a prompt of {} tokens after {} does not fit the context of {}", prompt.size(),
                             session.n_past(), session.n_context())};
  }
  Generated result;
  result.n_prompt_tokens = static_cast<uint32_t>(prompt.size());
  if (options.max_tokens == 0) return result;

  std::optional<TokenConstraint> constraint;
  if (options.constraint) constraint.emplace(*options.constraint, tokenizer);
  tokenizer::StreamDecoder decoder(tokenizer, {.stop = options.stop, .show_special = options.ignore_end_of_text});
  const TimePoint start = options.clock();
  TimePoint first = start;
  const auto is_stopped = [&] { return options.should_stop && options.should_stop(); };
  const auto was_stopped = [&](const auto& outcome) {
    return !outcome.ok() && outcome.error().code == ErrorCode::cancelled && is_stopped();
  };
  const size_t piece = options.should_stop ? kPromptPiece : prompt.size();
  for (; prompt.size() > piece; prompt = prompt.subspan(piece)) {
    if (is_stopped()) return cancelled(result);
    auto advanced = session.advance(prompt.first(piece));
    if (was_stopped(advanced)) return cancelled(result);
    TRY(advanced);
  }
  auto advanced = session.advance(prompt);
  if (was_stopped(advanced)) return cancelled(result);
  StepOutputs* outputs = TRY(advanced);
  while (true) {
    if (is_stopped()) {
      result.reason = FinishReason::cancelled;
      break;
    }
    const double unit = random_unit(options.sampling.seed, result.tokens.size());
    const TokenId token = TRY(constraint ? outputs->choose(0, options.sampling, session.tokens(), unit, *constraint)
                                         : outputs->choose(0, options.sampling, session.tokens(), unit));
    if (result.tokens.empty()) {
      first = options.clock();
      result.prompt_seconds = seconds(first - start);
    }
    if ((constraint || !options.ignore_end_of_text) && tokenizer.is_end_of_text(token)) {
      result.reason = FinishReason::stop;
      break;
    }
    result.tokens.push_back(token);
    if (options.sampling.want_logprobs) {
      result.logprobs.push_back(TRY(outputs->logprobs(0, token, options.sampling.n_logprobs)));
    }
    const auto output = decoder.push(token);
    if (!output.text.empty() && !receive(output.text)) return cancelled(result);
    if (constraint) TRY(constraint->accept(token));
    if (output.stopped || (constraint && constraint->is_complete())) {
      result.reason = FinishReason::stop;
      break;
    }
    if (result.tokens.size() == options.max_tokens || session.n_past() == session.n_context()) break;
    auto next = session.advance(std::span(&result.tokens.back(), 1));
    if (was_stopped(next)) {
      result.reason = FinishReason::cancelled;
      break;
    }
    outputs = TRY(next);
  }
  result.decode_seconds = seconds(options.clock() - first);
  if (const std::string rest = decoder.finish().text; !rest.empty()) receive(rest);
  return result;
}

}  // namespace rocmforge
