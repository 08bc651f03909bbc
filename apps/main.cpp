// The command line of `rocmforge`: flags in, one command called, exit code out (0 good, 1 failed, 2 bad usage;
// `doctor`: 3 when a GPU is here and none can be used). CLI11 is included here, in engine_flags.cpp and in
// cli_tree.cpp.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <sstream>

#include "base/trace.h"
#include "cli_tree.h"
#include "commands.h"
#include "engine_commands.h"
#include "engine_flags.h"
#include "gguf/mix.h"
#include "gguf/shapes.h"
#include "gpu/device_class.h"
#include "gpu/pass_view.h"
#include "serve.h"
#include "tensor/codec.h"
#include "terminal.h"
#include "version.h"

namespace rocmforge::apps {
namespace {

constexpr int kGood = 0;
constexpr int kFailed = 1;
constexpr int kBadUsage = 2;
constexpr int kUnusedGpu = 3;

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

CLI::Validator device_class_name() {
  return CLI::Validator(
      [](const std::string& name) {
        return gpu::find_device_class(name) != nullptr
                   ? ""
                   : "'" + name + "' is no class; there are: " + list_of(gpu::device_classes());
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

// Calls a command, under a trace where its flags ask for one. A trace that cannot be written is an error; the command's
// own comes first.
template <class Options>
Result<void> call_traced(Result<void> (*call)(const Options&), const Options& options) {
  std::unique_ptr<Trace> trace;
  if constexpr (requires { options.engine.trace; }) {
    if (!options.engine.trace.empty()) trace = TRY(Trace::start(options.engine.trace));
  }
  const Result<void> done = call(options);
  if (trace == nullptr) return done;
  const Result<void> written = trace->finish();
  return done.ok() ? written : done;
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
      if (!chosen_) chosen_ = [call, options] { return call_traced(call, *options); };
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
CommandLine::CommandLine() {
  app_.set_version_flag("-v,--version", version_and_modules);
  app_.require_subcommand(1);
  app_.footer(
      "MODEL is a path, the name of a model in $ROCMFORGE_MODELS (default ~/.local/share/rocmforge/models), or the "
      "name\n"
      "of the bundled model. ROCMFORGE_LOG=debug|info|warn|error|off sets what is logged (default warn);\n"
      "ROCMFORGE_CPU=scalar|avx2|avx512 sets the kernels of the CPU, ROCMFORGE_GPU=portable those that every GPU has;\n"
      "ROCMFORGE_SELF_TEST=off|always: no self-test of a GPU, or one whenever it is opened (default: one, "
      "remembered).");

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
    auto [app, o] = add<ParseCommand>("parse", "Read tool calls and reasoning from a model's text", parse_text);
    app->add_option("MODEL", o->model, kModelHelp);
    app->add_option("--format", o->format, "A tool format instead of the model's; --list names them");
    app->add_option("--tools", o->tools_file, "A JSON file: the tools, as a chat request has them");
    app->add_option("--prompt-tail", o->prompt_tail, "How the prompt ends: the model may be thinking already");
    app->add_option("--special", o->special, "Control tokens: where the text spells one, it is one");
    app->add_option("--chunks", o->n_chunk, "Take the text in pieces of this many bytes");
    app->add_flag("--stream", o->stream, "Tell calls before they are complete, as a stream does");
    app->add_flag("--list", o->list, "The names of the formats");
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
    app->footer("Exit code 3: a GPU is in this machine, and none can be used.");
    app->add_flag("--gpu", o->gpu, "Also run one kernel of each family on each GPU, against the CPU");
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
    add_sampling_flags(app, o->sampling);
    add_seed_flag(app, o->seed);
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
    app->add_option("--chat-template-file", o->template_file, "A Jinja template instead of the model's own");
    app->add_option("-n", o->n_tokens, "Tokens of an answer at most (default: half of what the context has left)");
    add_sampling_flags(app, o->sampling);
    add_seed_flag(app, o->seed);
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
    auto [app, o] = add<EmbedCommand>("embed", "Turn texts into embeddings", embed);
    add_engine_flags(app, o->engine);
    static const std::map<std::string, Pooling> kPoolings = {
        {"mean", Pooling::mean}, {"cls", Pooling::first}, {"last", Pooling::last}, {"rank", Pooling::rank}};
    auto* texts = app->add_option("TEXT", o->texts, "Texts; none, and no --file or --tokens: the lines of stdin");
    auto* file = app->add_option("-f,--file", o->file, "A file with a text in each line; - is standard input");
    auto* tokens = app->add_option("--tokens", o->tokens, "A text as token ids, separated by commas")->delimiter(',');
    texts->excludes(file)->excludes(tokens);
    file->excludes(tokens);
    app->add_option("--pooling", o->pooling, "mean, cls, last or rank: scores (default: as the model's file says)")
        ->transform(one_of(kPoolings));
    app->add_option("--dimensions", o->n_dimensions, "The first so many numbers of each embedding (default: all)");
    app->add_flag("--raw", o->raw, "The numbers as they are pooled, not scaled to length 1");
    app->add_flag("--json", o->json, "A JSON object for each text: {\"embedding\": [...]}");
  }
  {
    auto [app, o] = add<RerankCommand>("rerank", "Order documents by how well they answer a query", rerank);
    add_engine_flags(app, o->engine);
    app->get_option("MODEL")->required()->description("A GGUF file or the name of a model");
    app->add_option("QUERY", o->query, "The query")->required();
    auto* documents = app->add_option("DOCUMENT", o->documents, "Documents; none, and no --file: the lines of stdin");
    app->add_option("-f,--file", o->file, "A file with a document in each line; - is standard input")
        ->excludes(documents);
    app->add_option("--top-n", o->n_best, "Show the best so many (default: all)");
    app->add_flag("--raw", o->raw, "Scores as the classifier gives them, not from 0 to 1");
    app->add_flag("--json", o->json, "One JSON object");
  }
  {
    auto [app, o] = add<PlanCommand>("plan", "Show the execution plan and its memory", plan);
    add_engine_flags(app, o->engine);
    app->add_flag("--fused", o->fused,
                  "The steps as the device runs them, several at once; a GPU's with their kernels");
    app->add_option("--device-class", o->device_class,
                    "With --fused: on such a card, which need not be here: " + list_of(gpu::device_classes()))
        ->needs("--fused")
        ->check(device_class_name());
    app->add_option("--rows", o->rows, "With --fused, on a GPU: rows of the passes shown (default 1,8,32,128,512)")
        ->needs("--fused")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::Range(1u, gpu::PassViewer::kMaxRows));
    app->add_flag("--json", o->json, "One JSON object");
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
  return result.error().code == ErrorCode::device_unavailable && app_.got_subcommand("doctor") ? kUnusedGpu : kFailed;
}

}  // namespace
}  // namespace rocmforge::apps

int main(int argc, char** argv) {
  rocmforge::apps::prepare_standard_streams();
  return rocmforge::apps::CommandLine().run(argc, argv);
}
