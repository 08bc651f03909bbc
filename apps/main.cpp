// The command line of `rocmforge`: flags in, one command called, exit code out (0 good, 1 failed, 2 bad usage).
// CLI11 is included here and in cli_tree.cpp.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <sstream>

#include "base/units.h"
#include "cli_tree.h"
#include "commands.h"
#include "engine_commands.h"
#include "gguf/mix.h"
#include "gguf/shapes.h"
#include "serve.h"
#include "tensor/codec.h"
#include "terminal.h"
#include "version.h"

namespace rocmforge::apps {
namespace {

constexpr int kGood = 0;
constexpr int kFailed = 1;
constexpr int kBadUsage = 2;

constexpr const char* kModelHelp = "A GGUF file or the name of a model; none: the bundled one";

template <class Items>
std::string list_of(const Items& items) {
  std::string out;
  for (const auto& item : items) out += (out.empty() ? "" : " ") + std::string(item.name);
  return out;
}

// Those that quantize can write: each of their types has an encoder.
std::string encodable_mixes() {
  std::string out;
  for (const gguf::Mix& mix : gguf::all_mixes()) {
    if (can_encode(mix.base)) out += (out.empty() ? "" : " ") + std::string(mix.name);
  }
  return out;
}

CLI::Validator mix_name() {
  return CLI::Validator(
      [](const std::string& name) {
        return gguf::find_mix(name) ? "" : "'" + name + "' is no type; there are: " + list_of(gguf::all_mixes());
      },
      "");
}

CLI::Validator shape_name() {
  return CLI::Validator(
      [](const std::string& name) {
        return gguf::find_shape(name) ? "" : "'" + name + "' is no shape; there are: " + list_of(gguf::all_shapes());
      },
      "");
}

// A command and what its flags fill in.
template <class Options>
struct Command {
  CLI::App* app;
  std::shared_ptr<Options> options;
};

class CommandLine {
 public:
  CommandLine();
  int run(int argc, const char* const* argv);

 private:
  template <class Options>
  Command<Options> add(const char* name, const char* summary, Result<void> (*call)(const Options&)) {
    auto options = std::make_shared<Options>();
    CLI::App* app = app_.add_subcommand(name, summary);
    app->add_option("--config", config_, "Flags from this file (default ~/.config/rocmforge/config.toml, else /etc's)");
    // CLI11 calls a command back after its subcommand, which has then been chosen (`bench load`).
    app->callback([this, call, options] {
      if (!chosen_) chosen_ = [call, options] { return call(*options); };
    });
    return {app, options};
  }

  void add_engine_commands();
  void add_texts();
  // Parses once to learn what was given, adds what settings have for the rest, and parses that.
  Result<void> parse(std::vector<std::string> arguments);
  std::string usage_error(const CLI::ParseError& error, int argc, const char* const* argv) const;

