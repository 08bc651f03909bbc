#pragma once
// Models by name, loaded when somebody asks and unloaded when nobody does.
//
//   unloaded --acquire, load--> loading --> ready --ttl, memory, unload--> unloaded
//                                  |          |
//                                  +--> failed <--+ its device has failed for good
//
// One that failed is tried again by the next acquire, at the earliest after a pause that doubles with each failed load.
//
// Single flight: any number of acquires of one name cause one load. Loads of different models run side by side and
// never hold up a model that is ready. To be loaded means opened, planned and checked; the weights stream in with the
// first request. A model that needs memory takes it from the one that was idle the longest.
//
// Threads: everything may be called from any thread and does not block, except stop() and the destructor.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "chat/model_format.h"
#include "engine/engine.h"
#include "engine/model.h"
#include "engine/model_facts.h"
#include "grammar/vocabulary_constraints.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

// A model ready for requests. While a handle lives, the model stays.
class ReadyModel {
 public:
  Engine& engine() const { return *engine_; }
  const tokenizer::Tokenizer& tokenizer() const { return engine_->tokenizer(); }
  const tokenizer::ChatTemplate& chat_template() const { return *chat_template_; }
  const chat::ModelFormat& tool_format() const { return tool_format_; }
  const ModelFacts& facts() const { return facts_; }
  const std::string& name() const { return name_; }
  grammar::VocabularyConstraints& constraints() const { return *constraints_; }

 private:
  friend class ModelRegistry;
  std::string name_;
  ModelFacts facts_;
  std::unique_ptr<Engine> engine_;
  std::optional<tokenizer::ChatTemplate> chat_template_;
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
  EngineStats counts = {};                 // of this engine and of those before it: a reload starts no count anew
  std::string device = {};                 // that computes, when ready
  double load_seconds = 0;                 // of the last load
  uint64_t n_loads = 0;                    // begun
};

class ModelRegistry {
 public:
  struct Source {
    std::string name;
    std::string path;
    bool is_pinned = false;  // never unloaded for age or memory
    // What is known of the file already (engine/model_list.h); size and time are looked up where they are not.
    uint64_t file_bytes = 0;
    int64_t modified_seconds = 0;
    std::optional<ModelFacts> facts = {};
  };
  struct Options {
    std::vector<Source> models;
    ModelOptions model;  // for every model
    EngineOptions engine;
    std::string tool_format = {};  // of every model, whatever its template says; empty: as the template says
    Duration ttl{};                // unloaded after this long without a request; 0: never
    // Of the models in one memory together, the machine's or the GPU's, by their memory bills. 0: what a model alone
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
  // The name of the only model, or of the first: what a request that names none means.
  std::string default_name() const;

  // Makes `models` the list, while requests go on: for files that came, changed or went since create().
  //   added    names that are new; they stand behind the others
  //   changed  names whose path, size or time is another: a model that is ready finishes its requests, and the next
  //            request opens the new file
  //   dropped  names that are not in `models`: requests that run end as usual, new ones get model_not_found
  // A model that is just being loaded is left as it is: call again later. Pins stay. When the default is dropped, the
  // next in the list is the default. invalid_argument: as for create(), and nothing is changed.
  struct ListChange {
    std::vector<std::string> added, changed, dropped;
  };
  Result<ListChange> reload_list(std::vector<Source> models);

  // Calls `ready` exactly once, here or on another thread: with the model, or model_not_found, draining, no_thread,
  // out_of_memory or what made the load or the device fail.
  using Ready = std::function<void(Result<ModelHandle>)>;
  void acquire(std::string_view name, Ready ready);

  // Both tell the state that they found.
  // Begins a load where there is none; list() shows how far it is. model_not_found, draining, no_thread
  Result<ModelState> load(std::string_view name);
  // Unloads as soon as its requests have ended; new ones load it again. model_not_found
  Result<ModelState> unload(std::string_view name);

  // Waiting acquires end (draining), new ones are refused, engines drain.
  void begin_drain();
  // No request in any engine.
  bool is_idle() const;
  // Ends what is left with this error and unloads everything.
  void stop(const Error& to_the_rest);

 private:
  struct State;
  explicit ModelRegistry(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rocmforge
