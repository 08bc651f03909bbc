#include "serve.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/utf8.h"
#include "device_line.h"
#include "engine/model_list.h"
#include "engine/registry.h"
#include "folder_watch.h"
#include "model_path.h"
#include "server/server.h"
#include "terminal.h"
#include "user_folders.h"
#include "version.h"

namespace rocmforge::apps {
namespace {

ModelRegistry::Source source_of(const ListedModel& model) {
  return {.name = to_valid_utf8(model.name),  // what clients can spell
          .path = model.path,
          .file_bytes = model.file_bytes,
          .modified_seconds = model.modified_seconds,
          .facts = model.facts};
}

// Those that were named, in their order; with none named the bundled model and those of the models directory.
Result<std::vector<ModelRegistry::Source>> find_sources(const std::vector<std::string>& named) {
  std::vector<ModelRegistry::Source> out;
  const std::string cache = model_cache_file();
  for (const std::string& model : named.empty() ? std::vector<std::string>{""} : named) {
    const auto listed = list_models({.folders = {}, .files = {TRY(find_model(model))}, .cache_file = cache});
    if (listed.empty()) return Error{ErrorCode::file_not_found, fmt::format("model '{}' cannot be listed", model)};
    if (listed[0].error) return *listed[0].error;
    out.push_back(source_of(listed[0]));
  }
  const std::string directory = models_directory();
  if (!named.empty()) return out;
  if (directory.empty()) {
    say(kNoModelsDirectory);
    return out;
  }
  for (const ListedModel& model : list_models({.folders = {directory}, .cache_file = cache})) {
    if (!model.error && model.name != out[0].name) out.push_back(source_of(model));
  }
  return out;
}

Result<ModelRegistry::Options> registry_options(const ServeCommand& options) {
  ModelRegistry::Options out;
  out.models = TRY(find_sources(options.models));
  out.model.device = options.engine.device;
  out.model.n_threads = options.engine.n_threads;
  out.model.n_context = options.engine.n_context;
  out.model.ram_bytes = options.engine.ram_bytes;
  out.model.vram_bytes = options.engine.vram_bytes;
  out.model.fuse = options.engine.fuse;
  out.model.overrides = options.engine.overrides;
  out.model.self_test_file = self_test_file();
  out.engine.n_kv_tokens = options.n_kv_tokens;
  out.engine.max_running = options.max_running;
  out.engine.max_queued = options.max_queued;
  out.engine.max_queued_tokens = options.max_queued_tokens;
  out.engine.kv_type = options.engine.kv_type;
  out.tool_format = options.tool_format;
  if (!options.chat_template_file.empty()) out.chat_template = TRY(read_chat_template(options.chat_template_file));
  out.ttl = std::chrono::seconds(options.ttl_seconds);
  out.memory_budget = options.memory_budget;
  return out;
}

// NAME=MODEL or NAME. A model is named as in the list, or by its path.
Result<std::map<std::string, std::string, std::less<>>> read_aliases(const ServeCommand& options,
                                                                     const ModelRegistry& registry) {
  std::map<std::string, std::string, std::less<>> out;
  const std::vector<ModelEntry> models = registry.list();
  for (const std::string& text : options.aliases) {
    const size_t at = text.find('=');
    const std::string alias = text.substr(0, at);
    const std::string model = at == std::string::npos ? registry.default_name() : text.substr(at + 1);
    if (alias.empty()) return Error{ErrorCode::invalid_argument, fmt::format("--alias '{}' has no name", text)};
    const auto is_named = [&](std::string_view name) {
      return std::ranges::find(models, name, &ModelEntry::name) != models.end();
    };
    if (!is_named(model)) {
      return Error{ErrorCode::model_not_found, fmt::format("--alias '{}': there is no model '{}'", text, model)};
    }
    if (is_named(alias) || !out.emplace(alias, model).second) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("--alias '{}': there is a model '{}' already", text, alias)};
    }
  }
  return out;
}

bool has_tls(const ServeCommand& options) {
  return !options.tls.certificate.empty() || !options.tls.key.empty();
}

