#include "engine/registry.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <new>
#include <thread>

#include "base/units.h"
#include "cpu/memory.h"
#include "engine/model_home.h"
#include "engine/usable_template.h"

namespace rocmforge {
namespace {

constexpr Duration kLongestPause = std::chrono::minutes(1);
constexpr const char* kNoMemory = "out of memory";         // short enough to need none itself
constexpr Duration kTick = std::chrono::milliseconds(20);  // where something must be looked at again

Error not_found(std::string_view name) {
  return {ErrorCode::model_not_found, fmt::format("registry: no model is called '{}'", name)};
}

Error draining() {
  return {ErrorCode::draining, "registry: no more requests: about to stop"};
}

// On threads that belong to nobody's request: what there is no memory for is left out.
template <class Work>
void attempt(Work&& work) noexcept try {
  work();
} catch (const std::bad_alloc&) {
}

}  // namespace

struct ModelRegistry::State {
  struct Entry {
    Source source;
    ModelState state = ModelState::unloaded;
    std::shared_ptr<ReadyModel> model = {};  // when ready
    ModelHome home = ModelHome::machine;     // known once it is opened, guessed before
    uint64_t n_bytes = 0;                    // that it holds there or is promised, by its memory bill
    TimePoint load_began{}, last_use{}, retry_at{};
    double load_seconds = 0;
    uint64_t n_loads = 0;
    uint32_t n_failures = 0;  // in a row
    std::optional<Error> error = {};
    bool unload_after_load = false;
    std::vector<Ready> waiters = {};
    std::list<std::thread> loader = {};  // one, while it loads
  };
  // Unloaded, but perhaps still in use.
  struct Retired {
    std::shared_ptr<ReadyModel> model;
    ModelHome home = ModelHome::machine;
    uint64_t n_bytes = 0;
  };

  explicit State(Options o)
      : options(std::move(o)), likely_home(options.model.device == "cpu" ? ModelHome::machine : ModelHome::gpu) {
    const uint64_t asked = options.memory_budget;
    budgets[ModelHome::gpu] = asked;
    budgets[ModelHome::machine] =
        asked != 0 ? asked : options.model.ram_bytes.value_or(less_margin(cpu::available_memory()));
  }

  Options options;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<Entry>> entries;  // never more, never fewer
  std::list<Retired> retired;
  BytesByHome budgets;              // 0: no limit is known yet
  ModelHome likely_home;            // the last one's
  BytesByHome ending_bytes;         // of models whose destructors run
  std::list<std::thread> finished;  // loaders that are about to end
  bool is_draining = false, is_stopping = false;
  std::thread keeper;
  std::once_flag stopped;

  Entry* find(std::string_view name) const;
  static bool is_busy(const std::shared_ptr<ReadyModel>& model) {
    return model.use_count() > 1 || !model->engine().is_idle();
  }
  void begin_load(Entry& entry);  // REQUIRED of this and what follows: the lock is held
  void retire(Entry& entry);
  void note_failure(Entry& entry, const Error& error);
  void retire_dead(Entry& entry);
  Entry* longest_idle(ModelHome home) const;
  uint64_t leaving_bytes(ModelHome home) const;
  uint64_t used_bytes(ModelHome home) const;
  Result<void> make_room(std::unique_lock<std::mutex>& lock, Entry& entry, uint64_t n_bytes);
  void unload_old(TimePoint now);
  std::optional<Duration> next_look() const;

