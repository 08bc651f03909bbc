#include "server/api/registry_source.h"

#include "chat/rerank.h"

namespace rocmforge::server {
namespace {

void add_reranker(ServedModel& model, const ModelHandle& handle, const ExecutionPlan& plan) {
  model.scores_are_probabilities = plan.spec().classifier.has_softmax;
  auto prompt = chat::RerankPrompt::load(plan.file().metadata());
  model.encode_pair = [handle, prompt = std::move(prompt)](std::string_view query,
                                                           std::string_view document) -> Result<std::vector<TokenId>> {
    if (!prompt.ok()) return prompt.error();
    return prompt->encode(handle->tokenizer(), query, document);
  };
}

ModelRef served(ModelHandle handle, std::shared_ptr<Deliveries> deliveries) {
  ServedModel model;
  model.name = handle->name();
  model.n_context = handle->engine().n_context();
  const ExecutionPlan& plan = handle->engine().model().plan();
  model.n_embedding = plan.embedding_width();
  model.pooling = plan.default_pooling();
  if (plan.scores()) add_reranker(model, handle, plan);
  model.tokenizer = &handle->tokenizer();
  model.chat_template = &handle->chat_template();
  model.tool_format = &handle->tool_format();
  model.generate = [handle, deliveries](GenerationRequest request, EventReceiver receiver) {
    return handle->engine().submit(std::move(request), deliveries->to(std::move(receiver)));
  };
  model.embed = [handle, deliveries](EmbeddingRequest request, EventReceiver receiver) {
    return handle->engine().submit(std::move(request), deliveries->to(std::move(receiver)));
  };
  model.constrain = [handle](const grammar::Source& source) -> Result<ConstraintChoice> {
    auto made = TRY(handle->constraints().compile(source));
    return ConstraintChoice{.constraint = std::move(made), .vocabulary = handle->constraints().vocabulary()};
  };
  model.constrain_message = [handle](const chat::MessageRules& rules, std::optional<uint32_t> max_thinking_tokens) {
    return constrain_message(handle->constraints(), handle->tokenizer(), handle->tool_format(), rules,
                             max_thinking_tokens);
  };
  model.cancel = [handle](RequestId id) { handle->engine().cancel(id); };
  return std::make_shared<const ServedModel>(std::move(model));
}

}  // namespace

ModelSource registry_source(ModelRegistry& registry, std::shared_ptr<Deliveries> deliveries) {
  ModelSource source;
  source.list = [&registry] { return registry.list(); };
  source.default_name = [&registry] { return registry.default_name(); };
  source.acquire = [&registry, deliveries](std::string_view name, std::function<void(Result<ModelRef>)> ready) {
    registry.acquire(name, [deliveries, ready = std::move(ready)](Result<ModelHandle> handle) {
      ready(handle.ok() ? Result<ModelRef>(served(std::move(*handle), deliveries))
                        : Result<ModelRef>(std::move(handle.error())));
    });
  };
  source.load = [&registry](std::string_view name) { return registry.load(name); };
  source.keep = [&registry](std::string_view name, Duration ttl) { registry.keep(name, ttl); };
  source.unload = [&registry](std::string_view name) { return registry.unload(name); };
  return source;
}

}  // namespace rocmforge::server
