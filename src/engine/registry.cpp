#include "engine/registry.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "base/thread.h"
#include "cpu/memory.h"
#include "engine/registry_state.h"

namespace rocmforge {
namespace {

Error not_found(std::string_view name) {
  return {ErrorCode::model_not_found, fmt::format("registry: no model is called '{}'", name)};
}

Error same_name(std::string_view name) {
  return {ErrorCode::invalid_argument, fmt::format("registry: two models are called '{}'", name)};
}

bool is_same_file(const ModelRegistry::Source& a, const ModelRegistry::Source& b) {
  return a.path == b.path && a.file_bytes == b.file_bytes && a.modified_seconds == b.modified_seconds;
}

}  // namespace

ModelRegistry::Source complete(ModelRegistry::Source source) {
  struct stat file{};
  if (source.file_bytes == 0 && ::stat(source.path.c_str(), &file) == 0) {
    source.file_bytes = static_cast<uint64_t>(file.st_size);
    source.modified_seconds = file.st_mtime;
  }
  return source;
}

Error registry_draining() {
  return {ErrorCode::draining, "registry: no more requests: about to stop"};
}

ModelRegistry::State::State(Options o)
    : options(std::move(o)), likely_home(options.model.device == "cpu" ? ModelHome::machine : ModelHome::gpu) {
  const uint64_t asked = options.memory_budget;
  budgets[ModelHome::gpu] = asked;
  budgets[ModelHome::machine] = asked != 0 ? asked : less_margin(cpu::available_memory());
  measure_program();
}

ModelRegistry::State::Entry* ModelRegistry::State::find(std::string_view name) const {
  const auto at = std::ranges::find(entries, name, [](const auto& entry) { return entry->source.name; });
  return at != entries.end() ? at->get() : nullptr;
}

std::vector<std::shared_ptr<ReadyModel>> ModelRegistry::State::models() const {
  const std::lock_guard lock(mutex);
  std::vector<std::shared_ptr<ReadyModel>> models;
  for (const auto& entry : entries) {
    if (entry->model) models.push_back(entry->model);
  }
  for (const Retired& entry : retired) models.push_back(entry.model);
  return models;
}

Result<std::unique_ptr<ModelRegistry>> ModelRegistry::create(Options options) {
  if (options.models.empty()) return Error{ErrorCode::invalid_argument, "registry: no models"};
  auto state = std::make_unique<State>(std::move(options));
  for (Source& source : state->options.models) {
    if (state->find(source.name) != nullptr) return same_name(source.name);
    state->entries.push_back(std::make_unique<State::Entry>());
    state->entries.back()->source = complete(std::move(source));
  }
  state->options.models.clear();
  state->keeper = TRY(start_thread([s = state.get()] { s->keep(); }));
  return std::unique_ptr<ModelRegistry>(new ModelRegistry(std::move(state)));
}

ModelRegistry::ModelRegistry(std::unique_ptr<State> state) : state_(std::move(state)) {}

ModelRegistry::~ModelRegistry() {
  stop({ErrorCode::cancelled, "registry: the models are being unloaded"});
}

std::vector<ModelEntry> ModelRegistry::list() const {
  std::vector<ModelEntry> list;
  std::vector<std::shared_ptr<ReadyModel>> models;
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& entry : state_->entries) {
      state_->retire_dead(*entry);
      list.push_back({.name = entry->source.name,
                      .path = entry->source.path,
                      .file_bytes = entry->source.file_bytes,
                      .modified_seconds = entry->source.modified_seconds,
                      .state = entry->state,
                      .is_pinned = entry->source.is_pinned,
                      .error = entry->state == ModelState::failed ? entry->error : std::nullopt,
                      .facts = entry->source.facts,
                      .engine = {},
                      .counts = {},
                      .device = {},
                      .load_seconds = entry->load_seconds,
                      .n_loads = entry->n_loads});
      models.push_back(entry->model);
      EngineStats& counts = list.back().counts;
      if (const auto found = state_->ended.find(entry->source.name); found != state_->ended.end()) {
        counts.add_counts(found->second);
      }
      for (const State::Retired& one : state_->retired) {
        if (one.name == entry->source.name) counts.add_counts(one.model->engine().stats());
      }
    }
  }
  for (size_t i = 0; i < list.size(); i++) {
    if (!models[i]) continue;
    list[i].engine = models[i]->engine().stats();
    list[i].device = models[i]->engine().model().backend().name();
    list[i].counts.add_counts(*list[i].engine);
  }
  return list;
}

std::string ModelRegistry::default_name() const {
  const std::lock_guard lock(state_->mutex);
  return state_->entries.front()->source.name;
}