  void load(Entry& entry);  // the loader's thread
  Result<std::shared_ptr<ReadyModel>> open_in_room(Entry& entry);
  uint64_t settle(Entry& entry, const Model& model);
  Result<std::unique_ptr<ReadyModel>> open(Entry& entry);
  void keep();  // the keeper's
  void clean_up();
  std::vector<std::shared_ptr<ReadyModel>> models() const;
};

ModelRegistry::State::Entry* ModelRegistry::State::find(std::string_view name) const {
  const auto at = std::ranges::find(entries, name, [](const auto& entry) { return entry->source.name; });
  return at != entries.end() ? at->get() : nullptr;
}

void ModelRegistry::State::begin_load(Entry& entry) {
  entry.loader.emplace_back([this, &entry] { load(entry); });  // it waits for the lock
  entry.state = ModelState::loading;
  entry.load_began = options.clock();
  entry.n_loads++;
  entry.unload_after_load = false;
}

void ModelRegistry::State::load(Entry& entry) {
  auto opened = open_in_room(entry);
  std::vector<Ready> waiters;
  {
    const std::lock_guard lock(mutex);
    const TimePoint now = options.clock();
    entry.load_seconds = seconds(now - entry.load_began);
    waiters.swap(entry.waiters);
    if (opened.ok()) {
      entry.model = *opened;
      entry.state = ModelState::ready;
      entry.last_use = now;
      entry.n_failures = 0;
      entry.error.reset();
      if (entry.unload_after_load || is_draining) attempt([&] { retire(entry); });
    } else {
      entry.n_bytes = 0;
      note_failure(entry, opened.error());
    }
    finished.splice(finished.end(), entry.loader);
    changed.notify_all();
  }
  if (opened.ok()) attempt([&] { prefetch((*opened)->engine().model().plan()); });
  // The last one gets this thread's own handle: with it the model would look busy until the thread has ended.
  for (Ready& ready : waiters) {
    attempt([&] {
      if (!opened.ok()) return ready(opened.error());
      ready(&ready == &waiters.back() ? ModelHandle(std::move(*opened)) : ModelHandle(*opened));
    });
  }
}

// Room for the file before it is opened, so that the plan finds the memory free; then for what the plan asks for.
Result<std::shared_ptr<ReadyModel>> ModelRegistry::State::open_in_room(Entry& entry) try {
  std::unique_lock lock(mutex);
  entry.home = likely_home;
  const uint64_t budget = budgets[entry.home];  // beyond it weights are streamed
  TRY(make_room(lock, entry, budget != 0 ? std::min(budget, entry.source.file_bytes) : entry.source.file_bytes));
  lock.unlock();
  std::shared_ptr<ReadyModel> model = TRY(open(entry));
  lock.lock();
  auto has_room = make_room(lock, entry, model->engine().memory_bill().total());
  if (has_room.ok()) entry.source.facts = model->facts();
  lock.unlock();
  TRY(std::move(has_room));
  return model;
} catch (const std::bad_alloc&) {
  return Error{ErrorCode::out_of_memory, kNoMemory};
}

// Its home is known now; what models may take there altogether.
uint64_t ModelRegistry::State::settle(Entry& entry, const Model& model) {
  const std::lock_guard lock(mutex);
  entry.home = likely_home = home_of(model);
  uint64_t& budget = budgets[entry.home];
  const bool is_alone = used_bytes(entry.home) == entry.n_bytes;
  if (options.memory_budget == 0 && entry.home == ModelHome::gpu && (budget == 0 || is_alone)) {
    budget = model.plan().budget_bytes().value_or(0);
  }
  return budget;
}

Result<std::unique_ptr<ReadyModel>> ModelRegistry::State::open(Entry& entry) {
  ModelOptions model_options = options.model;
  model_options.pass = Engine::pass_size(options.engine);
  auto model = TRY(Model::open(entry.source.path, model_options));
  EngineOptions engine_options = options.engine;
  const uint64_t budget = settle(entry, *model);
  if (engine_options.max_bytes == 0) engine_options.max_bytes = budget;
  std::unique_ptr<ReadyModel> ready(new ReadyModel);
  ready->name_ = entry.source.name;
  ready->facts_ = read_model_facts(model->file());
  ready->engine_ = TRY(Engine::create(std::move(model), engine_options));
  ready->chat_template_ = TRY(usable_template(ready->engine_->model().file().metadata(), ready->tokenizer()));
  return ready;
}

// Promises the entry so much memory as soon as it is free. Who was idle the longest leaves for it; who is busy is
// waited for, but not for ever.
Result<void> ModelRegistry::State::make_room(std::unique_lock<std::mutex>& lock, Entry& entry, uint64_t n_bytes) {
  const ModelHome home = entry.home;
  const uint64_t budget = budgets[home];
  const auto refuse = [&](std::string fact) {
    return Error{ErrorCode::out_of_memory,
                 fmt::format("registry: model '{}': {} needed, {}", entry.source.name, format_bytes(n_bytes), fact)};
  };
  if (budget != 0 && n_bytes > budget) return refuse(fmt::format("{} allowed for all models", format_bytes(budget)));
  entry.n_bytes = 0;
  for (const TimePoint give_up_at = options.clock() + options.load_wait;; changed.wait_for(lock, kTick)) {
    if (is_draining) return draining();
    if (budget == 0 || used_bytes(home) + n_bytes <= budget) break;
    while (used_bytes(home) - leaving_bytes(home) + n_bytes > budget) {
      Entry* idle = longest_idle(home);
      if (idle == nullptr) break;
      retire(*idle);
    }
    if (options.clock() >= give_up_at) {
      return refuse(
          fmt::format("others hold {} of {} and are busy", format_bytes(used_bytes(home)), format_bytes(budget)));
    }
  }
  entry.n_bytes = n_bytes;
  return {};
}

void ModelRegistry::State::retire(Entry& entry) {
  retired.emplace_back() = {std::move(entry.model), entry.home, std::exchange(entry.n_bytes, 0)};
  entry.state = ModelState::unloaded;
  changed.notify_all();
}

void ModelRegistry::State::note_failure(Entry& entry, const Error& error) {
  entry.state = ModelState::failed;
  entry.error = Error{ErrorCode::out_of_memory, kNoMemory};
  attempt([&] { entry.error = error; });
  const Duration pause = options.retry_pause * (1 << std::min(entry.n_failures++, 16u));
  entry.retry_at = options.clock() + std::min(kLongestPause, pause);
}

// An engine whose device has failed for good refuses everything: what it holds is given back, and a later load may find
// the device well again, or another one.
void ModelRegistry::State::retire_dead(Entry& entry) {
  if (entry.state != ModelState::ready) return;
  const auto death = entry.model->engine().death();
  if (!death) return;
  retire(entry);
  note_failure(entry, *death);
}

ModelRegistry::State::Entry* ModelRegistry::State::longest_idle(ModelHome home) const {
  Entry* found = nullptr;
  for (const auto& entry : entries) {
    if (entry->state != ModelState::ready || entry->home != home) continue;
    if (entry->source.is_pinned || is_busy(entry->model)) continue;
    if (found == nullptr || entry->last_use < found->last_use) found = entry.get();
  }
  return found;
}

// Of models that are unloaded and not quite gone.
uint64_t ModelRegistry::State::leaving_bytes(ModelHome home) const {
  uint64_t n_bytes = ending_bytes[home];
  for (const Retired& model : retired) n_bytes += model.home == home ? model.n_bytes : 0;
  return n_bytes;
}

uint64_t ModelRegistry::State::used_bytes(ModelHome home) const {
  uint64_t n_bytes = leaving_bytes(home);
  for (const auto& entry : entries) n_bytes += entry->home == home ? entry->n_bytes : 0;
  return n_bytes;
}

void ModelRegistry::State::unload_old(TimePoint now) {
  if (options.ttl == Duration::zero()) return;
  for (const auto& entry : entries) {
    if (entry->state != ModelState::ready || entry->source.is_pinned) continue;
    if (is_busy(entry->model)) {
      entry->last_use = now;
    } else if (std::max(entry->last_use, entry->model->engine().stats().last_progress) + options.ttl <= now) {
      retire(*entry);
    }
  }
}

// How long the keeper may sleep; nothing: until something happens.
std::optional<Duration> ModelRegistry::State::next_look() const {
  if (!finished.empty()) return Duration::zero();
  if (!retired.empty()) return kTick;
  const bool is_aging = std::ranges::any_of(
      entries, [](const auto& entry) { return entry->state == ModelState::ready && !entry->source.is_pinned; });
  if (options.ttl == Duration::zero() || !is_aging) return std::nullopt;
  return std::clamp<Duration>(options.ttl / 4, kTick, std::chrono::seconds(1));
}

// Joins threads and ends models outside the lock: both may take a moment.
void ModelRegistry::State::clean_up() {
  std::list<std::thread> threads;
  std::list<Retired> unused;
  {
    const std::lock_guard lock(mutex);
    threads.swap(finished);
    for (auto at = retired.begin(); at != retired.end();) {
      const auto one = at++;
      if (is_busy(one->model)) continue;
      ending_bytes[one->home] += one->n_bytes;
      unused.splice(unused.end(), retired, one);
    }
  }
  for (std::thread& thread : threads) thread.join();
  const size_t n_ended = unused.size();
  unused.clear();
  const std::lock_guard lock(mutex);
  ending_bytes = {};
  if (n_ended > 0) changed.notify_all();
}

void ModelRegistry::State::keep() {
  while (true) {
    clean_up();
    std::unique_lock lock(mutex);
    if (is_stopping) return;
    attempt([&] { unload_old(options.clock()); });
    if (const auto pause = next_look()) {
      changed.wait_for(lock, *pause);
    } else {
      changed.wait(lock);
    }
  }
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
  for (const Source& source : state->options.models) {
    if (state->find(source.name) != nullptr) {
      return Error{ErrorCode::invalid_argument, fmt::format("registry: two models are called '{}'", source.name)};
    }
    auto entry = std::make_unique<State::Entry>();
    entry->source = source;
    struct stat file{};
    if (source.file_bytes == 0 && ::stat(source.path.c_str(), &file) == 0) {
      entry->source.file_bytes = static_cast<uint64_t>(file.st_size);
      entry->source.modified_seconds = file.st_mtime;
    }
    state->entries.push_back(std::move(entry));
  }
  state->keeper = std::thread([s = state.get()] { s->keep(); });
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
                      .load_seconds = entry->load_seconds,
                      .n_loads = entry->n_loads});
      models.push_back(entry->model);
    }
  }
  for (size_t i = 0; i < list.size(); i++) {
    if (models[i]) list[i].engine = models[i]->engine().stats();
  }
  return list;
}

