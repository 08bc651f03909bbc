#pragma once
// The registry's insides, shared by registry.cpp (what callers ask for), registry_load.cpp (the loaders' threads),
// registry_room.cpp (memory and who leaves for it) and registry_keeper.cpp (the keeper's thread).
//
// Threads: `mutex` guards everything but the options. A loader holds a reference to its entry, so an entry that loads
// is never removed.

#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/attempt.h"
#include "engine/model_home.h"
#include "engine/registry.h"

namespace rocmforge {

inline constexpr const char* kNoMemory = "out of memory";         // short enough to need none itself
inline constexpr Duration kTick = std::chrono::milliseconds(20);  // where something must be looked at again

Error registry_draining();

// With the file's size and time, where the caller did not know them.
ModelRegistry::Source complete(ModelRegistry::Source source);

struct ModelRegistry::State {
  struct Entry {
    Source source;
    ModelState state = ModelState::unloaded;
    std::shared_ptr<ReadyModel> model = {};  // when ready
    ModelHome home = ModelHome::machine;     // known once it is opened, guessed before
    uint64_t n_bytes = 0;                    // that it holds there or is promised, by its memory bill
    uint64_t held_bytes = 0;                 // by the program and others, when it was opened: no part of its own
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
    std::string name;
    std::shared_ptr<ReadyModel> model;
    ModelHome home = ModelHome::machine;
    uint64_t n_bytes = 0;
  };

  explicit State(Options o);

  Options options;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<Entry>> entries;  // at least one; the first is the default
  std::list<Retired> retired;
  std::map<std::string, EngineStats, std::less<>> ended;  // what engines counted that are gone, by model
  BytesByHome budgets;                                    // of all models together; 0: no limit is known yet
  uint64_t program_bytes = 0;                             // of ram_bytes, what the process holds beside the models
  ModelHome likely_home;                                  // the last one's
  BytesByHome ending_bytes;                               // of models whose destructors run
  std::list<std::thread> finished;                        // loaders that are about to end
  bool has_opened = false;                                // a model, or tried to
  bool is_draining = false, is_stopping = false;
  std::atomic<bool> stop_loads = false;  // set when the drain begins: nobody waits for a load from then on
  std::thread keeper;
  std::once_flag stopped;

  Entry* find(std::string_view name) const;
  void measure_program();  // REQUIRES: no model has been opened
  static bool is_busy(const std::shared_ptr<ReadyModel>& model) {
    return model.use_count() > 1 || !model->engine().is_idle();
  }
  Result<void> begin_load(Entry& entry);                         // REQUIRED of this and what follows: the lock is held
  void retire(Entry& entry, std::string_view reason = "other");  // for the log
  void note_failure(Entry& entry, const Error& error);
  void retire_dead(Entry& entry);
  Entry* longest_idle(ModelHome home) const;
  uint64_t leaving_bytes(ModelHome home) const;
  uint64_t used_bytes(ModelHome home) const;
  uint64_t bytes_of_others(const Entry& entry) const;  // at its home
  Result<void> make_room(std::unique_lock<std::mutex>& lock, Entry& entry, uint64_t n_bytes);
  bool await_more_room(std::unique_lock<std::mutex>& lock, const Entry& entry, uint64_t n_before, TimePoint give_up_at);
  void unload_old(TimePoint now);
  std::optional<Duration> next_look() const;

  void load(Entry& entry);  // the loader's thread
  Result<std::shared_ptr<ReadyModel>> open_in_room(Entry& entry);
  uint64_t settle(Entry& entry, const Model& model);
  Result<std::unique_ptr<ReadyModel>> open(Entry& entry);
  bool is_cramped(const Engine& engine) const;
  void keep();  // the keeper's
  void clean_up();
  std::vector<std::shared_ptr<ReadyModel>> models() const;
};

}  // namespace rocmforge