Result<server::ServerOptions> server_options(const ServeCommand& options) {
  server::ServerOptions out;
  out.http.host = options.host;
  out.http.port = options.port;
  out.http.max_connections = options.max_connections;
  out.http.limits.max_body_bytes = options.max_body_bytes;
  out.http.ping_after = std::chrono::seconds(options.ping_seconds);
  if (has_tls(options)) out.http.tls = TRY(server::TlsContext::load(options.tls));
  out.metrics_port = options.metrics_port;
  out.drain = std::chrono::seconds(options.drain_seconds);
  out.api.n_context = options.engine.n_context;
  out.api.overload_status = options.overload_status;
  out.api.n_parallel = options.max_running;
  TRY(check_options(options.sampling));
  out.api.sampling = options.sampling;
  out.api.fingerprint = fmt::format("rocmforge-{}", version_number());
  out.api.access.keys = TRY(read_keys(options.keys));
  out.api.access.cors_origins = options.cors_origins;
  out.api.access.allowed_hosts = options.allowed_hosts;
  return out;
}

void reload_certificate(const ServeCommand& options, server::Server& server) {
  auto tls = server::TlsContext::load(options.tls);
  if (tls.ok()) {
    server.set_tls(*tls);
    log(LogLevel::info, "reload: new connections get the certificate in '{}'", options.tls.certificate);
  } else {
    log(LogLevel::error, "reload: the certificate stays as it was: {}", tls.error().message);
  }
}

// `tells_all`: also that nothing has changed.
void reload_models(const ServeCommand& options, ModelRegistry& registry, bool tells_all) {
  auto sources = find_sources(options.models);
  auto change = sources.ok() ? registry.reload_list(std::move(*sources))
                             : Result<ModelRegistry::ListChange>(std::move(sources).error());
  if (change.ok()) {
    if (!tells_all && change->added.empty() && change->changed.empty() && change->dropped.empty()) return;
    log(LogLevel::info, "reload: {} models added, {} changed, {} dropped", change->added.size(), change->changed.size(),
        change->dropped.size());
  } else {
    log(LogLevel::error, "reload: the models stay as they were: {}", change.error().message);
  }
}

// SIGHUP: keys, certificate and models as flags, files and folders have them now. What cannot be read leaves things as
// they were.
void reload(const ServeCommand& options, ModelRegistry& registry, server::Server& server) {
  auto keys = read_keys(options.keys);
  if (keys.ok()) {
    server.set_keys(*keys);
    log(LogLevel::info, "reload: {} API keys and {} admin keys", keys->users.size(), keys->admins.size());
  } else {
    log(LogLevel::error, "reload: the keys stay as they were: {}", keys.error().message);
  }
  if (has_tls(options)) reload_certificate(options, server);
  reload_models(options, registry, true);
}

}  // namespace

Result<void> serve(const ServeCommand& options) {
  const std::unique_ptr<ServiceLog> service_log = TRY(ServiceLog::start(options.log));
  server::ServerOptions server_settings = TRY(server_options(options));
  const std::unique_ptr<ModelRegistry> registry = TRY(ModelRegistry::create(TRY(registry_options(options))));
  server_settings.api.aliases = TRY(read_aliases(options, *registry));
  const std::unique_ptr<server::Server> server = TRY(server::Server::create(*registry, server_settings));
  server->handle_signals([&] { reload(options, *registry, *server); });
  std::unique_ptr<FolderWatch> watch;  // ends before what it reloads
  if (const std::string folder = models_directory();
      options.models.empty() && !folder.empty() && options.rescan_seconds > 0) {
    watch = TRY(FolderWatch::start(folder, std::chrono::seconds(options.rescan_seconds),
                                   [&] { reload_models(options, *registry, false); }));
  }
  if (server_settings.api.access.keys.users.empty() && !server->is_loopback()) {
    log(LogLevel::warn, "anybody who can reach this address may use it; --api-key asks for a key");
  }

  if (const std::string address = server->metrics_address(); !address.empty()) {
    log(LogLevel::info, "metrics: {}://{}/metrics needs no key", server->scheme(), address);
  }

  // The first model is opened before anybody asks; if it cannot be, there is nothing to serve.
  std::mutex mutex;
  Result<void> outcome;
  registry->acquire(registry->default_name(), [&](Result<ModelHandle> model) {
    if (model.ok()) {
      server->note_started();
      const std::string& name = (*model)->name();
      log(LogLevel::info, "ready: {}://{} serves {} ({} tokens per request, {} in all) on {}", server->scheme(),
          server->address(), name, (*model)->engine().n_context(), (*model)->engine().n_kv_tokens(),
          device_line((*model)->engine().model(), options.engine.device));
    } else if (model.error().code != ErrorCode::draining) {
      const std::lock_guard lock(mutex);
      outcome = std::move(model.error());
      server->begin_drain();
    }
  });
  server->run();
  const std::lock_guard lock(mutex);
  return outcome;
}

}  // namespace rocmforge::apps
