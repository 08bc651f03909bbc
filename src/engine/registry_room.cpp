#include <fmt/core.h>

#include <algorithm>

#include "base/log.h"
#include "base/units.h"
#include "cpu/memory.h"
#include "engine/registry_state.h"

namespace rocmforge {

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
    if (is_draining) return registry_draining();
    if (budget == 0 || used_bytes(home) + n_bytes <= budget) break;
    while (used_bytes(home) - leaving_bytes(home) + n_bytes > budget) {
      Entry* idle = longest_idle(home);
      if (idle == nullptr) break;
      retire(*idle, "memory");
    }
    if (options.clock() >= give_up_at) {
      return refuse(
          fmt::format("others hold {} of {} and are busy", format_bytes(used_bytes(home)), format_bytes(budget)));
    }
  }
  entry.n_bytes = n_bytes;
  return {};
}

// Others hold less at the entry's home than `n_before`: who is idle leaves, who is busy is waited for. False: nobody is
// there who could leave, or it takes too long.
bool ModelRegistry::State::await_more_room(std::unique_lock<std::mutex>& lock, const Entry& entry, uint64_t n_before,
                                           TimePoint give_up_at) {
  if (bytes_of_others(entry) < n_before) return true;
  const bool may_leave =
      leaving_bytes(entry.home) > 0 || std::ranges::any_of(entries, [&](const auto& other) {
        return other.get() != &entry && other->home == entry.home && other->n_bytes > 0 && !other->source.is_pinned;
      });
  if (!may_leave) return false;
  bool has_retired = false;
  for (; !is_draining && options.clock() < give_up_at; changed.wait_for(lock, kTick)) {
    if (bytes_of_others(entry) < n_before) return true;
    if (has_retired) continue;
    if (Entry* idle = longest_idle(entry.home)) {
      retire(*idle, "memory");
      has_retired = true;
    }
  }
  return false;
}

// Of --ram, what the process takes before any model; the rest is the models'. Measured until the first model is opened
// and kept from then on: a limit that held a model once holds it again, though the program grows a little as it runs.
void ModelRegistry::State::measure_program() {
  if (!options.model.ram_bytes) return;
  program_bytes = cpu::held_memory();
  const uint64_t ram = *options.model.ram_bytes;
  if (options.memory_budget == 0) {
    budgets[ModelHome::machine] = std::max<uint64_t>(1, ram - std::min(ram, program_bytes));
  }
}

void ModelRegistry::State::retire(Entry& entry, std::string_view reason) {
  attempt([&] {
    const LogField fields[] = {{"model", entry.source.name}, {"reason", reason}};
    log_event(LogLevel::info, "model unloaded", fields);
  });
  retired.emplace_back() = {entry.source.name, std::move(entry.model), entry.home, std::exchange(entry.n_bytes, 0)};
  entry.state = ModelState::unloaded;
  changed.notify_all();
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

uint64_t ModelRegistry::State::bytes_of_others(const Entry& entry) const {
  return used_bytes(entry.home) - entry.n_bytes;
}

uint64_t ModelRegistry::State::used_bytes(ModelHome home) const {
  uint64_t n_bytes = leaving_bytes(home);
  for (const auto& entry : entries) n_bytes += entry->home == home ? entry->n_bytes : 0;
  return n_bytes;
}

}  // namespace rocmforge