  CLI::App app_{"Runs large language models from GGUF files.", "rocmforge"};
  std::string config_;
  std::function<Result<void>()> chosen_;
};

// A name of the map, which CLI11 gets as the number of its value.
template <class T>
CLI::Validator one_of(const std::map<std::string, T>& names) {
  return CLI::Validator(
      [&names](std::string& text) {
        if (const auto found = names.find(text); found != names.end()) {
          text = std::to_string(static_cast<int>(found->second));
          return std::string();
        }
        std::string all;
        for (const auto& [name, value] : names) all += (all.empty() ? "" : ", ") + name;
        return "'" + text + "' is none of: " + all;
      },
      "");
}

CommandLine::CommandLine() {
  app_.set_version_flag("--version", "rocmforge " + version());
  app_.require_subcommand(1);
  app_.footer(
      "MODEL is a path, the name of a model in $ROCMFORGE_MODELS (default ~/.local/share/rocmforge/models), or the "
      "name\n"
      "of the bundled model. ROCMFORGE_LOG=debug|info|warn|error|off sets what is logged (default warn);\n"
      "ROCMFORGE_CPU=scalar|avx2|avx512 sets the kernels of the CPU.");

  {
    auto [app, o] = add<InspectCommand>("inspect", "Show a model file's metadata, tensors and sizes", inspect);
    app->add_option("MODEL", o->model, kModelHelp);
    app->add_flag("--json", o->json, "One JSON object, with every tensor");
    app->add_flag("--tensors", o->tensors, "List every tensor");
  }
  {
    auto [app, o] = add<QuantizeCommand>("quantize", "Write a model with its weights in another type", quantize);
    app->add_option("IN", o->in, "A GGUF file, or the first of a split model")->required();
    app->add_option("OUT", o->out, "The file to write")->required();
    app->add_option("TYPE", o->type, "One of: " + encodable_mixes())->required()->check(mix_name());
    app->add_flag("--pure", o->pure, "The type itself for every weight, without the mix's exceptions");
    app->add_flag("--allow-requantize", o->allow_requantize, "Accept weights that are quantized already");
    app->add_flag("--overwrite", o->overwrite, "Replace OUT where it exists; the input is never replaced");
    app->add_flag("--json", o->json, "Report as JSON");
    app->add_option("-t,--threads", o->n_threads, "Threads (default: one per core)")->check(CLI::Range(1, 1024));
  }
  {
    auto [app, o] = add<SynthCommand>("synth", "Write a model of a real shape with random weights", synth);
    app->add_option("SHAPE", o->shape, "One of: " + list_of(gguf::all_shapes()))->required()->check(shape_name());
    app->add_option("TYPE", o->type, "One of: " + list_of(gguf::all_mixes()))->required()->check(mix_name());
    app->add_option("OUT", o->out, "The file to write")->required();
    app->add_flag("--pure", o->pure, "The type itself for every weight, without the mix's exceptions");
    app->add_flag("--sparse", o->sparse, "The header alone; the weights are a hole that reads as zeros");
    app->add_option("--seed", o->seed, "Seed of the random weights (default 1)");
    app->add_flag("--overwrite", o->overwrite, "Replace OUT where it exists");
    app->add_flag("--json", o->json, "Report as JSON");
  }
  {
    auto [app, o] = add<TokenizeCommand>("tokenize", "Turn text into token ids", tokenize);
    app->add_option("MODEL", o->model, kModelHelp);
    auto* text = app->add_option("TEXT", o->text, "The text; none, and no --file: standard input, as one text");
    app->add_option("--file", o->file, "A file (- is standard input): a line of ids for each of its lines")
        ->excludes(text);
    app->add_flag("--special", o->special, "Find control tokens in the text");
    app->add_flag("--bos", o->bos, "Begin with BOS, if the model wants one");
    app->add_flag("--json", o->json, "Ids and the pieces they stand for, one JSON object per text");
  }
  {
    auto [app, o] = add<DetokenizeCommand>("detokenize", "Turn token ids into text", detokenize);
    app->add_option("MODEL", o->model, "A GGUF file or the name of a model")->required();
    app->add_option("IDS", o->ids, "Token ids; none: lines of them from standard input")->delimiter(',');
    app->add_flag("--special", o->special, "Show control tokens");
  }
  {
    auto [app, o] = add<RenderCommand>("render", "Render a chat template", render);
    auto* model = app->add_option("MODEL", o->model, kModelHelp);
    app->add_option("--template", o->template_file, "A template file instead of the model's")->excludes(model);
    app->add_option("--context", o->context_file, "A JSON file: the object with the template's variables")->required();
    app->add_option("--now", o->now, "The time that templates see: '2026-01-02 03:04:05' (default: local time)");
  }
  {
    auto [app, o] =
        add<ConstrainCommand>("constrain", "Check texts against a schema or grammar, or write such texts", constrain);
    app->add_option("--json-schema", o->json_schema, "A file with a JSON Schema (- is standard input)");
    app->add_flag("--json-object", o->json_object, "Any JSON object");
    app->add_option("--gbnf", o->gbnf, "A file with a GBNF grammar");
    app->add_option("--regex", o->regex, "A regular expression, for the whole text");
    app->add_option("--choice", o->choice, "A file with a JSON array of texts");
    app->add_option("--lark", o->lark, "A file with a Lark grammar");
    app->add_flag("--in-order", o->in_order, "Keys of objects in the order of the schema, as answers have them");
    app->add_option("--check", o->check, "A file with a JSON string per line: accept, or reject at BYTE, for each");
    app->add_option("--sample", o->n_samples, "Write so many random texts, each as a JSON string");
    app->add_option("--seed", o->seed, "Seed of the random texts (default 1)");
  }
  {
    auto [app, o] = add<ModelsCommand>("models", "The models there are", models);
    app->add_flag("--json", o->json, "One JSON object");
  }
  {
    auto [app, o] = add<DoctorCommand>("doctor", "What is missing to run models here, and what to do", doctor);
    app->add_flag("--json", o->json, "One JSON object");
  }
  add_engine_commands();
  add_texts();
}

// What packages are made with: not for people, and not listed.
void CommandLine::add_texts() {
  CLI::App* completion = app_.add_subcommand("completion", "Write a shell's completion script")->group("");
  auto shell = std::make_shared<Shell>(Shell::bash);
  static const std::map<std::string, Shell> kShells = {
      {"bash", Shell::bash}, {"zsh", Shell::zsh}, {"fish", Shell::fish}};
  completion->add_option("SHELL", *shell, "bash, zsh or fish")->required()->transform(one_of(kShells));
  completion->callback(
      [this, shell] { chosen_ = [this, shell] { return print(completion_script(command_text(app_), *shell)); }; });
  CLI::App* manual = app_.add_subcommand("manual", "Write a man page")->group("");
  auto command = std::make_shared<std::string>();
  manual->add_option("COMMAND", *command, "Of this command (default: of rocmforge itself)");
  manual->callback([this, command] {
    chosen_ = [this, command]() -> Result<void> {
      if (!command->empty() && !find_command(app_, *command)) {
        return Error{ErrorCode::invalid_argument, "'" + *command + "' is no command"};
      }
      return print(manual_page(command_text(app_), *command, version(), app_.get_footer()));
    };
  });
}

// What every command with an engine takes.
void add_engine_flags(CLI::App* app, EngineFlags& flags) {
  static const std::map<std::string, LoadMode> kLoadModes = {{"lazy", LoadMode::lazy}, {"eager", LoadMode::eager}};
  static const std::map<std::string, KvType> kKvTypes = {{"f16", KvType::f16}, {"f32", KvType::f32}};
  app->add_option("MODEL", flags.model, kModelHelp);
  app->add_option("--device", flags.device,
                  "auto, cpu, gpu, gpu:N, emu or emu:64 (default auto: a GPU that holds the model, else the CPU)");
  app->add_option("-t,--threads", flags.n_threads, "Threads (default: one per core)")->check(CLI::Range(1, 1024));
  app->add_option("-c,--ctx", flags.n_context, "Context in tokens (default: the model's, at most 8192)")
      ->check(CLI::Range(1u, UINT32_MAX));
  app->add_option("--load", flags.load, "lazy: weights come with the first pass; eager: before it (default lazy)")
      ->transform(one_of(kLoadModes));
  const auto size = [app](const char* name, std::optional<uint64_t>& to, const char* help) {
    app->add_option_function<std::string>(
        name,
        [name, &to](const std::string& text) {
          const auto parsed = parse_size(text);
          if (!parsed.ok()) throw CLI::ValidationError(name, parsed.error().message);
          to = *parsed;
        },
        help);
  };
  size("--ram", flags.ram_bytes, "Memory to take: 512M, 6G (default: what is available); less than the model: streams");
  size("--vram", flags.vram_bytes, "The same of the GPU's memory");
  app->add_option("--kv", flags.kv_type, "Keys and values as f16 or f32 (default f16)")->transform(one_of(kKvTypes));
}

// "1234=-5.5": what is added to a token's logit.
void add_logit_bias(SamplingOptions& sampling, const std::string& text) {
  LogitBias bias;
  size_t id_end = 0, end = 0;
  try {
    bias.token = TokenId(std::stoi(text, &id_end));
    if (id_end < text.size() && text[id_end] == '=') bias.bias = std::stof(text.substr(id_end + 1), &end);
  } catch (const std::logic_error&) {  // no number, or one that does not fit
  }
  if (end == 0 || id_end + 1 + end != text.size()) {
    throw CLI::ValidationError("--logit-bias", "'" + text + "' is not of the form ID=VALUE");
  }
  sampling.logit_bias.push_back(bias);
}

void add_constraint_flags(CLI::App* app, ConstraintFlags& flags) {
  auto* schema = app->add_option("--json-schema", flags.json_schema, "Answer with JSON of the schema in this file");
  auto* grammar = app->add_option("--grammar", flags.grammar, "Answer with a text of the GBNF grammar in this file");
  auto* regex = app->add_option("--regex", flags.regex, "Answer with a text that this regular expression matches");
  schema->excludes(grammar)->excludes(regex);
  grammar->excludes(regex);
}

void add_sampling_flags(CLI::App* app, SamplingOptions& sampling, std::optional<uint64_t>& seed) {
  app->add_option("--temp", sampling.temperature, "Temperature; 0 takes the most likely token (default 0.8)");
  app->add_option("--top-k", sampling.top_k, "Consider the k most likely tokens; 0: all (default 40)");
  app->add_option("--top-p", sampling.top_p, "Of those, the most likely that add up to p (default 0.95)");
  app->add_option("--min-p", sampling.min_p, "Of those, the ones with p of the best one's probability (default 0.05)");
  app->add_option("--repeat-penalty", sampling.repetition_penalty, "Divide the logits of recent tokens (default 1)");
  app->add_option("--presence-penalty", sampling.presence_penalty, "Take this off them (default 0)");
  app->add_option("--frequency-penalty", sampling.frequency_penalty, "And this for each time they occur (default 0)");
  app->add_option("--repeat-last-n", sampling.penalty_last_n, "Recent: of the last n tokens; -1: of all (default 64)");
  app->add_option_function<std::vector<std::string>>(
         "--logit-bias",
         [&sampling](const std::vector<std::string>& all) {
           sampling.logit_bias.clear();
           for (const std::string& text : all) add_logit_bias(sampling, text);
         },
         "ID=VALUE: add VALUE to a token's logit; may be given several times")
      ->allow_extra_args(false);
  app->add_option("--seed", seed, "Seed; the same seed gives the same text (default: a random one)");
}

void add_serve_flags(CLI::App* app, ServeCommand& o) {
  app->remove_option(app->get_option("MODEL"));
  app->remove_option(app->get_option("--load"));  // always lazy, with the rest of the weights on their way at once
  app->add_option("MODEL", o.models, "GGUF files or names of models, the first for requests that name none");
  app->add_option("--host", o.host, "Address to listen on (default 127.0.0.1: this machine only)");
  app->add_option("--port", o.port, "Port; 0: any free one (default 8080)");
  app->add_option("--metrics-port", o.metrics_port,
                  "A further port with /metrics, /health and /ready alone, without a key; 0: any free one");
  app->add_option("--api-key", o.keys.api_keys,
                  "Ask clients for this key of 8 bytes or more; may be given several times; also ROCMFORGE_API_KEY")
      ->allow_extra_args(false);
  app->add_option("--api-key-file", o.keys.api_key_file, "Ask for one of the keys in this file, one per line");
  app->add_option("--admin-key", o.keys.admin_keys,
                  "Only this key may load and unload models; may be given several times; also ROCMFORGE_ADMIN_KEY")
      ->allow_extra_args(false);
  app->add_option("--admin-key-file", o.keys.admin_key_file, "Only the keys in this file may load and unload models");
  app->add_flag("--allow-key-admin", o.keys.users_are_admins, "Let every API key load and unload models");
  app->add_option("--log-level", o.log.level, "error, warn, info or debug (default ROCMFORGE_LOG, else info)")
      ->transform(CLI::CheckedTransformer(std::map<std::string, LogLevel>{{"error", LogLevel::error},
                                                                          {"warn", LogLevel::warn},
                                                                          {"info", LogLevel::info},
                                                                          {"debug", LogLevel::debug}})
                      .description(""));
  app->add_option("--log-format", o.log.format, "text or json: a line per request, load, unload and drain, on stderr")
      ->transform(CLI::CheckedTransformer(
                      std::map<std::string, LogFormat>{{"text", LogFormat::text}, {"json", LogFormat::json}})
                      .description(""));
  app->add_option("--cors-origin", o.cors_origins, "Let pages of this origin ask; may be given several times; * is all")
      ->allow_extra_args(false);
  app->add_option("--allowed-host", o.allowed_hosts,
                  "A further Host name to answer to when listening on this machine only")
      ->allow_extra_args(false);
  app->add_option("--parallel", o.max_running, "Requests that run at once (default 64)")->check(CLI::Range(1, 1024));
  app->add_option("--queue", o.max_queued, "Requests that may wait (default 512)")->check(CLI::Range(1, 1 << 20));
  app->add_option("--queue-tokens", o.max_queued_tokens, "Prompt tokens that may wait (default 1048576)");
  app->add_option("--overload-status", o.overload_status,
                  "Status of a request that finds the queue full: 429 or 503, which proxies retry on (default 429)")
      ->check(CLI::IsMember({429, 503}).description(""));
  app->add_option("--kv-tokens", o.n_kv_tokens, "Context of all requests together (default: what memory allows)");
  app->add_option("--ttl", o.ttl_seconds, "Unload a model after this many seconds without a request (default: never)");
  app->add_option("--drain-seconds", o.drain_seconds,
                  "Seconds from SIGTERM to the end, for running requests (default 30)");
  app->add_option("--ping-seconds", o.ping_seconds, "Send a comment into a stream silent for so long (default 5)")
      ->check(CLI::Range(1, 15));
  app->add_option("--max-connections", o.max_connections, "Open connections at once (default 1024)")
      ->check(CLI::Range(1, 1 << 20));
  app->add_option("--max-body", o.max_body_bytes, "Bytes of a request's body, at most 64 MiB (default 16 MiB)")
      ->check(CLI::Range(uint64_t{1}, uint64_t{64} << 20));
}

void CommandLine::add_engine_commands() {
  {
    auto [app, o] = add<ServeCommand>("serve", "Answer OpenAI's clients over HTTP, with a page for the browser", serve);
    add_engine_flags(app, o->engine);
    add_serve_flags(app, *o);
  }
  {
    auto [app, o] = add<RunCommand>("run", "Continue a text", rocmforge::apps::run);
    add_engine_flags(app, o->engine);
    auto* prompt =
        app->add_option("-p,--prompt", o->prompt, "The text to continue (default: PROMPT, then what is piped in)");
    app->add_option("PROMPT", o->text, "The text to continue (default 'Once upon a time')")->excludes(prompt);
    app->add_option("-f,--file", o->prompt_file, "Read the text from a file; - is standard input")->excludes(prompt);
    app->add_option("-n", o->n_tokens, "Tokens to write at most (default 128)");
    add_sampling_flags(app, o->sampling, o->seed);
    add_constraint_flags(app, o->constraint);
    app->add_option("--stop", o->stop, "End before this text; may be given several times")->allow_extra_args(false);
    app->add_flag("--ignore-eos", o->ignore_eos, "Go on after an end-of-text token");
    app->add_flag("--stats", o->stats, "Say how fast it went and with which seed, on stderr");
    app->add_flag("--json", o->json, "One JSON object at the end, with text, tokens and times");
  }
  {
    auto [app, o] = add<ChatCommand>("chat", "Talk with a model, at the terminal or through a pipe", chat);
    add_engine_flags(app, o->engine);
    app->add_option("--system", o->system, "An instruction that comes before everything");
    app->add_option("-n", o->n_tokens, "Tokens of an answer at most (default: half of what the context has left)");
    add_sampling_flags(app, o->sampling, o->seed);
    add_constraint_flags(app, o->constraint);
  }
  {
    auto [app, o] = add<LogitsCommand>("logits", "Raw logits, for checking", logits);
    add_engine_flags(app, o->engine);
    app->add_option("--tokens", o->tokens, "Token ids, separated by commas")->required()->delimiter(',');
    app->add_option("--positions", o->positions, "Positions to show (default: the last)")->delimiter(',');
    app->add_flag("--json", o->json, "One JSON object");
  }
  {
    auto [app, o] = add<PlanCommand>("plan", "Show the execution plan and its memory", plan);
    add_engine_flags(app, o->engine);
  }
  {
    auto [app, o] = add<BenchCommand>("bench", "Measure prefill and decoding; 'bench load' measures start-up", bench);
    add_engine_flags(app, o->engine);
    app->add_option("-p", o->n_prompt, "Prompt lengths (default 512)")->delimiter(',');
    app->add_option("-n", o->n_decode, "Tokens to decode (default 128)")->delimiter(',');
    app->add_option("-b", o->batches, "Sequences decoded at once (default 1)")->delimiter(',');
    app->add_option("-d", o->depth, "Tokens before the decoded ones (default 0)")->check(CLI::Range(0u, 1u << 20));
    app->add_option("-r", o->n_repetitions, "Repetitions; the best counts (default 3)")->check(CLI::Range(1, 1000));
    app->add_flag("--json", o->json, "One JSON object");
    app->require_subcommand(0, 1);

    auto load = std::make_shared<BenchLoadCommand>();
    CLI::App* load_app = app->add_subcommand("load", "Measure from process start to first token, warm and cold");
    load_app->callback([this, load] { chosen_ = [load] { return bench_load(*load); }; });
    add_engine_flags(load_app, load->engine);
    load_app->add_option("-r", load->n_repetitions, "Repetitions; the best counts (default 5)")
        ->check(CLI::Range(1, 1000));
    load_app->add_flag("--json", load->json, "One JSON object");
    load_app->add_option("--started-at", load->started_at_ns)->group("");  // how the measured process is called
  }
  {
    auto [app, o] = add<PerplexityCommand>("perplexity", "How surprised a model is by a text", perplexity);
    add_engine_flags(app, o->engine);
    app->get_option("MODEL")->required()->description("A GGUF file or the name of a model");
    app->add_option("FILE", o->file, "The text")->required();
    app->add_option("--chunks", o->n_chunks, "Chunks to take (default: the whole text)");
    app->add_flag("--json", o->json, "One JSON object");
  }
  {
    auto [app, o] = add<DevicesCommand>("devices", "What can run models here", devices);
    app->add_flag("--json", o->json, "One JSON object");
  }
}

std::string CommandLine::usage_error(const CLI::ParseError& error, int argc, const char* const* argv) const {
  const auto chosen = app_.get_subcommands();
  const std::string first = argc > 1 ? argv[1] : "";
  if (chosen.empty() && first.starts_with("--") && first.size() > 2) {
    std::string letters = first.substr(2), help = "help", version = "version";
    std::ranges::sort(letters);
    std::ranges::sort(help);
    std::ranges::sort(version);
    const std::string meant = letters == version ? "--version" : letters == help ? "--help" : "";
    return "'" + first + "' is no flag" + (meant.empty() ? "" : ", did you mean " + meant + "?") +
           " (see rocmforge --help)";
  }
  if (chosen.empty() && argc > 1 && argv[1][0] != '-') {
    return "'" + std::string(argv[1]) + "' is no command (see rocmforge --help)";
  }
  return std::string(error.what()) + " (see rocmforge" + (chosen.empty() ? "" : " " + chosen[0]->get_name()) +
         " --help)";
}

Result<void> CommandLine::parse(std::vector<std::string> arguments) {
  const auto parse_reversed = [this](std::vector<std::string> words) {  // as CLI11 wants them
    std::ranges::reverse(words);
    app_.parse(words);
  };
  parse_reversed(arguments);
  std::string path;
  const auto settings = TRY(read_settings(config_, path));
  const auto all = TRY(with_settings(app_, arguments, settings, path));
  if (all == arguments) return {};
  chosen_ = nullptr;
  parse_reversed(all);
  return {};
}

int CommandLine::run(int argc, const char* const* argv) {
  // The words that other programs take: rocmforge help, rocmforge version.
  const char* words[] = {argc > 0 ? argv[0] : "rocmforge", nullptr};
  if (argc == 2 && std::string_view(argv[1]) == "help") words[1] = "--help";
  if (argc == 2 && std::string_view(argv[1]) == "version") words[1] = "--version";
  if (words[1]) argv = words;
  try {
    if (const auto parsed = parse({argv + std::min(argc, 1), argv + argc}); !parsed.ok()) {
      say(parsed.error().message);
      return kBadUsage;
    }
  } catch (const CLI::ParseError& e) {
    std::ostringstream out;
    std::ostringstream ignored;
    if (app_.exit(e, out, ignored) == 0) return print(out.str()).ok() ? kGood : kFailed;  // --help, --version
    say(usage_error(e, argc, argv));
    return kBadUsage;
  }
  const Result<void> result = chosen_();
  if (result.ok()) return kGood;
  // A reader that has seen enough (`| head`) needs no message.
  if (result.error().code != ErrorCode::cancelled) say(result.error().message);
  return kFailed;
}

}  // namespace
}  // namespace rocmforge::apps

int main(int argc, char** argv) {
  rocmforge::apps::prepare_standard_streams();
  return rocmforge::apps::CommandLine().run(argc, argv);
}
