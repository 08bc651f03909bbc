#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/thread.h"
#include "chat/chat_vocabulary.h"
#include "chat/usable_template.h"
#include "engine/registry_state.h"

namespace rocmforge {
namespace {

constexpr Duration kLongestPause = std::chrono::minutes(1);
// With several models the cache of one leaves half of the free memory to the next.
constexpr uint32_t kSharedKvPercent = 50;

std::string_view name_of(chat::ChatTemplate::Source source) {
  switch (source) {
    case chat::ChatTemplate::Source::given:
      return "given, or one that says that its own is unusable";
    case chat::ChatTemplate::Source::model:
      return "own";
    case chat::ChatTemplate::Source::chatml:
      return "none, chatml is used";
    case chat::ChatTemplate::Source::plain:
      return "none, plain text is used";
  }
  RF_UNREACHABLE("a Source outside its enum");
}

void log_load(const std::string& name, double load_seconds, const Result<std::shared_ptr<ReadyModel>>& opened) {
  if (!opened.ok()) {
    const LogField fields[] = {{"model", name}, {"seconds", load_seconds}, {"error", opened.error().message}};
    const bool is_drain = opened.error().code == ErrorCode::draining ||
                          opened.error().code == ErrorCode::cancelled;  // nobody waits for it any more
    return log_event(is_drain ? LogLevel::info : LogLevel::error, "model failed to load", fields);
  }
  const LogField fields[] = {{"model", name},
                             {"seconds", load_seconds},
                             {"bytes", (*opened)->engine().memory_bill().total()},
                             {"kv_tokens", uint64_t{(*opened)->engine().n_kv_tokens()}},
                             {"chat_template", name_of((*opened)->chat_template().source())},
                             {"device", (*opened)->engine().model().backend().name()},
                             {"tool_format", (*opened)->facts().tool_format},
                             {"tool_format_by", (*opened)->facts().tool_format_by}};
  log_event(LogLevel::info, "model loaded", fields);
}

}  // namespace

// A load that has no thread has failed like one that found no memory.
Result<void> ModelRegistry::State::begin_load(Entry& entry) {
  entry.loader.emplace_back();
  auto thread = start_thread([this, &entry] { load(entry); });  // it waits for the lock
  if (!thread.ok()) {
    entry.loader.clear();
    note_failure(entry, thread.error());
    return std::move(thread).error();
  }
  entry.loader.back() = std::move(*thread);
  entry.state = ModelState::loading;
  entry.load_began = options.clock();
  entry.n_loads++;
  entry.unload_after_load = false;
  return {};
}

void ModelRegistry::State::load(Entry& entry) {
  auto opened = open_in_room(entry);
  std::vector<Ready> waiters;
  {
    const std::lock_guard lock(mutex);
    const TimePoint now = options.clock();
    entry.load_seconds = seconds(now - entry.load_began);
    waiters.swap(entry.waiters);
    attempt([&] { log_load(entry.source.name, entry.load_seconds, opened); });
    if (opened.ok()) {
      entry.model = *opened;
      entry.state = ModelState::ready;
      entry.last_use = now;
      entry.n_failures = 0;
      entry.error.reset();
      if (entry.unload_after_load || is_draining) attempt([&] { retire(entry, is_draining ? "drain" : "unload"); });
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

// Room for the file before it is opened, so that the plan finds the memory free; then for what the plan asks for. A
// model that does not fit, or fits with weights that stream or without room for one whole context, takes the memory of
// those who are idle: the longest idle first, one at a time.
Result<std::shared_ptr<ReadyModel>> ModelRegistry::State::open_in_room(Entry& entry) try {
  std::unique_lock lock(mutex);
  for (const TimePoint give_up_at = options.clock() + options.load_wait;;) {
    entry.home = likely_home;
    const uint64_t budget = budgets[entry.home];  // beyond it weights are streamed
    TRY(make_room(lock, entry, budget != 0 ? std::min(budget, entry.source.file_bytes) : entry.source.file_bytes));
    const ModelHome home = entry.home;
    const uint64_t n_before = bytes_of_others(entry);
    lock.unlock();
    auto opened = open(entry);
    lock.lock();
    const bool has_failed = !opened.ok();
    if (has_failed && opened.error().code != ErrorCode::out_of_memory) return std::move(opened).error();
    const bool may_leave = longest_idle(entry.home) != nullptr || leaving_bytes(entry.home) > 0;
    // What was leaving while the file was opened may have left since.
    const uint64_t n_others = entry.home == home ? n_before : bytes_of_others(entry);
    if ((has_failed || (may_leave && is_cramped((*opened)->engine()))) &&
        await_more_room(lock, entry, n_others, give_up_at)) {
      lock.unlock();  // what was opened ends outside the lock
      opened = Error{ErrorCode::cancelled, {}};
      lock.lock();
      continue;
    }
    std::shared_ptr<ReadyModel> model = TRY(std::move(opened));
    const MemoryBill bill = model->engine().memory_bill();
    auto has_room = make_room(lock, entry, bill.total() - std::min(bill.held_bytes, entry.held_bytes));
    if (has_room.ok()) entry.source.facts = model->facts();
    lock.unlock();
    TRY(std::move(has_room));
    return model;
  }
} catch (const std::exception& exception) {
  return error_of(exception);
}

// Weights stream, or one sequence cannot have its whole context.
bool ModelRegistry::State::is_cramped(const Engine& engine) const {
  const ExecutionPlan& plan = engine.model().plan();
  if (!plan.streamed_stages().empty() || plan.weights().experts_move()) return true;
  return options.engine.n_kv_tokens == 0 && engine.n_context() < plan.n_context();
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
  model_options.control = LoadControl(&stop_loads);
  EngineOptions engine_options = options.engine;
  const auto of_others = [&](ModelHome home) { return used_bytes(home) - (entry.home == home ? entry.n_bytes : 0); };
  {
    const std::lock_guard lock(mutex);
    if (!std::exchange(has_opened, true)) measure_program();
    entry.held_bytes = program_bytes + of_others(ModelHome::machine);
    model_options.held_bytes = entry.held_bytes;
    if (auto& vram = model_options.vram_bytes) *vram -= std::min(*vram, of_others(ModelHome::gpu));
    if (entries.size() > 1) engine_options.kv_percent = kSharedKvPercent;
  }
  auto model = TRY(Model::open(entry.source.path, model_options));
  if (!model->gpu_refusal().empty()) {
    log(LogLevel::warn, "{}: the CPU is used: {}", entry.source.name, model->gpu_refusal());
  }
  const uint64_t budget = settle(entry, *model);
  if (engine_options.max_bytes == 0 && budget != 0) {
    const std::lock_guard lock(mutex);
    engine_options.max_bytes = std::max<uint64_t>(1, budget - std::min(budget, of_others(entry.home)));
  }
  std::unique_ptr<ReadyModel> ready(new ReadyModel);
  ready->name_ = entry.source.name;
  ready->facts_ = read_model_facts(model->file());
  ready->engine_ = TRY(Engine::create(std::move(model), engine_options));
  const gguf::Metadata& metadata = ready->engine_->model().file().metadata();
  ready->chat_template_ =
      TRY(options.chat_template.empty()
              ? chat::usable_template(metadata, ready->tokenizer(), model_options.control)
              : chat::ChatTemplate::load(metadata, chat::chat_vocabulary(ready->tokenizer()),
                                         {.text = options.chat_template, .name = {}}, {}, model_options.control));
  ready->tool_format_ = TRY(
      chat::find_model_format(*ready->chat_template_, ready->tokenizer(), options.tool_format, model_options.control));
  ready->facts_.tool_format = ready->tool_format_.format->name;
  ready->facts_.tool_format_by = chat::name_of(ready->tool_format_.found_by);
  ready->constraints_ = std::make_unique<grammar::VocabularyConstraints>(ready->tokenizer());
  return ready;
}

void ModelRegistry::State::note_failure(Entry& entry, const Error& error) {
  entry.state = ModelState::failed;
  entry.error = Error{ErrorCode::out_of_memory, kNoMemory};
  attempt([&] { entry.error = error; });
  const Duration pause = options.retry_pause * (1 << std::min(entry.n_failures++, 16u));
  entry.retry_at = options.clock() + std::min(kLongestPause, pause);
}

// A dead engine refuses everything: what it holds is given back, and a later load may find the device well again, or
// another one. Where the file has changed under a model, the next request opens the new one.
void ModelRegistry::State::retire_dead(Entry& entry) {
  if (entry.state != ModelState::ready) return;
  const auto death = entry.model->engine().death();
  if (!death) return;
  retire(entry, error_name(death->code));
  note_failure(entry, *death);
  if (death->code == ErrorCode::file_changed || death->code == ErrorCode::file_truncated ||
      death->code == ErrorCode::file_not_found) {
    entry.retry_at = {};
    entry.n_failures = 0;
    entry.source.file_bytes = 0;
    entry.source = complete(std::move(entry.source));
  }
}

}  // namespace rocmforge