const std::string& ModelRegistry::default_name() const {
  return state_->entries.front()->source.name;
}

void ModelRegistry::acquire(std::string_view name, Ready ready) {
  const auto now = [&]() -> std::optional<Result<ModelHandle>> {
    const std::lock_guard lock(state_->mutex);
    State::Entry* entry = state_->find(name);
    if (entry == nullptr) return Result<ModelHandle>(not_found(name));
    if (state_->is_draining) return Result<ModelHandle>(draining());
    state_->retire_dead(*entry);
    if (entry->state == ModelState::ready) {
      entry->last_use = state_->options.clock();
      return Result<ModelHandle>(ModelHandle(entry->model));
    }
    if (entry->state == ModelState::failed && state_->options.clock() < entry->retry_at) {
      return Result<ModelHandle>(*entry->error);
    }
    entry->waiters.push_back(std::move(ready));
    if (entry->state != ModelState::loading) state_->begin_load(*entry);
    return std::nullopt;
  }();
  if (now) ready(std::move(*now));
}

Result<ModelState> ModelRegistry::load(std::string_view name) {
  const std::lock_guard lock(state_->mutex);
  State::Entry* entry = state_->find(name);
  if (entry == nullptr) return not_found(name);
  if (state_->is_draining) return draining();
  state_->retire_dead(*entry);
  const ModelState found = entry->state;
  switch (found) {
    case ModelState::ready:
    case ModelState::loading:
      return found;
    case ModelState::failed:  // who asks for it by name wants it tried now
    case ModelState::unloaded:
      state_->begin_load(*entry);
      return found;
  }
  RF_UNREACHABLE("a ModelState outside its enum");
}

