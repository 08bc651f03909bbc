#pragma once
// An error answer of the API: a status and an error object, by default as OpenAI's clients read it.
//
//   {"error": {"message": "...", "type": "invalid_request_error", "param": "n", "code": null}}
//
// `code` is a string or null, never a number. 5xx only for faults that are not the client's: clients repeat those.

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "server/http/exchange.h"
#include "server/http/request_parser.h"

namespace rocmforge::server {

// The API whose error format is used.
enum class Dialect : uint8_t { openai, anthropic, ollama };

struct ApiError {
  int status = 400;
  std::string message;
  std::string param = {};               // empty: null
  std::string code = {};                // empty: null
  std::optional<int> retry_after = {};  // seconds
  JsonObject more = {};                 // further members of the object

  std::string_view type() const;  // follows from the status
  std::string to_json(Dialect dialect = Dialect::openai, std::string_view request_id = {}) const;
  ResponseHead head() const;

  static ApiError bad_param(std::string param, std::string message, std::string code = {});
  static ApiError not_found(std::string message, std::string code = {});
  static ApiError model_not_found();
  static ApiError unauthorized();
  static ApiError not_admin();
  static ApiError out_of_memory();  // for one request, now
  static ApiError unavailable(std::string message, std::string code, int retry_after);
  static ApiError context_length(uint64_t n_context, uint64_t n_prompt, uint64_t n_answer);
  static ApiError from(const HttpError& error);
  // Reveals nothing about the server's files: the message of a failed load goes to the log.
  static ApiError from(const Error& error);
};

}  // namespace rocmforge::server
