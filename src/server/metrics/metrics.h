#pragma once
// The server's metrics in Prometheus' text format. Histograms are updated by requests; gauges and counters of models
// are read from their engines by render(). The only label is `model`. The metrics that routers and dashboards made for
// vLLM need are repeated under vLLM's names, with the label `model_name`.
//
// Threads: any. Every call but render() takes well under a microsecond.
// prometheus-cpp is included by metrics.cpp alone.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "engine/registry.h"
#include "server/http/http_server.h"

namespace rocmforge::server {

// One model's histograms. Lives as long as its Metrics.
class ModelMetrics {
 public:
  void queued(double seconds);       // until its first step
  void first_token(double seconds);  // since the request arrived
  void next_token(double seconds);   // since the one before
  void finished(double seconds, uint32_t n_prompt, uint32_t n_generated);

  struct Histograms;
  explicit ModelMetrics(std::unique_ptr<Histograms> histograms);
  ~ModelMetrics();

 private:
  std::unique_ptr<Histograms> histograms_;
};

class Metrics {
 public:
  Metrics();
  ~Metrics();

  ModelMetrics& model(std::string_view name);
  void answered(int status);
  void started(double seconds);  // from process start until requests are answered
  std::string render(const std::vector<ModelEntry>& models, const HttpStats& http) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rocmforge::server
