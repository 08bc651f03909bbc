// GET /v1/models, GET /v1/models/{id}, POST /v1/models/load, POST /v1/models/unload

#include <algorithm>

#include "kv/page.h"
#include "plan/execution_plan.h"
#include "server/api/fields.h"
#include "server/api/routes.h"
#include "server/api/state_names.h"
#include "server/api/times.h"

namespace rocmforge::server {
namespace {

void write_model(JsonWriter& w, const ModelEntry& entry, uint32_t n_asked) {
  w.begin_object().key("id").value(entry.name).key("object").value("model");
  w.key("created").value(entry.modified_seconds).key("owned_by").value("rocmforge");
  w.key("state").value(state_name(entry.state));
  if (!entry.device.empty()) w.key("device").value(entry.device);
  if (entry.error) w.key("error").value(error_name(entry.error->code));
  if (entry.facts) {
    // The names that clients of other servers look for.
    const uint32_t n_context = served_context(entry, n_asked);
    w.key("max_model_len").value(n_context).key("context_length").value(n_context);
    w.key("meta").begin_object().key("n_ctx").value(n_context).key("n_ctx_train").value(entry.facts->n_context_train);
    w.key("n_params").value(entry.facts->n_parameters).key("n_vocab").value(entry.facts->n_vocab);
    w.key("n_embd").value(entry.facts->width).key("size").value(entry.file_bytes);
    w.key("architecture").value(entry.facts->architecture);
    w.key("chat_template").value(entry.facts->chat_template);
    if (!entry.facts->tool_format.empty()) {
      w.key("tool_format").value(entry.facts->tool_format).key("tool_format_by").value(entry.facts->tool_format_by);
    }
    w.end_object();
  }
  w.end_object();
}

// As Anthropic's clients read it.
void write_anthropic(JsonWriter& w, const ModelEntry& entry) {
  const bool is_named = entry.facts && !entry.facts->name.empty();
  w.begin_object().key("type").value("model").key("id").value(entry.name);
  w.key("display_name").value(is_named ? entry.facts->name : entry.name);
  w.key("created_at").value(rfc3339(entry.modified_seconds)).end_object();
}

void list_anthropic(const Call& call) {
  const auto models = named_models(*call.shared);
  JsonWriter w;
  w.begin_object().key("data").begin_array();
  for (const ModelEntry& entry : models) write_anthropic(w, entry);
  w.end_array().key("has_more").value(false).key("first_id");
  models.empty() ? w.null() : w.value(models.front().name);
  w.key("last_id");
  models.empty() ? w.null() : w.value(models.back().name);
  call.respond(200, w.end_object().take());
}

// Begins `what` with the model that the body names, unless there is nothing to do.
void change_model(const Call& call, const std::function<Result<ModelState>(std::string_view)>& what,
                  std::string_view (*status_after)(ModelState)) {
  const auto body = call.read_body();
  if (!body) return;
  Fields fields(*body);
  const auto name = fields.text("model", 512);
  if (!name) fields.refuse("model", "must name a model.");
  if (fields.error()) return call.refuse(*fields.error());
  call.record->note([&](RequestRecord::Facts& facts) { facts.model = *name; });
  const auto found = what(*name);
  if (!found.ok()) return call.refuse(ApiError::from(found.error()));
  JsonWriter w;
  w.begin_object().key("model").value(*name).key("status").value(status_after(*found));
  call.respond(200, w.end_object().take());
}

}  // namespace

std::vector<ModelEntry> named_models(const ApiShared& shared) {
  std::vector<ModelEntry> models = shared.models.list();
  const size_t n_own = models.size();
  for (const auto& [alias, name] : shared.options.aliases) {
    const auto own = std::ranges::find(models, name, &ModelEntry::name);
    if (own == models.end() || static_cast<size_t>(own - models.begin()) >= n_own) continue;
    ModelEntry entry = *own;
    entry.name = alias;
    models.push_back(std::move(entry));
  }
  return models;
}

uint32_t served_context(const ModelEntry& entry, uint32_t n_asked) {
  uint32_t n = n_asked != 0 ? n_asked : std::min(entry.facts->n_context_train, kDefaultContext);
  if (entry.engine && entry.engine->n_pages != 0) n = std::min(n, entry.engine->n_pages * kPageTokens);
  return n;
}

std::string_view state_name(ModelState state) {
  switch (state) {
    case ModelState::unloaded:
      return "unloaded";
    case ModelState::loading:
      return "loading";
    case ModelState::ready:
      return "ready";
    case ModelState::failed:
      return "failed";
  }
  RF_UNREACHABLE("a ModelState outside its enum");
}

void list_models(const Call& call) {
  if (call.dialect == Dialect::anthropic) return list_anthropic(call);
  JsonWriter w;
  w.begin_object().key("object").value("list").key("data").begin_array();
  for (const ModelEntry& entry : named_models(*call.shared)) write_model(w, entry, call.shared->options.n_context);
  call.respond(200, w.end_array().end_object().take());
}

void show_model(const Call& call) {
  const auto models = named_models(*call.shared);
  const auto found = std::ranges::find(models, call.argument, &ModelEntry::name);
  if (found == models.end()) return call.refuse(ApiError::model_not_found());
  JsonWriter w;
  call.dialect == Dialect::anthropic ? write_anthropic(w, *found)
                                     : write_model(w, *found, call.shared->options.n_context);
  call.respond(200, w.take());
}

void load_model(const Call& call) {
  change_model(call, call.shared->models.load,
               [](ModelState found) { return state_name(found == ModelState::ready ? found : ModelState::loading); });
}
void unload_model(const Call& call) {
  change_model(call, call.shared->models.unload, [](ModelState found) -> std::string_view {
    const bool is_there = found == ModelState::ready || found == ModelState::loading;
    return is_there ? "unloading" : state_name(ModelState::unloaded);
  });
}

}  // namespace rocmforge::server
