#pragma once
// What the API needs of models: one that is ready, and where they come from. The registry behind it is given by
// registry_source.h, or by a test that plays a model itself.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/model_format.h"
#include "engine/registry.h"
#include "engine/request.h"
#include "grammar/compile.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::server {

struct ServedModel {
  std::string name;
  uint32_t n_context = 0;
  uint32_t n_embedding = 0;         // values of one embedding
  Pooling pooling = Pooling::mean;  // of embeddings, unless a request asks for another
  const tokenizer::Tokenizer* tokenizer = nullptr;
  const tokenizer::ChatTemplate* chat_template = nullptr;
  const chat::ModelFormat* tool_format = nullptr;
  // Compiles a constraint, or finds it compiled; absent: there are none.
  std::function<Result<ConstraintChoice>(const grammar::Source&)> constrain = {};
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
};

}  // namespace rocmforge::server
