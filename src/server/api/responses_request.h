#pragma once
// The body of POST /v1/responses, converted to the form of chat completions.

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/api/api_error.h"
#include "server/api/response_store.h"

namespace rocmforge::server {

struct ResponsesRequest {
  JsonValue chat;                                   // the body of a chat completion
  JsonObject echo;                                  // members of the answer that repeat the request
  std::vector<StoredItem> input;                    // the input's items, with ids
  std::string previous;                             // the response that is continued
  std::set<std::string, std::less<>> custom_tools;  // their input is text, not JSON
  std::vector<std::string> ignored;                 // names of skipped members
  bool is_stored = true, is_background = false, is_stream = false;
  bool seals_reasoning = false;  // the client asked for reasoning that it can send back
};

// Finds what the request refers to.
struct ResponsesHistory {
  // The responses of the previous conversation, the oldest first; none: there is no such conversation.
  std::function<std::optional<std::vector<ResponseStore::Ref>>(std::string_view response_id)> conversation;
  std::function<ResponseStore::Items(const std::set<std::string, std::less<>>& item_ids)> items;
  // Counts a text that the request brings back, before it is parsed: a few bytes of a request can name many large
  // texts. Returns an error where there is no room.
  std::function<std::optional<ApiError>(const std::string& json)> hold;
};

// Splits the body. Returns the error of a body that is refused.
std::optional<ApiError> read_responses(JsonObject body, const ResponsesHistory& history, ResponsesRequest& out);

// Renames the parameter of an error about the chat's body to the one of this API.
ApiError responses_error(ApiError error);

// A text that the client keeps and sends back, and its content; none: the text is not from this server.
std::string seal(std::string_view text);
std::optional<std::string> unseal(std::string_view sealed);

}  // namespace rocmforge::server
