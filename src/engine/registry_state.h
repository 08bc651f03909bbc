#pragma once
// The state of a ModelRegistry, shared by registry.cpp (the public functions), registry_load.cpp (the loader threads),
// registry_room.cpp (memory, and which model is unloaded for another) and registry_keeper.cpp (the keeper's thread).
//
// Threads: `mutex` guards every member but the options. A loader holds a reference to its entry, so the entry of a
// loading model is never removed.

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
inline constexpr Duration kTick = std::chrono::milliseconds(20);  // interval of polling

Error registry_draining();

// With the file's size and time, where the caller did not know them.
ModelRegistry::Source complete(ModelRegistry::Source source);

struct ModelRegistry::State {
  struct Entry {
    Source source;
    ModelState state = ModelState::unloaded;
    std::shared_ptr<ReadyModel> model = {};  // when ready
    ModelHome home = ModelHome::machine;     // known once it is opened, guessed before
    uint64_t n_bytes = 0;                    // of its memory bill: held or promised
    uint64_t held_bytes = 0;                 // held by the program and the other models when this one was opened
    TimePoint load_began{}, last_use{}, retry_at{};
    double load_seconds = 0;
    uint64_t n_loads = 0;
    uint32_t n_failures = 0;  // in a row
    std::optional<Error> error = {};
    std::optional<Duration> ttl = {};  // nothing: the options'
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
  std::map<std::string, EngineStats, std::less<>> ended;  // counts of ended engines, by model
  BytesByHome budgets;                                    // of all models together; 0: no limit is known yet
  uint64_t program_bytes = 0;                             // part of ram_bytes that the process holds without models
  ModelHome likely_home;                                  // the last one's
  BytesByHome ending_bytes;                               // of models whose destructors are running
  std::list<std::thread> finished;                        // loaders that are about to end
  bool has_opened = false;                                // a model, or tried to
  bool is_draining = false, is_stopping = false;
  std::atomic<bool> stop_loads = false;  // set when the drain begins
  std::thread keeper;
  std::once_flag stopped;

  Entry* find(std::string_view name) const;
  void measure_program();  // REQUIRES: no model has been opened
  static bool is_busy(const std::shared_ptr<ReadyModel>& model) {
    return model.use_count() > 1 || !model->engine().is_idle();
  }
  Result<void> begin_load(Entry& entry);                         // REQUIRED from here to next_look(): the lock is held
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
  // After how long without a request it is unloaded; nothing: never.
  std::optional<Duration> ttl_of(const Entry& entry) const;
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
