#pragma once
// The API's interface to models: a ready model, and the source of models. registry_source.h implements it over the
// registry; tests implement it themselves.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/chat_template.h"
#include "chat/model_format.h"
#include "engine/message_constraint.h"
#include "engine/registry.h"
#include "engine/request.h"
#include "grammar/compile.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::server {

struct ServedModel {
  std::string name;
  uint32_t n_context = 0;
  uint32_t n_embedding = 0;               // values of one embedding
  Pooling pooling = Pooling::mean;        // of embeddings, unless a request asks for another
  bool scores_are_probabilities = false;  // of a reranker
  const tokenizer::Tokenizer* tokenizer = nullptr;
  const chat::ChatTemplate* chat_template = nullptr;
  const chat::ModelFormat* tool_format = nullptr;
  // A query and a document as the reranker reads them; absent: the model is none.
  std::function<Result<std::vector<TokenId>>(std::string_view query, std::string_view document)> encode_pair = {};
  // Compiles a constraint, or finds it in the cache; absent: constraints are not supported.
  std::function<Result<ConstraintChoice>(const grammar::Source&)> constrain = {};
  // The same for an answer in a conversation; the format and tokens of the rules, and the budget's, are the model's.
  using ConstrainMessage =
      std::function<Result<MessageConstraint>(const chat::MessageRules&, std::optional<uint32_t> max_thinking_tokens)>;
  ConstrainMessage constrain_message = {};
  // As Engine's.
  std::function<Result<RequestId>(GenerationRequest, EventReceiver)> generate;
  std::function<Result<RequestId>(EmbeddingRequest, EventReceiver)> embed;
  std::function<void(RequestId)> cancel;
};
using ModelRef = std::shared_ptr<const ServedModel>;

// As ModelRegistry's.
struct ModelSource {
  std::function<std::vector<ModelEntry>()> list;
  std::function<std::string()> default_name;
  std::function<void(std::string_view, std::function<void(Result<ModelRef>)>)> acquire;
  std::function<Result<ModelState>(std::string_view)> load, unload;
  std::function<void(std::string_view, Duration)> keep = [](std::string_view, Duration) {};
};

}  // namespace rocmforge::server
