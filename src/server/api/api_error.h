#pragma once
// What an API says when it cannot do what was asked: a status and the error object OpenAI's clients read.
//
//   {"error": {"message": "...", "type": "invalid_request_error", "param": "n", "code": null}}
//
// `code` is a string or null, never a number; 5xx only for what is not the client's doing, since clients repeat those.

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "server/http/exchange.h"
#include "server/http/request_parser.h"

namespace rocmforge::server {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param = {};               // empty: null
  std::string code = {};                // empty: null
  std::optional<int> retry_after = {};  // seconds
  JsonObject more = {};                 // further members of the object

  std::string_view type() const;  // follows from the status
  std::string to_json() const;
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
  // Says nothing of the server's files: what a model's load complained about goes to the log.
  static ApiError from(const Error& error);
};

}  // namespace rocmforge::server
