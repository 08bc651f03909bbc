#include "server/metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <sstream>

#include "kv/page.h"

namespace rocmforge::server {
namespace {

using prometheus::ClientMetric;
using prometheus::Family;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Buckets = Histogram::BucketBoundaries;

const Buckets kLatency = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80};
const Buckets kInterToken = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5, 5};
const Buckets kEndToEnd = {0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640};
const Buckets kTokens = {1, 4, 16, 64, 256, 1024, 4096, 16384, 65536};

ClientMetric sample(const std::string& model, double value, MetricType type) {
  ClientMetric metric;
  if (!model.empty()) metric.label.push_back({"model", model});
  if (type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  return metric;
}

// One family, with a sample for each model that is ready.
struct EngineFamily {
  const char* name;
  const char* help;
  MetricType type;
  double (*value)(const ModelEntry&, const EngineStats&);
};

constexpr auto kGauge = MetricType::Gauge;
constexpr auto kCounter = MetricType::Counter;
using Stats = const EngineStats&;
using Entry = const ModelEntry&;

const EngineFamily kEngineFamilies[] = {
    {"rocmforge_requests_running", "Requests in the current step", kGauge,
     [](Entry, Stats s) { return double(s.n_running); }},
    {"rocmforge_requests_waiting", "Requests that wait for room", kGauge,
     [](Entry, Stats s) { return double(s.n_waiting); }},
    {"rocmforge_kv_cache_usage_ratio", "Pages in use of all pages for keys and values", kGauge,
     [](Entry, Stats s) { return s.n_pages ? double(s.n_pages_used) / s.n_pages : 0.0; }},
    {"rocmforge_kv_pages", "Pages for keys and values", kGauge, [](Entry, Stats s) { return double(s.n_pages); }},
    {"rocmforge_kv_page_tokens", "Tokens per page", kGauge, [](Entry, Stats) { return double(kPageTokens); }},
    {"rocmforge_prefix_cache_queries_total", "Prompt tokens looked up among computed prefixes", kCounter,
     [](Entry, Stats s) { return double(s.n_prefix_queries); }},
    {"rocmforge_states", "Slots for states of recurrent layers", kGauge,
     [](Entry, Stats s) { return double(s.n_states); }},
    {"rocmforge_states_used", "Of those, held by running requests", kGauge,
     [](Entry, Stats s) { return double(s.n_states_used); }},
    {"rocmforge_states_cached", "Of those, kept for their prefix", kGauge,
     [](Entry, Stats s) { return double(s.n_states_cached); }},
    {"rocmforge_window_pages", "Pages of windowed layers, where they have their own", kGauge,
     [](Entry, Stats s) { return double(s.n_window_pages); }},
    {"rocmforge_window_pages_used", "Of those, held by running requests", kGauge,
     [](Entry, Stats s) { return double(s.n_window_pages_used); }},
    {"rocmforge_window_pages_cached", "Of those, kept for their prefix", kGauge,
     [](Entry, Stats s) { return double(s.n_window_pages_cached); }},
    {"rocmforge_prefix_cache_matched_total", "Prompt tokens whose keys and values were found", kCounter,
     [](Entry, Stats s) { return double(s.n_prefix_matched); }},
    {"rocmforge_prefix_cache_recomputed_total", "Of those, computed again for states or windows", kCounter,
     [](Entry, Stats s) { return double(s.n_recomputed); }},
    {"rocmforge_prefix_cache_hits_total", "Prompt tokens found computed", kCounter,
     [](Entry, Stats s) { return double(s.n_prefix_hits); }},
    {"rocmforge_prompt_tokens_total", "Prompt tokens taken in", kCounter,
     [](Entry, Stats s) { return double(s.n_prompt_tokens); }},
    {"rocmforge_generation_tokens_total", "Tokens generated", kCounter,
     [](Entry, Stats s) { return double(s.n_generated_tokens); }},
    {"rocmforge_requests_total", "Requests accepted", kCounter, [](Entry, Stats s) { return double(s.n_requests); }},
    {"rocmforge_requests_finished_total", "Requests that ended by themselves", kCounter,
     [](Entry, Stats s) { return double(s.n_finished); }},
    {"rocmforge_requests_cancelled_total", "Requests whose client left or cancelled", kCounter,
     [](Entry, Stats s) { return double(s.n_cancelled); }},
    {"rocmforge_requests_failed_total", "Requests that ended with an error", kCounter,
     [](Entry, Stats s) { return double(s.n_failed); }},
    {"rocmforge_requests_refused_total", "Requests refused for a full queue or a drain", kCounter,
     [](Entry, Stats s) { return double(s.n_refused); }},
    {"rocmforge_preemptions_total", "Requests put back to make room for others", kCounter,
     [](Entry, Stats s) { return double(s.n_preemptions); }},
    {"rocmforge_device_errors_total", "Steps that the device failed", kCounter,
     [](Entry, Stats s) { return double(s.n_device_errors); }},
    {"rocmforge_refused_recordings_total", "Passes that the device did not record, and so are launched step by step",
     kCounter, [](Entry, Stats s) { return double(s.n_refused_recordings); }},
    {"rocmforge_not_finite_total", "Requests ended for logits that are not finite", kCounter,
     [](Entry, Stats s) { return double(s.n_not_finite); }},
    {"rocmforge_choices_free_total", "Tokens chosen without a constraint", kCounter,
     [](Entry, Stats s) { return double(s.choices.n_free); }},
    {"rocmforge_choices_candidates_total", "Tokens chosen among the candidates that a constraint allows", kCounter,
     [](Entry, Stats s) { return double(s.choices.n_candidates); }},
    {"rocmforge_choices_allowed_total", "Tokens chosen among the candidates of the tokens of a mask", kCounter,
     [](Entry, Stats s) { return double(s.choices.n_allowed); }},
    {"rocmforge_choices_whole_row_total", "Tokens chosen from a whole row of logits", kCounter,
     [](Entry, Stats s) { return double(s.choices.n_whole_rows); }},
    {"rocmforge_forced_tokens_total", "Tokens that a constraint left no choice in, appended without a step", kCounter,
     [](Entry, Stats s) { return double(s.choices.n_forced); }},
    {"rocmforge_steps_total", "Passes through the model", kCounter, [](Entry, Stats s) { return double(s.n_steps); }},
    {"rocmforge_step_seconds_total", "Time in passes through the model", kCounter,
     [](Entry, Stats s) { return s.step_seconds; }},
    {"rocmforge_model_load_seconds", "From asking for the model until it took requests", kGauge,
     [](Entry e, Stats) { return e.load_seconds; }},
    {"rocmforge_weights_load_seconds", "Time with weights being read", kGauge,
     [](Entry, Stats s) { return s.loading.seconds; }},
    {"rocmforge_weights_bytes", "Size of the weights in the file", kGauge,
     [](Entry, Stats s) { return double(s.loading.total_bytes); }},
    {"rocmforge_weights_loaded_bytes", "Of those, what is resident", kGauge,
     [](Entry, Stats s) { return double(s.loading.loaded_bytes); }},
    {"rocmforge_weights_read_bytes_total", "Bytes of weights read from the file", kCounter,
     [](Entry, Stats s) { return double(s.loading.read_bytes); }},
};

struct Alias {
  std::string_view ours;
  const char* vllm;
};
constexpr Alias kAliases[] = {
    {"rocmforge_requests_running", "vllm:num_requests_running"},
    {"rocmforge_requests_waiting", "vllm:num_requests_waiting"},
    {"rocmforge_kv_cache_usage_ratio", "vllm:kv_cache_usage_perc"},
    {"rocmforge_kv_cache_usage_ratio", "vllm:gpu_cache_usage_perc"},  // an earlier name of the same
    {"rocmforge_prefix_cache_queries_total", "vllm:prefix_cache_queries_total"},
    {"rocmforge_prefix_cache_hits_total", "vllm:prefix_cache_hits_total"},
    {"rocmforge_prompt_tokens_total", "vllm:prompt_tokens_total"},
    {"rocmforge_generation_tokens_total", "vllm:generation_tokens_total"},
    {"rocmforge_time_to_first_token_seconds", "vllm:time_to_first_token_seconds"},
};

void add_aliases(std::vector<MetricFamily>& families) {
  std::vector<MetricFamily> more;
  for (const Alias& alias : kAliases) {
    const auto found = std::ranges::find(families, alias.ours, &MetricFamily::name);
    if (found == families.end()) continue;
    MetricFamily& family = more.emplace_back(*found);
    family.name = alias.vllm;
    for (ClientMetric& metric : family.metric) {
      for (ClientMetric::Label& label : metric.label) label.name = "model_name";
    }
  }
  std::ranges::move(more, std::back_inserter(families));
}

}  // namespace

