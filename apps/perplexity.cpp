// How surprised a model is by a text: the measure that quantizations and kernels are compared by.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/json.h"
#include "engine_commands.h"
#include "plan/not_finite.h"
#include "terminal.h"

namespace rocmforge::apps {
namespace {

constexpr uint32_t kOutputs = 64;  // rows of logits per pass
constexpr uint64_t kMaxTextBytes = 1u << 30;

// -log of the probability that the logits give to `next`.
double surprise(std::span<const float> logits, TokenId next) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(double{x} - largest);
  return std::log(sum) + largest - logits[static_cast<size_t>(next.value)];
}

}  // namespace

// The text is cut into chunks of c tokens, the first of each replaced by BOS; the predictions at positions c/2 .. c-2
// count, so that each has at least c/2 tokens before it.
Result<void> perplexity(const PerplexityCommand& options) {
  EngineFlags flags = options.engine;
  const uint32_t n_chunk = flags.n_context != 0 ? flags.n_context : 512;
  flags.n_context = n_chunk;
  if (n_chunk < 4) return Error{ErrorCode::invalid_argument, fmt::format("chunks of {} tokens are too short", n_chunk)};
  const std::unique_ptr<Model> model = TRY(open_model(flags, {.max_outputs = kOutputs}));
  TRY(model->load(flags.load));
  const tokenizer::Tokenizer& tokenizer = *TRY(model->tokenizer());
  const std::string text = TRY(read_whole_file(options.file, kMaxTextBytes));
  const std::vector<TokenId> tokens = TRY(tokenizer.encode(text, {.parse_special = false, .add_bos = true}));
  size_t n_chunks = tokens.size() / n_chunk;
  if (options.n_chunks != 0) n_chunks = std::min<size_t>(n_chunks, options.n_chunks);
  if (n_chunks == 0) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("file '{}': {} tokens, less than one chunk of {}", options.file, tokens.size(), n_chunk)};
  }

  Session session = TRY(open_session(*model, flags, kOutputs));
  const size_t n_vocab = model->plan().spec().n_vocab;
  ProgressLine progress;
  double total = 0;
  size_t n_predictions = 0;
  for (size_t c = 0; c < n_chunks; c++) {
    std::vector<TokenId> chunk(tokens.begin() + static_cast<ptrdiff_t>(c * n_chunk),
                               tokens.begin() + static_cast<ptrdiff_t>((c + 1) * n_chunk));
    if (const auto bos = tokenizer.bos()) chunk[0] = *bos;
    session.rewind(0);
    // The last token is only predicted, the first half only read.
    const size_t first = n_chunk / 2, n_counted = n_chunk - 1 - first;
    TRY(session.evaluate(std::span(chunk).first(first)));
    const std::span<const float> logits = TRY(session.evaluate_all(std::span(chunk).subspan(first, n_counted)));
    for (size_t i = 0; i < n_counted; i++) {
      total += surprise(logits.subspan(i * n_vocab, n_vocab), chunk[first + i + 1]);
      n_predictions++;
    }
    progress.update([&] {
      return fmt::format("chunk {} of {}: {:.3f}", c + 1, n_chunks,
                         std::exp(total / static_cast<double>(n_predictions)));
    });
  }
  progress.clear();
  const double result = std::exp(total / static_cast<double>(n_predictions));
  if (!std::isfinite(result)) {
    return Error{ErrorCode::model_not_finite,
                 fmt::format("the logits are not finite; {}", why_not_finite(model->plan()))};
  }
  if (!options.json) return print(fmt::format("{:.4f}\n", result));
  JsonWriter w;
  w.begin_object().key("perplexity").value(result).key("n_chunks").value(static_cast<uint64_t>(n_chunks));
  w.key("n_context").value(n_chunk).key("n_predictions").value(static_cast<uint64_t>(n_predictions)).end_object();
  return print(w.take() + "\n");
}

}  // namespace rocmforge::apps
