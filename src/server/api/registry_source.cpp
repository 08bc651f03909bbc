#include "server/api/registry_source.h"

namespace rocmforge::server {
namespace {

ModelRef served(ModelHandle handle, std::shared_ptr<Deliveries> deliveries) {
  ServedModel model;
  model.name = handle->name();
  model.n_context = handle->engine().n_context();
  const ModelSpec& spec = handle->engine().model().plan().spec();
  model.n_embedding = spec.width;
  model.pooling = spec.pooling.value_or(Pooling::mean);
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
  source.unload = [&registry](std::string_view name) { return registry.unload(name); };
  return source;
}

}  // namespace rocmforge::server
