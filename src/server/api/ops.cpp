// GET /health, /ready, /metrics

#include <algorithm>

#include "server/api/routes.h"
#include "server/api/state_names.h"

namespace rocmforge::server {
namespace {

// Work, and no step for long: better restarted than trusted.
bool is_stuck(const Call& call, const EngineStats& stats) {
  return stats.n_running + stats.n_waiting > 0 &&
         call.shared->options.clock() - stats.last_progress > call.shared->options.stuck_after;
}

// An engine that has died, or that could not be made again after that.
bool has_lost_device(const ModelEntry& entry) {
  return (entry.engine && entry.engine->is_dead) ||
         (entry.error &&
          (entry.error->code == ErrorCode::device_failed || entry.error->code == ErrorCode::device_unavailable));
}

// A model larger than its memory is loaded once every weight has been there, though it never has them all.
double load_progress(const LoadingStats& loading) {
  if (loading.total_bytes == 0) return 1;
  const uint64_t n = std::max(loading.loaded_bytes, std::min(loading.read_bytes, loading.total_bytes));
  return static_cast<double>(n) / static_cast<double>(loading.total_bytes);
}

void write_state(JsonWriter& w, const ModelEntry& entry) {
  w.begin_object().key("name").value(entry.name).key("state").value(state_name(entry.state));
  if (entry.engine) {
    const EngineStats& stats = *entry.engine;
    w.key("running").value(stats.n_running).key("waiting").value(stats.n_waiting);
    w.key("loaded_bytes").value(stats.loading.loaded_bytes).key("total_bytes").value(stats.loading.total_bytes);
    w.key("progress").value(load_progress(stats.loading));
  }
  if (entry.error) w.key("error").value(error_name(entry.error->code));
  w.end_object();
}

}  // namespace

void health(const Call& call) {
  const auto models = call.shared->models.list();
  const bool is_dead = std::ranges::any_of(models, has_lost_device);
  const bool is_slow =
      std::ranges::any_of(models, [&](const auto& m) { return m.engine && is_stuck(call, *m.engine); });
  const bool is_loading = std::ranges::any_of(models, [](const auto& m) { return m.state == ModelState::loading; });
  JsonWriter w;
  w.begin_object().key("status");
  w.value(is_dead ? "device failed" : is_slow ? "stuck" : is_loading ? "loading" : "ok");
  w.key("draining").value(call.shared->is_draining.load()).key("models").begin_array();
  for (const ModelEntry& entry : models) write_state(w, entry);
  call.respond(is_dead || is_slow ? 500 : 200, w.end_array().end_object().take());
}

void ready(const Call& call) {
  if (call.shared->is_draining)
    return call.refuse(ApiError::unavailable("The server is about to stop.", "draining", 5));
  const auto models = call.shared->models.list();
  const auto first = std::ranges::find(models, call.shared->models.default_name(), &ModelEntry::name);
  if (first != models.end() && (first->state == ModelState::loading || first->state == ModelState::failed)) {
    return call.refuse(ApiError::unavailable("The model is not ready.", "model_loading", 1));
  }
  call.respond(200, R"({"status":"ready"})");
}

void show_metrics(const Call& call) {
  call.respond({.content_type = "text/plain; version=0.0.4; charset=utf-8"},
               call.shared->metrics.render(call.shared->models.list(), call.shared->options.http_stats()));
}

}  // namespace rocmforge::server
