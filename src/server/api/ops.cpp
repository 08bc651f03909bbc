// GET /health, /ready, /metrics

#include <algorithm>

#include "server/api/routes.h"
#include "server/api/state_names.h"

namespace rocmforge::server {
namespace {

// Work, and neither a step nor weights for long: better restarted than trusted.
bool is_stuck(const Call& call, const ModelEntry& entry) {
  if (!entry.engine) return false;
  const EngineStats& stats = *entry.engine;
  const TimePoint now = call.shared->options.clock();
  const TimePoint read = call.shared->load_watch.last_change(entry.name, stats.loading.read_bytes, now);
  return stats.n_running + stats.n_waiting > 0 &&
         now - std::max(stats.last_progress, read) > call.shared->options.stuck_after;
}

bool is_worker_stuck(const Call& call) {
  return call.shared->options.http_stats().workers.longest > call.shared->options.worker_stuck_after;
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
  if (!entry.device.empty()) w.key("device").value(entry.device);
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

TimePoint LoadWatch::last_change(const std::string& model, uint64_t read_bytes, TimePoint now) {
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = seen_.try_emplace(model, Seen{read_bytes, TimePoint{}});
  if (!is_new && at->second.read_bytes != read_bytes) at->second = {read_bytes, now};
  return at->second.at;
}

void health(const Call& call) {
  const auto models = call.shared->models.list();
  const bool is_dead = std::ranges::any_of(models, has_lost_device);
  const auto n_slow = std::ranges::count_if(models, [&](const auto& m) { return is_stuck(call, m); });
  const bool is_slow = n_slow > 0 || is_worker_stuck(call);
  const bool is_loading = std::ranges::any_of(models, [](const auto& m) { return m.state == ModelState::loading; });
  JsonWriter w;
  w.begin_object().key("status");
  w.value(is_dead ? "device failed" : is_slow ? "stuck" : is_loading ? "loading" : "ok");
  w.key("draining").value(call.shared->is_draining.load());
  if (call.is_identified) {  // what is served, and to how many, is not for everybody
    w.key("models").begin_array();
    for (const ModelEntry& entry : models) write_state(w, entry);
    w.end_array();
  }
  call.respond(is_dead ? 500 : is_slow ? 503 : 200, w.end_object().take());
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
