#pragma once
// The body of Anthropic's POST /v1/messages, converted to the form of chat completions.

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "server/api/api_error.h"

namespace rocmforge::server {

struct MessagesRequest {
  JsonValue chat;                    // the body of a chat completion
  std::vector<std::string> ignored;  // names of skipped members
  std::vector<std::string> stop;     // the stop sequences, in the order of the chat's stop strings
  bool is_stream = false;
};

// Splits the body. Returns the error of a body that is refused. `needs_length`: max_tokens must be there.
std::optional<ApiError> read_messages(JsonObject body, bool needs_length, MessagesRequest& out);

// Renames the parameter of an error about the chat's body to the one of this API.
ApiError messages_error(ApiError error);

// Claude Code begins its system prompt with a line about itself that holds a stamp, "cch=1a2b3;", which differs in each
// request. The stamp is replaced by zeros: otherwise no prompt would begin like an earlier one.
void normalise_stamp(std::string& system);

}  // namespace rocmforge::server