struct ModelMetrics::Histograms {
  Histogram &queue, &first_token, &inter_token, &end_to_end, &n_prompt, &n_generated;
};

ModelMetrics::ModelMetrics(std::unique_ptr<Histograms> histograms) : histograms_(std::move(histograms)) {}
ModelMetrics::~ModelMetrics() = default;
void ModelMetrics::queued(double seconds) {
  histograms_->queue.Observe(seconds);
}
void ModelMetrics::first_token(double seconds) {
  histograms_->first_token.Observe(seconds);
}
void ModelMetrics::next_token(double seconds) {
  histograms_->inter_token.Observe(seconds);
}
void ModelMetrics::finished(double seconds, uint32_t n_prompt, uint32_t n_generated) {
  histograms_->end_to_end.Observe(seconds);
  histograms_->n_prompt.Observe(n_prompt);
  histograms_->n_generated.Observe(n_generated);
}

struct Metrics::State {
  prometheus::Registry registry;
  Family<Histogram>& queue =
      histogram("rocmforge_request_queue_seconds", "From arrival at the engine to the first step");
  Family<Histogram>& first_token =
      histogram("rocmforge_time_to_first_token_seconds", "From the request to its first token");
  Family<Histogram>& inter_token =
      histogram("rocmforge_inter_token_latency_seconds", "Between two tokens of a request");
  Family<Histogram>& end_to_end = histogram("rocmforge_request_seconds", "From the request to the end of its answer");
  Family<Histogram>& n_prompt = histogram("rocmforge_request_prompt_tokens", "Prompt tokens of a request");
  Family<Histogram>& n_generated = histogram("rocmforge_request_generation_tokens", "Tokens generated for a request");
  prometheus::Counter& ok = counter("rocmforge_http_responses_ok_total", "Answers below 400");
  prometheus::Counter& client_errors = counter("rocmforge_http_client_errors_total", "Answers from 400 to 499");
  prometheus::Counter& server_errors = counter("rocmforge_http_server_errors_total", "Answers from 500 on");
  prometheus::Gauge& startup = prometheus::BuildGauge()
                                   .Name("rocmforge_startup_seconds")
                                   .Help("From process start until requests were answered")
                                   .Register(registry)
                                   .Add({});
  std::mutex mutex;
  std::map<std::string, ModelMetrics, std::less<>> models;

