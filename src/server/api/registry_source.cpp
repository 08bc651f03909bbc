#include "server/api/registry_source.h"

namespace rocmforge::server {
namespace {

ModelRef served(ModelHandle handle) {
  ServedModel model;
  model.name = handle->name();
  model.n_context = handle->engine().n_context();
  model.tokenizer = &handle->tokenizer();
  model.chat_template = &handle->chat_template();
  model.generate = [handle](GenerationRequest request, EventReceiver receiver) {
    return handle->engine().submit(std::move(request), std::move(receiver));
  };
  model.embed = [handle](EmbeddingRequest request, EventReceiver receiver) {
    return handle->engine().submit(std::move(request), std::move(receiver));
  };
  model.cancel = [handle](RequestId id) { handle->engine().cancel(id); };
  return std::make_shared<const ServedModel>(std::move(model));
}

}  // namespace

ModelSource registry_source(ModelRegistry& registry) {
  ModelSource source;
  source.list = [&registry] { return registry.list(); };
  source.default_name = [&registry] { return registry.default_name(); };
  source.acquire = [&registry](std::string_view name, std::function<void(Result<ModelRef>)> ready) {
    registry.acquire(name, [ready = std::move(ready)](Result<ModelHandle> handle) {
      ready(handle.ok() ? Result<ModelRef>(served(std::move(*handle))) : Result<ModelRef>(std::move(handle.error())));
    });
  };
  source.try_acquire = [&registry](std::string_view name) -> std::optional<ModelRef> {
    auto handle = registry.try_acquire(name);
    if (!handle) return {};
    return served(std::move(*handle));
  };
  source.load = [&registry](std::string_view name) { return registry.load(name); };
  source.unload = [&registry](std::string_view name) { return registry.unload(name); };
  return source;
}

}  // namespace rocmforge::server
