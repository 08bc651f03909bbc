#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iostream>
#include <iterator>
#include <utility>

#include "base/json.h"
#include "base/random.h"
#include "base/units.h"
#include "constraint_flags.h"
#include "device_line.h"
#include "engine/generator.h"
#include "engine_commands.h"
#include "loading_line.h"
#include "model_path.h"
#include "terminal.h"
#include "user_folders.h"

namespace rocmforge::apps {
namespace {

constexpr uint64_t kMaxPromptBytes = 64u << 20;

// Whether somebody sends text: a pipe or a file. A terminal, /dev/null and a service without an input send none.
bool has_piped_input() {
  struct stat s{};
  return ::fstat(STDIN_FILENO, &s) == 0 && (S_ISFIFO(s.st_mode) || S_ISREG(s.st_mode));
}

Result<std::string> read_prompt(const RunCommand& options) {
  if (options.prompt_file.empty()) {
    if (options.prompt) return *options.prompt;
    // `echo text | rocmforge run`, `rocmforge run MODEL "Summarize:" < text`. An empty standard input changes nothing.
    std::string piped = has_piped_input() ? TRY(read_standard_input(kMaxPromptBytes)) : "";
    while (!piped.empty() && (piped.back() == '\n' || piped.back() == '\r')) piped.pop_back();
    if (piped.empty()) return options.text.value_or("Once upon a time");
    return options.text ? *options.text + "\n" + piped : piped;
  }
  if (options.prompt_file != "-") return read_whole_file(options.prompt_file, kMaxPromptBytes);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

std::string stats_line(const Generated& g, const LoadingStats& loading, std::string_view backend) {
  return fmt::format(
      "{}: {} prompt tokens and the first one in {:.3f} s, then {} tokens at {:.1f} tok/s; read {} at {:.2f} GB/s",
      backend, g.n_prompt_tokens, g.prompt_seconds, g.tokens.empty() ? 0 : g.tokens.size() - 1, g.decode_rate(),
      format_bytes(loading.read_bytes), loading.gigabytes_per_second());
}

std::string to_json(const Generated& g, const std::string& text, const LoadingStats& loading,
                    std::string_view backend) {
  JsonWriter w;
  w.begin_object().key("text").value(std::string_view(text)).key("finish_reason").value(finish_name(g.reason));
  w.key("backend").value(backend).key("prompt_tokens").value(g.n_prompt_tokens).key("tokens").begin_array();
  for (const TokenId id : g.tokens) w.value(id.value);
  w.end_array();
  w.key("prompt_seconds").value(g.prompt_seconds).key("tokens_per_second").value(g.decode_rate());
  w.key("loaded_bytes").value(loading.loaded_bytes).key("read_bytes").value(loading.read_bytes).end_object();
  return w.take() + "\n";
}

}  // namespace

Result<std::unique_ptr<Model>> open_model(const EngineFlags& flags, PassSize pass, Telling device) {
  pass.kv_type = flags.kv_type;
  auto model = TRY(Model::open(TRY(find_model(flags.model)), {.device = flags.device,
                                                              .n_threads = flags.n_threads,
                                                              .n_context = flags.n_context,
                                                              .ram_bytes = flags.ram_bytes,
                                                              .vram_bytes = flags.vram_bytes,
                                                              .pass = pass,
                                                              .fuse = flags.fuse,
                                                              .overrides = flags.overrides,
                                                              .self_test_file = self_test_file()}));
  if (device == Telling::always || passes_over_gpu(*model, flags.device)) {
    say("runs on " + device_line(*model, flags.device));
  }
  return model;
}

Result<Session> open_session(const Model& model, const EngineFlags& flags, uint32_t max_outputs) {
  return Session::create(model.plan(),
                         {.n_context = flags.n_context, .max_outputs = max_outputs, .kv_type = flags.kv_type});
}

Result<std::unique_ptr<Generator>> open_generator(const Model& model, const EngineFlags& flags) {
  return Generator::create(model.plan(), {.n_context = flags.n_context, .kv_type = flags.kv_type});
}

Result<void> run(const RunCommand& options) {
  TRY(check_options(options.sampling));
  const bool tells = options.stats || ::isatty(STDERR_FILENO) == 1;
  const std::unique_ptr<Model> model =
      TRY(open_model(options.engine, {.in_token_loop = true}, tells ? Telling::always : Telling::if_needed));
  const std::unique_ptr<Generator> generator = TRY(open_generator(*model, options.engine));

  LoadingLine loading(model->plan().weights());
  TRY(model->load(options.engine.load));

  const tokenizer::Tokenizer& tokenizer = *TRY(model->tokenizer());
  const std::string prompt = TRY(read_prompt(options));
  const std::vector<TokenId> tokens = TRY(tokenizer.encode(prompt, {.parse_special = true, .add_bos = true}));

  std::string text;
  AnswerOutput answer;
  Result<void> printed;
  const auto receive = [&](std::string_view piece) {
    loading.end();
    if (options.json) {
      text += piece;
    } else {
      printed = answer.print(piece);
    }
    return printed.ok();
  };
  GenerateOptions generation;
  generation.sampling = options.sampling;
  generation.sampling.seed = options.seed.value_or(random_bits());
  generation.max_tokens = options.n_tokens;
  generation.ignore_end_of_text = options.ignore_eos;
  generation.stop = options.stop;
  generation.constraint = TRY(read_constraint(options.constraint, tokenizer));
  const Generated result = TRY(generator->generate(tokenizer, tokens, generation, receive));
  TRY(printed);
  TRY(answer.finish());
  loading.end();
  const LoadingStats stats = model->plan().weights().loading_stats();
  TRY(print(options.json ? to_json(result, text, stats, model->backend().name()) : "\n"));
  if (options.stats) {
    say(stats_line(result, stats, model->backend().name()) + fmt::format("; seed {}", generation.sampling.seed));
  }
  return {};
}

}  // namespace rocmforge::apps