  Family<Histogram>& histogram(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  }
  prometheus::Counter& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
  }
};

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

ModelMetrics& Metrics::model(std::string_view name) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->models.find(name);
  if (found != state_->models.end()) return found->second;
  const prometheus::Labels labels = {{"model", std::string(name)}};
  State& s = *state_;
  auto made = std::make_unique<ModelMetrics::Histograms>(ModelMetrics::Histograms{
      s.queue.Add(labels, kLatency), s.first_token.Add(labels, kLatency), s.inter_token.Add(labels, kInterToken),
      s.end_to_end.Add(labels, kEndToEnd), s.n_prompt.Add(labels, kTokens), s.n_generated.Add(labels, kTokens)});
  return s.models.try_emplace(std::string(name), std::move(made)).first->second;
}

void Metrics::answered(int status) {
  (status < 400 ? state_->ok : status < 500 ? state_->client_errors : state_->server_errors).Increment();
}

void Metrics::started(double seconds) {
  state_->startup.Set(seconds);
}

std::string Metrics::render(const std::vector<ModelEntry>& models, const HttpStats& http) const {
  std::vector<MetricFamily> families = state_->registry.Collect();
  for (const EngineFamily& engine_family : kEngineFamilies) {
    MetricFamily family{engine_family.name, engine_family.help, engine_family.type, {}};
    const bool is_count = engine_family.type == kCounter;  // counts go on while a model is unloaded
    for (const ModelEntry& entry : models) {
      if (!entry.engine && !(is_count && entry.n_loads > 0)) continue;
      const EngineStats& stats = is_count ? entry.counts : *entry.engine;
      family.metric.push_back(sample(entry.name, engine_family.value(entry, stats), engine_family.type));
    }
    if (!family.metric.empty()) families.push_back(std::move(family));
  }
  families.push_back(
      {"rocmforge_http_connections", "Open connections", kGauge, {sample("", double(http.n_connections), kGauge)}});
  families.push_back({"rocmforge_http_connections_total",
                      "Connections accepted",
                      kCounter,
                      {sample("", double(http.n_accepted), kCounter)}});
  families.push_back({"rocmforge_http_connections_refused_total",
                      "Connections beyond the limit",
                      kCounter,
                      {sample("", double(http.n_refused), kCounter)}});
  const struct {
    const char *name, *help;
    double value;
    MetricType type;
  } more[] = {
      {"rocmforge_http_connections_made_room_total", "Idle connections closed for new ones", double(http.n_made_room),
       kCounter},
      {"rocmforge_http_bodies_dropped_total", "Bodies that arrived too slowly while there was no room",
       double(http.n_dropped_bodies), kCounter},
      {"rocmforge_http_body_bytes", "Bytes of request bodies that are held", double(http.body_bytes), kGauge},
      {"rocmforge_workers_queued", "Work that waits for a worker thread", double(http.workers.n_queued), kGauge},
      {"rocmforge_workers_longest_seconds", "How long the longest work has been running",
       double(http.workers.longest.count()) / 1000, kGauge},
  };
  for (const auto& one : more) families.push_back({one.name, one.help, one.type, {sample("", one.value, one.type)}});
  add_aliases(families);
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return std::move(out).str();
}

}  // namespace rocmforge::server
