#pragma once
// The bodies of Ollama's /api/chat and /api/generate, converted to the form of chat completions.

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "server/api/api_error.h"

namespace rocmforge::server {

enum class OllamaAnswer : uint8_t { chat, generate };

struct OllamaRequest {
  JsonValue chat;                    // the body of a chat completion
  std::vector<std::string> ignored;  // names of skipped members
  std::optional<std::string> raw;    // generate: the whole prompt, without the model's template
  std::string suffix;                // generate: what follows the text to be inserted
  bool is_stream = true;
  bool is_load = false;                     // no prompt: only to load or unload
  bool is_unload = false;                   // keep_alive is 0
  std::optional<Duration> keep_alive = {};  // else; Duration::max(): for good
};

// Splits the body. Returns the error of a body that is refused.
std::optional<ApiError> read_ollama(JsonObject body, OllamaAnswer kind, OllamaRequest& out);

}  // namespace rocmforge::server
