#include "engine_flags.h"

#include <fmt/core.h>

#include <stdexcept>

#include "base/units.h"
#include "chat/tool_format.h"

namespace rocmforge::apps {
namespace {

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

CLI::Validator tool_format_name() {
  return CLI::Validator(
      [](const std::string& name) {
        return chat::find_tool_format(name) ? "" : "'" + name + "' is no format; see 'rocmforge parse --list'";
      },
      "");
}

void add_override(EngineFlags& flags, std::string_view flag, const std::string& text) {
  auto parsed = gguf::parse_override(text);
  if (!parsed.ok()) throw CLI::ValidationError(std::string(flag), parsed.error().message);
  flags.overrides.push_back(std::move(*parsed));
}

// llama.cpp's flags for the rotation of positions, each one a key of the file.
void add_rope_flags(CLI::App* app, EngineFlags& flags) {
  const auto number = [&](const char* flag, const char* key, const char* help) {
    app->add_option_function<std::string>(
        flag, [&flags, flag, key](const std::string& text) { add_override(flags, flag, key + ("=float:" + text)); },
        help);
  };
  app->add_option_function<std::string>(
         "--rope-scaling",
         [&flags](const std::string& text) { add_override(flags, "--rope-scaling", ".rope.scaling.type=str:" + text); },
         "How positions beyond the model's context are met: none, linear or yarn (default: the file's)")
      ->check(CLI::IsMember({"none", "linear", "yarn"}).description(""));
  number("--rope-scale", ".rope.scaling.factor", "By how much the context grows (default: the file's)");
  app->add_option_function<double>(
      "--rope-freq-scale",
      [&flags](double scale) {
        if (!(scale > 0)) throw CLI::ValidationError("--rope-freq-scale", "is not above 0");
        add_override(flags, "--rope-freq-scale", fmt::format(".rope.scaling.factor=float:{}", 1 / scale));
      },
      "The same as 1 / factor");
  number("--rope-freq-base", ".rope.freq_base", "The base of the rotation's frequencies (default: the file's)");
  number("--yarn-attn-factor", ".rope.scaling.attn_factor", "YaRN: a factor on rotated values (default: the file's)");
  number("--yarn-beta-fast", ".rope.scaling.yarn_beta_fast", "YaRN: its high correction dimension (default 32)");
  number("--yarn-beta-slow", ".rope.scaling.yarn_beta_slow", "YaRN: its low correction dimension (default 1)");
  app->add_option_function<uint32_t>(
      "--yarn-orig-ctx",
      [&flags](uint32_t n) {
        add_override(flags, "--yarn-orig-ctx", fmt::format(".rope.scaling.original_context_length=int:{}", n));
      },
      "YaRN: the context that the model was trained for (default: the file's)");
}

// By llama.cpp's names.
void add_rarer_sampling_flags(CLI::App* app, SamplingOptions& sampling) {
  app->add_option("--typical", sampling.typical_p, "Locally typical sampling with this probability; 1: off (default)");
  app->add_option("--top-nsigma", sampling.top_n_sigma,
                  "Keep logits within n standard deviations of the largest; 0: all (default)");
  app->add_option("--xtc-probability", sampling.xtc_probability,
                  "How often XTC leaves out the likeliest tokens; 0: never (default)");
  app->add_option("--xtc-threshold", sampling.xtc_threshold,
                  "All but the least likely token above this probability (default 0.1)");
  app->add_option("--dry-multiplier", sampling.dry.multiplier,
                  "DRY: penalise what continues a repetition; 0: off (default)");
  app->add_option("--dry-base", sampling.dry.base, "By multiplier x base^(length - allowed length) (default 1.75)");
  app->add_option("--dry-allowed-length", sampling.dry.allowed_length, "Of repetitions so long or longer (default 2)");
  app->add_option("--dry-penalty-last-n", sampling.dry.last_n, "In the last n tokens; -1: in all (default)");
  app->add_option("--dry-sequence-breaker", sampling.dry.sequence_breakers,
                  "A repetition ends at this text; may be given several times; \"\": at none (default: \\n : \" *)")
      ->allow_extra_args(false);
  app->add_option("--mirostat", sampling.mirostat.version, "Mirostat 1 or 2 instead of the filters; 0: off (default)");
  app->add_option("--mirostat-ent", sampling.mirostat.tau, "Its surprise per token, in bits (default 5)");
  app->add_option("--mirostat-lr", sampling.mirostat.eta, "How fast it adapts (default 0.1)");
}

}  // namespace

void add_engine_flags(CLI::App* app, EngineFlags& flags) {
  static const std::map<std::string, LoadMode> kLoadModes = {{"lazy", LoadMode::lazy}, {"eager", LoadMode::eager}};
  static const std::map<std::string, KvType> kKvTypes = {{"f16", KvType::f16}, {"f32", KvType::f32}};
  static const std::map<std::string, bool> kOnOff = {{"on", true}, {"off", false}};
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
  app->add_option("--fuse", flags.fuse, "on, or off: run the plan's steps one by one, to check or compare (default on)")
      ->transform(one_of(kOnOff));
  app->add_option_function<std::vector<std::string>>(
         "--override-kv",
         [&flags](const std::vector<std::string>& all) {
           for (const std::string& text : all) add_override(flags, "--override-kv", text);
         },
         "KEY=TYPE:VALUE instead of the file's: int, float, bool or str; a KEY from '.' on is the architecture's")
      ->allow_extra_args(false);
  add_rope_flags(app, flags);
  app->add_option("--trace", flags.trace, "Write what happens when to this file, for ui.perfetto.dev");
}

void add_constraint_flags(CLI::App* app, ConstraintFlags& flags) {
  auto* schema = app->add_option("--json-schema", flags.json_schema, "Answer with JSON of the schema in this file");
  auto* grammar = app->add_option("--grammar", flags.grammar, "Answer with a text of the GBNF grammar in this file");
  auto* regex = app->add_option("--regex", flags.regex, "Answer with a text that this regular expression matches");
  schema->excludes(grammar)->excludes(regex);
  grammar->excludes(regex);
}

void add_seed_flag(CLI::App* app, std::optional<uint64_t>& seed) {
  app->add_option("--seed", seed, "Seed; the same seed gives the same text (default: a random one)");
}

void add_sampling_flags(CLI::App* app, SamplingOptions& sampling) {
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
  add_rarer_sampling_flags(app, sampling);
}

void add_serve_flags(CLI::App* app, ServeCommand& o) {
  add_sampling_flags(app, o.sampling);
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
  auto* certificate = app->add_option("--tls-cert", o.tls.certificate,
                                      "Speak HTTPS with the certificate chain in this PEM file; SIGHUP reads it again");
  auto* key = app->add_option("--tls-key", o.tls.key, "Its key: a PEM file without a passphrase");
  certificate->needs(key);
  key->needs(certificate);
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
  app->add_option("--alias", o.aliases,
                  "NAME=MODEL: a further name of a model; NAME: of the first one; may be given several times")
      ->allow_extra_args(false);
  app->add_option("--chat-template-file", o.chat_template_file, "A Jinja template instead of the models' own");
  app->add_option("--tool-format", o.tool_format, "How the models write tool calls (default: found by the template)")
      ->check(tool_format_name());
  app->add_option("--ttl", o.ttl_seconds, "Unload a model after this many seconds without a request (default: never)");
  app->add_option("--rescan-seconds", o.rescan_seconds,
                  "Seconds between looks at the models directory, where no MODEL is given; 0: never (default 5)");
  app->add_option("--drain-seconds", o.drain_seconds,
                  "Seconds from SIGTERM to the end, for running requests (default 30)");
  app->add_option("--ping-seconds", o.ping_seconds, "Send a comment into a stream silent for so long (default 5)")
      ->check(CLI::Range(1, 15));
  app->add_option("--max-connections", o.max_connections, "Open connections at once (default 1024)")
      ->check(CLI::Range(1, 1 << 20));
  app->add_option("--max-body", o.max_body_bytes, "Bytes of a request's body, at most 64 MiB (default 16 MiB)")
      ->check(CLI::Range(uint64_t{1}, uint64_t{64} << 20));
}

}  // namespace rocmforge::apps
