#pragma once
// The commands that run a model. As in commands.h: options in, results on stdout, an error becomes exit code 1.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/generator.h"
#include "engine/model.h"
#include "engine/sampler.h"
#include "engine/session.h"
#include "plan/backend.h"

namespace rocmforge::apps {

// Flags that every command with an engine takes.
struct EngineFlags {
  std::string model;  // a path or a name; empty: the bundled model
  std::string device = "auto";
  size_t n_threads = 0;
  uint32_t n_context = 0;
  LoadMode load = LoadMode::lazy;
  std::optional<uint64_t> ram_bytes = {};
  std::optional<uint64_t> vram_bytes = {};
  KvType kv_type = KvType::f16;
  std::vector<gguf::Override> overrides;  // of the file's metadata, in their order
  bool fuse = true;                       // false: the plan's own steps, one after the other
  std::string trace;                      // a file for a trace of what the command does; empty: none
};

// What an answer's text must be; at most one of these.
struct ConstraintFlags {
  std::string json_schema, grammar;  // files
  std::string regex;                 // itself
};

struct RunCommand {
  EngineFlags engine;
  SamplingOptions sampling;
  ConstraintFlags constraint;
  std::optional<std::string> prompt;  // nothing else is read then
  std::optional<std::string> text;    // the same; a piped input comes after it
  std::optional<uint64_t> seed;       // none: random
  std::string prompt_file;            // instead of prompt; "-": stdin
  uint32_t n_tokens = 128;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool stats = false;
  bool json = false;
};
Result<void> run(const RunCommand& options);

struct ChatCommand {
  EngineFlags engine;
  SamplingOptions sampling;
  ConstraintFlags constraint;
  std::optional<uint64_t> seed;  // none: random
  std::string system;            // the first instruction; empty: none
  std::string template_file;     // instead of the model's own template; empty: none
  uint32_t n_tokens = 0;         // of an answer; 0: half of what the context has left
};
Result<void> chat(const ChatCommand& options);
// A chat template's text, for ChatTemplateChoice.
Result<std::string> read_chat_template(const std::string& path);

struct LogitsCommand {
  EngineFlags engine;
  std::vector<int32_t> tokens;
  std::vector<uint32_t> positions;  // empty: the last
  bool json = false;
};
Result<void> logits(const LogitsCommand& options);

struct EmbedCommand {
  EngineFlags engine;
  std::vector<int32_t> tokens;     // one text as token ids
  std::vector<std::string> texts;  // neither: a text for each line of `file`
  std::string file;                // "-" or empty: stdin
  std::optional<Pooling> pooling;  // none: as the model's file says
  uint32_t n_dimensions = 0;       // 0: all
  bool raw = false;                // before any normalisation
  bool json = false;
};
Result<void> embed(const EmbedCommand& options);

struct RerankCommand {
  EngineFlags engine;
  std::string query;
  std::vector<std::string> documents;  // none: the lines of `file`
  std::string file;                    // "-" or empty: stdin
  uint32_t n_best = 0;                 // 0: all
  bool raw = false;                    // the classifier's own scores
  bool json = false;
};
Result<void> rerank(const RerankCommand& options);

struct PlanCommand {
  EngineFlags engine;
  bool fused = false;        // the steps that will run
  std::string device_class;  // on such a card instead of a device (gpu/device_class.h); empty: none
  std::vector<uint32_t> rows = {1, 8, 32, 128, 512};  // of a GPU's passes that are shown
  bool json = false;
};
Result<void> plan(const PlanCommand& options);

struct BenchCommand {
  EngineFlags engine;
  std::vector<uint32_t> n_prompt = {512};
  std::vector<uint32_t> n_decode = {128};
  std::vector<uint32_t> batches = {1};
  uint32_t depth = 0;
  uint32_t n_repetitions = 3;
  bool json = false;
};
Result<void> bench(const BenchCommand& options);

struct BenchLoadCommand {
  EngineFlags engine;
  uint32_t n_repetitions = 5;
  int64_t started_at_ns = 0;  // set in the measured process: when its parent started it
  bool json = false;
};
Result<void> bench_load(const BenchLoadCommand& options);

struct PerplexityCommand {
  EngineFlags engine;  // n_context is the length of a chunk; 0: 512
  std::string file;
  uint32_t n_chunks = 0;  // 0: all of the file
  bool json = false;
};
Result<void> perplexity(const PerplexityCommand& options);

struct DevicesCommand {
  bool json = false;
};
Result<void> devices(const DevicesCommand& options);

// Opens the model the flags name, for sessions of its context. device_unavailable for a device that is not there.
// One line on stderr has the device when it is asked for, and always when a GPU of this machine is passed over.
enum class Telling : uint8_t { if_needed, always };
Result<std::unique_ptr<Model>> open_model(const EngineFlags& flags, PassSize pass = {},
                                          Telling device = Telling::if_needed);
Result<Session> open_session(const Model& model, const EngineFlags& flags, uint32_t max_outputs = 1);
Result<std::unique_ptr<Generator>> open_generator(const Model& model, const EngineFlags& flags);

}  // namespace rocmforge::apps
