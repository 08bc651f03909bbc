#pragma once
// Models by name: loaded on request, unloaded when idle.
//
//   unloaded --acquire, load--> loading --> ready --ttl, memory, unload--> unloaded
//                                  |          |
//                                  +--> failed <--+ the device has failed for good
//
// The next acquire loads a failed model again, but not before a pause that doubles with each failed load.
//
// Single flight: any number of acquires of one name cause one load. Loads of different models run concurrently and
// never delay a ready model. A loaded model is opened, planned and checked; its weights are read with the first
// request. When memory is short, the model that was idle the longest is unloaded.
//
// Threads: any thread may call any member. Only stop() and the destructor block.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "chat/chat_template.h"
#include "chat/model_format.h"
#include "engine/engine.h"
#include "engine/model.h"
#include "engine/model_facts.h"
#include "grammar/vocabulary_constraints.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

// A model ready for requests. While a handle lives, the model stays.
class ReadyModel {
 public:
  Engine& engine() const { return *engine_; }
  const tokenizer::Tokenizer& tokenizer() const { return engine_->tokenizer(); }
  const chat::ChatTemplate& chat_template() const { return *chat_template_; }
  const chat::ModelFormat& tool_format() const { return tool_format_; }
  const ModelFacts& facts() const { return facts_; }
  const std::string& name() const { return name_; }
  grammar::VocabularyConstraints& constraints() const { return *constraints_; }

 private:
  friend class ModelRegistry;
  std::string name_;
  ModelFacts facts_;
  std::unique_ptr<Engine> engine_;
  std::optional<chat::ChatTemplate> chat_template_;
  chat::ModelFormat tool_format_;
  std::unique_ptr<grammar::VocabularyConstraints> constraints_;
};
using ModelHandle = std::shared_ptr<const ReadyModel>;

enum class ModelState : uint8_t { unloaded, loading, ready, failed };

struct ModelEntry {
  std::string name;
  std::string path;
  uint64_t file_bytes = 0;
  int64_t modified_seconds = 0;  // since 1970
  ModelState state = ModelState::unloaded;
  bool is_pinned = false;
  std::optional<Error> error = {};         // of the last load, or of the device, when failed
  std::optional<ModelFacts> facts = {};    // once it was loaded or listed
  std::optional<EngineStats> engine = {};  // when ready; its `loading` tells how far the weights are
  EngineStats counts = {};                 // of this engine and the earlier ones: a reload resets no counter
  std::string device = {};                 // in use, when ready
  double load_seconds = 0;                 // of the last load
  uint64_t n_loads = 0;                    // begun
};

class ModelRegistry {
 public:
  struct Source {
    std::string name;
    std::string path;
    bool is_pinned = false;  // never unloaded for age or memory
    // Known facts of the file (engine/model_list.h). Size and time are looked up if they are 0.
    uint64_t file_bytes = 0;
    int64_t modified_seconds = 0;
    std::optional<ModelFacts> facts = {};
  };
  struct Options {
    std::vector<Source> models;
    ModelOptions model;  // for every model
    EngineOptions engine;
    std::string chat_template = {};  // of every model instead of its own; empty: its own
    std::string tool_format = {};    // of every model, whatever its template says; empty: as the template says
    Duration ttl{};                  // unloaded after this long without a request; 0: never
    // Limit on the memory bills of all models in the machine's memory, and of all in the GPU's. 0: what a single model
    // may take there.
    uint64_t memory_budget = 0;
    Duration load_wait = std::chrono::seconds(60);   // how long a load waits for memory that busy models hold
    Duration retry_pause = std::chrono::seconds(1);  // after a failed load; doubles up to a minute
    Clock clock = system_clock();
  };
  // invalid_argument: two models of one name, or none. no_thread. Opens nothing.
  static Result<std::unique_ptr<ModelRegistry>> create(Options options);
  ~ModelRegistry();

  std::vector<ModelEntry> list() const;
  // The first model: it answers requests that name no model.
  std::string default_name() const;

  // Replaces the list while requests continue, for files added, changed or removed since create().
  //   added    new names; they stand behind the others
  //   changed  names whose path, size or time is another: a model that is ready finishes its requests, and the next
  //            request opens the new file
  //   dropped  names that are not in `models`: requests that run end as usual, new ones get model_not_found
  // A model that is being loaded stays as it is: call again later. Pins stay. If the default is dropped, the next in
  // the list becomes the default. invalid_argument: as for create(); nothing is changed.
  struct ListChange {
    std::vector<std::string> added, changed, dropped;
  };
  Result<ListChange> reload_list(std::vector<Source> models);

  // Calls `ready` exactly once, on this thread or another: with the model, or model_not_found, draining, no_thread,
  // out_of_memory, or the error of the load or the device.
  using Ready = std::function<void(Result<ModelHandle>)>;
  void acquire(std::string_view name, Ready ready);

  // load() and unload() return the state before the call.
  // Begins a load if none is running; list() shows its progress. model_not_found, draining, no_thread
  Result<ModelState> load(std::string_view name);
  // Unloads the model when its requests have ended; new requests load it again. model_not_found
  Result<ModelState> unload(std::string_view name);

  // From now on the model has its own time without a request after which it is unloaded; Duration::max(): none. A name
  // that is unknown changes nothing.
  void keep(std::string_view name, Duration ttl);

  // Ends waiting acquires and refuses new ones (draining), stops running loads, and drains the engines.
  void begin_drain();
  // No engine has a request.
  bool is_idle() const;
  // Ends all remaining requests with this error and unloads every model.
  void stop(const Error& error);

 private:
  struct State;
  explicit ModelRegistry(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rocmforge
