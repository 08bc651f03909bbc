#include "engine_flags.h"

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
  app->add_option("--tool-format", o.tool_format, "How the models write tool calls (default: found by the template)")
      ->check(tool_format_name());
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

}  // namespace rocmforge::apps
