#include <algorithm>

#include "engine/registry_state.h"

namespace rocmforge {

std::optional<Duration> ModelRegistry::State::ttl_of(const Entry& entry) const {
  if (entry.state != ModelState::ready || entry.source.is_pinned) return std::nullopt;
  const Duration ttl = entry.ttl.value_or(options.ttl == Duration::zero() ? Duration::max() : options.ttl);
  return ttl == Duration::max() ? std::nullopt : std::optional(ttl);
}

void ModelRegistry::State::unload_old(TimePoint now) {
  for (const auto& entry : entries) {
    const std::optional<Duration> ttl = ttl_of(*entry);
    if (!ttl) continue;
    if (is_busy(entry->model)) {
      entry->last_use = now;
    } else if (std::max(entry->last_use, entry->model->engine().stats().last_progress) + *ttl <= now) {
      retire(*entry, "ttl");
    }
  }
}

// How long the keeper may sleep; nothing: until something happens.
std::optional<Duration> ModelRegistry::State::next_look() const {
  if (!finished.empty()) return Duration::zero();
  if (!retired.empty()) return kTick;
  std::optional<Duration> shortest;
  for (const auto& entry : entries) {
    const std::optional<Duration> ttl = ttl_of(*entry);
    if (ttl && (!shortest || *ttl < *shortest)) shortest = ttl;
  }
  if (!shortest) return std::nullopt;
  return std::clamp<Duration>(*shortest / 4, kTick, std::chrono::seconds(1));
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
      attempt([&] { ended[one->name].add_counts(one->model->engine().stats()); });
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

}  // namespace rocmforge
