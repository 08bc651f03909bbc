#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "engine/embedder.h"
#include "engine_commands.h"
#include "terminal.h"
#include "text_lines.h"

namespace rocmforge::apps {
namespace {

using tokenizer::Tokenizer;

Result<std::vector<std::vector<TokenId>>> inputs_of(const EmbedCommand& options, Model& model) {
  std::vector<std::vector<TokenId>> inputs;
  if (!options.tokens.empty()) {
    auto& tokens = inputs.emplace_back();
    for (const int32_t id : options.tokens) tokens.push_back(TokenId(id));
    return inputs;
  }
  const auto texts = options.texts.empty() ? TRY(lines_of(options.file)) : options.texts;
  const Tokenizer& tokenizer = *TRY(model.tokenizer());
  for (const std::string& text : texts) {
    inputs.push_back(TRY(tokenizer.encode(text, {.add_bos = true, .add_eos = true})));
    if (text.empty() || inputs.back().empty()) {
      return Error{ErrorCode::invalid_argument, fmt::format("text {} is empty", inputs.size())};
    }
  }
  return inputs;
}

// Nine significant digits tell any two floats apart.
void append(std::string& out, const std::vector<float>& values, bool json) {
  if (json) out += "{\"embedding\":[";
  for (size_t i = 0; i < values.size(); i++) {
    if (i > 0) out += json ? ',' : ' ';
    out += fmt::format("{:.9g}", values[i]);
  }
  out += json ? "]}\n" : "\n";
}

// A shorter embedding, of the length that the longer one was given.
void shorten(std::vector<float>& values, size_t n, bool normalise) {
  values.resize(std::min(values.size(), n));
  if (normalise) normalise_embedding(values);
}

}  // namespace

Result<void> embed(const EmbedCommand& options) {
  const std::unique_ptr<Model> model = TRY(open_model(options.engine));
  const ExecutionPlan& plan = model->plan();
  const Pooling pooling = options.pooling.value_or(plan.default_pooling());
  const auto embedder =
      TRY(Embedder::create(plan, {.n_context = options.engine.n_context, .kv_type = options.engine.kv_type}));
  std::vector<EmbeddingRequest> requests;
  for (auto& tokens : TRY(inputs_of(options, *model))) {
    requests.push_back({.tokens = std::move(tokens), .pooling = pooling, .normalise = !options.raw});
  }
  TRY(model->load(options.engine.load));
  auto embeddings = TRY(embedder->embed(std::move(requests)));
  std::string out;
  for (std::vector<float>& values : embeddings) {
    if (options.n_dimensions > 0 && pooling != Pooling::rank) shorten(values, options.n_dimensions, !options.raw);
    append(out, values, options.json);
  }
  return print(out);
}

}  // namespace rocmforge::apps
