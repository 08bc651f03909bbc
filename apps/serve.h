#pragma once
// The `serve` command.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "engine_commands.h"
#include "serve_keys.h"
#include "server/http/tls.h"

namespace rocmforge::apps {

struct ServeCommand {
  EngineFlags engine;               // for every model; its own `model` is not used
  std::vector<std::string> models;  // paths or names; none: the bundled model
  std::string host = "127.0.0.1";
  uint16_t port = 8080;                  // 0: any free one
  std::optional<uint16_t> metrics_port;  // /metrics without a key; 0: any free one
  KeyFlags keys;
  server::TlsFiles tls;      // both empty: HTTP as it is
  SamplingOptions sampling;  // where requests say nothing
  std::vector<std::string> cors_origins;
  std::vector<std::string> allowed_hosts;
  uint32_t max_running = 64;  // requests in one step
  uint32_t max_queued = 512;
  uint64_t max_queued_tokens = 1u << 20;
  std::vector<std::string> aliases;  // NAME=MODEL, or NAME of the first
  std::string chat_template_file;    // instead of every model's own; empty: none
  std::string tool_format;           // of every model; empty: as its template says
  int overload_status = 429;         // of a request that finds the queue full
  uint32_t n_kv_tokens = 0;          // of all requests together; 0: what memory allows
  uint64_t memory_budget = 0;        // of all models together; 0: no limit
  uint32_t ttl_seconds = 0;          // a model nobody asked for is unloaded; 0: never
  uint32_t drain_seconds = 30;       // after SIGTERM
  uint32_t rescan_seconds = 5;       // between looks at the models directory; 0: none
  uint32_t ping_seconds = 5;         // of a stream's silence
  uint32_t max_connections = 1024;
  uint64_t max_body_bytes = 16u << 20;
  ServiceLog::Options log;
};
Result<void> serve(const ServeCommand& options);

}  // namespace rocmforge::apps
