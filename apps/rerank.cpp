#include <fmt/core.h>

#include <algorithm>

#include "base/json.h"
#include "chat/rerank.h"
#include "engine/embedder.h"
#include "engine_commands.h"
#include "terminal.h"
#include "text_lines.h"

namespace rocmforge::apps {

Result<void> rerank(const RerankCommand& options) {
  const std::unique_ptr<Model> model = TRY(open_model(options.engine));
  const auto embedder =
      TRY(Embedder::create(model->plan(), {.n_context = options.engine.n_context, .kv_type = options.engine.kv_type}));
  const auto prompt = TRY(chat::RerankPrompt::load(model->file().metadata()));
  const tokenizer::Tokenizer& tokenizer = *TRY(model->tokenizer());
  const auto documents = options.documents.empty() ? TRY(lines_of(options.file)) : options.documents;
  std::vector<EmbeddingRequest> requests;
  for (const std::string& document : documents) {
    requests.push_back({.tokens = TRY(prompt.encode(tokenizer, options.query, document)), .pooling = Pooling::rank});
  }
  TRY(model->load(options.engine.load));
  const auto scores = TRY(embedder->embed(std::move(requests)));

  const bool are_probabilities = model->plan().spec().classifier.has_softmax;
  std::vector<float> relevance;
  for (const auto& of_one : scores) {
    relevance.push_back(options.raw ? of_one[0] : chat::relevance_of(of_one, are_probabilities));
  }
  std::vector<size_t> order = chat::best_first(relevance);
  if (options.n_best > 0) order.resize(std::min<size_t>(order.size(), options.n_best));
  if (!options.json) {
    std::string out;
    for (const size_t i : order) out += fmt::format("{:.6f} {}\n", relevance[i], documents[i]);
    return print(out);
  }
  JsonWriter w;
  w.begin_object().key("results").begin_array();
  for (const size_t i : order) {
    w.begin_object().key("index").value(uint64_t{i}).key("relevance_score").value(relevance[i]);
    w.key("document").value(documents[i]).end_object();
  }
  return print(w.end_array().end_object().take() + "\n");
}

}  // namespace rocmforge::apps