Result<ModelState> ModelRegistry::unload(std::string_view name) {
  const std::lock_guard lock(state_->mutex);
  State::Entry* entry = state_->find(name);
  if (entry == nullptr) return not_found(name);
  const ModelState found = entry->state;
  if (found == ModelState::ready) state_->retire(*entry);
  if (found == ModelState::loading) entry->unload_after_load = true;
  return found;
}

void ModelRegistry::begin_drain() {
  std::vector<Ready> waiters;
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_draining = true;
    for (const auto& entry : state_->entries) {
      for (Ready& ready : entry->waiters) waiters.push_back(std::move(ready));
      entry->waiters.clear();
    }
    state_->changed.notify_all();
  }
  for (const auto& model : state_->models()) model->engine().begin_drain();
  for (Ready& ready : waiters) ready(draining());
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

void ModelRegistry::stop(const Error& to_the_rest) {
  std::call_once(state_->stopped, [&] {
    begin_drain();
    for (const auto& model : state_->models()) model->engine().stop(to_the_rest);
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
    for (const auto& model : state_->models()) model->engine().stop(to_the_rest);
    const std::lock_guard lock(state_->mutex);
    for (const auto& entry : state_->entries) entry->model.reset();
    state_->retired.clear();
  });
}

}  // namespace rocmforge