Result<ModelRegistry::ListChange> ModelRegistry::reload_list(std::vector<Source> models) {
  if (models.empty()) return Error{ErrorCode::invalid_argument, "registry: no models"};
  std::set<std::string, std::less<>> names;
  for (Source& source : models) {
    if (!names.insert(source.name).second) return same_name(source.name);
    source = complete(std::move(source));
  }
  const std::lock_guard lock(state_->mutex);
  ListChange change;
  std::vector<std::unique_ptr<State::Entry>> added;
  for (Source& source : models) {
    State::Entry* known = state_->find(source.name);
    if (known == nullptr) {
      change.added.push_back(source.name);
      added.push_back(std::make_unique<State::Entry>());
      added.back()->source = std::move(source);
    } else if (known->state != ModelState::loading && !is_same_file(known->source, source)) {
      if (known->state == ModelState::ready) state_->retire(*known, "file changed");
      change.changed.push_back(source.name);
      source.is_pinned = known->source.is_pinned;
      known->source = std::move(source);
      known->retry_at = {};
    }
  }
  auto& entries = state_->entries;
  const auto is_gone = [&](const auto& entry) {
    return entry->state != ModelState::loading && !names.contains(entry->source.name);
  };
  for (const auto& entry : entries) {
    if (!is_gone(entry)) continue;
    if (entry->state == ModelState::ready) state_->retire(*entry, "dropped from the list");
    change.dropped.push_back(entry->source.name);
  }
  entries.reserve(entries.size() + added.size());
  std::erase_if(entries, is_gone);
  for (auto& entry : added) entries.push_back(std::move(entry));
  return change;
}

void ModelRegistry::acquire(std::string_view name, Ready ready) {
  auto now = [&]() -> std::optional<Result<ModelHandle>> {
    const std::lock_guard lock(state_->mutex);
    State::Entry* entry = state_->find(name);
    if (entry == nullptr) return Result<ModelHandle>(not_found(name));
    if (state_->is_draining) return Result<ModelHandle>(registry_draining());
    state_->retire_dead(*entry);
    if (entry->state == ModelState::ready) {
      entry->last_use = state_->options.clock();
      return Result<ModelHandle>(ModelHandle(entry->model));
    }
    if (entry->state == ModelState::failed && state_->options.clock() < entry->retry_at) {
      return Result<ModelHandle>(*entry->error);
    }
    if (entry->state != ModelState::loading) {
      if (auto begun = state_->begin_load(*entry); !begun.ok()) return Result<ModelHandle>(std::move(begun).error());
    }
    entry->waiters.push_back(std::move(ready));
    return std::nullopt;
  }();
  if (now) ready(std::move(*now));
}

void ModelRegistry::keep(std::string_view name, Duration ttl) {
  const std::lock_guard lock(state_->mutex);
  State::Entry* entry = state_->find(name);
  if (entry == nullptr) return;
  entry->ttl = ttl;
  state_->changed.notify_all();  // the keeper may sleep longer than that
}

Result<ModelState> ModelRegistry::load(std::string_view name) {
  const std::lock_guard lock(state_->mutex);
  State::Entry* entry = state_->find(name);
  if (entry == nullptr) return not_found(name);
  if (state_->is_draining) return registry_draining();
  state_->retire_dead(*entry);
  const ModelState found = entry->state;
  switch (found) {
    case ModelState::ready:
    case ModelState::loading:
      return found;
    case ModelState::failed:  // who asks for it by name wants it tried now
    case ModelState::unloaded:
      TRY(state_->begin_load(*entry));
      return found;
  }
  RF_UNREACHABLE("a ModelState outside its enum");
}

Result<ModelState> ModelRegistry::unload(std::string_view name) {
  const std::lock_guard lock(state_->mutex);
  State::Entry* entry = state_->find(name);
  if (entry == nullptr) return not_found(name);
  const ModelState found = entry->state;
  if (found == ModelState::ready) state_->retire(*entry, "unload");
  if (found == ModelState::loading) entry->unload_after_load = true;
  return found;
}

void ModelRegistry::begin_drain() {
  std::vector<Ready> waiters;
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_draining = true;
    state_->stop_loads = true;
    for (const auto& entry : state_->entries) {
      for (Ready& ready : entry->waiters) waiters.push_back(std::move(ready));
      entry->waiters.clear();
    }
    state_->changed.notify_all();
  }
  for (const auto& model : state_->models()) model->engine().begin_drain();
  for (Ready& ready : waiters) ready(registry_draining());
}

bool ModelRegistry::is_idle() const {
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& entry : state_->entries) {
      if (!entry->waiters.empty()) return false;
    }
  }
  return std::ranges::all_of(state_->models(), [](const auto& model) { return model->engine().is_idle(); });
}

void ModelRegistry::stop(const Error& error) {
  std::call_once(state_->stopped, [&] {
    begin_drain();
    for (const auto& model : state_->models()) model->engine().stop(error);
    {
      const std::lock_guard lock(state_->mutex);
      state_->is_stopping = true;
      state_->changed.notify_all();
    }
    state_->keeper.join();
    std::list<std::thread> loaders;
    {
      const std::lock_guard lock(state_->mutex);
      loaders.swap(state_->finished);
      for (const auto& entry : state_->entries) loaders.splice(loaders.end(), entry->loader);
    }
    for (std::thread& loader : loaders) loader.join();
    // Engines that came late have had no request. Handles may outlive this; their engines have ended.
    for (const auto& model : state_->models()) model->engine().stop(error);
    const std::lock_guard lock(state_->mutex);
    for (const auto& entry : state_->entries) entry->model.reset();
    state_->retired.clear();
  });
}

}  // namespace rocmforge
