#include "server/api/api_error.h"

#include <fmt/core.h>

#include "base/log.h"

namespace rocmforge::server {

std::string_view ApiError::type() const {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "unavailable_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

namespace {

// Anthropic's names of errors follow from the status.
std::string_view anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

}  // namespace

std::string ApiError::to_json(Dialect dialect, std::string_view request_id) const {
  JsonWriter w;
  if (dialect == Dialect::ollama) return w.begin_object().key("error").value(message).end_object().take();
  if (dialect == Dialect::anthropic) {
    // Clients look for these words, and shorten their conversation.
    const std::string said = code == "context_length_exceeded" ? "prompt is too long: " + message : message;
    w.begin_object().key("type").value("error").key("error").begin_object();
    w.key("type").value(anthropic_type(status)).key("message").value(said).end_object();
    w.key("request_id");
    request_id.empty() ? w.null() : w.value(request_id);
    return w.end_object().take();
  }
  w.begin_object().key("error").begin_object();
  w.key("message").value(message).key("type").value(type());
  w.key("param");
  param.empty() ? w.null() : w.value(param);
  w.key("code");
  code.empty() ? w.null() : w.value(code);
  for (const auto& [name, value] : more) w.key(name).value(value);
  return w.end_object().end_object().take();
}

ResponseHead ApiError::head() const {
  ResponseHead head{.status = status};
  if (retry_after) head.headers.push_back({"Retry-After", std::to_string(*retry_after)});
  if (status == 401) head.headers.push_back({"WWW-Authenticate", "Bearer"});
  if (status == 500) head.headers.push_back({"x-should-retry", "false"});
  return head;
}

ApiError ApiError::bad_param(std::string param, std::string message, std::string code) {
  return {.status = 400, .message = std::move(message), .param = std::move(param), .code = std::move(code)};
}
ApiError ApiError::not_found(std::string message, std::string code) {
  return {.status = 404, .message = std::move(message), .code = std::move(code)};
}
ApiError ApiError::model_not_found() {
  return not_found("There is no model of this name; GET /v1/models lists them.", "model_not_found");
}
ApiError ApiError::unauthorized() {
  return {.status = 401,
          .message = "A valid API key is needed: send it as 'Authorization: Bearer KEY'.",
          .code = "invalid_api_key"};
}
ApiError ApiError::not_admin() {
  return {.status = 403,
          .message =
              "Loading and unloading models needs an admin key: start the server with --admin-key or "
              "--admin-key-file, or let every API key do it with --allow-key-admin.",
          .code = "admin_key_required"};
}
ApiError ApiError::out_of_memory() {
  return unavailable("There is not enough memory for this request now.", "out_of_memory", 1);
}
ApiError ApiError::unavailable(std::string message, std::string code, int retry_after) {
  return {.status = 503, .message = std::move(message), .code = std::move(code), .retry_after = retry_after};
}

// Clients look for these very words, and shorten their conversation.
ApiError ApiError::context_length(uint64_t n_context, uint64_t n_prompt, uint64_t n_answer) {
  return {.status = 400,
          .message = fmt::format("This model's maximum context length is {} tokens. However, you requested {} tokens "
                                 "({} in the prompt, {} in the completion).",
                                 n_context, n_prompt + n_answer, n_prompt, n_answer),
          .param = "messages",
          .code = "context_length_exceeded",
          .more = {{"n_prompt_tokens", JsonValue(static_cast<int64_t>(n_prompt))},
                   {"n_ctx", JsonValue(static_cast<int64_t>(n_context))}}};
}

ApiError ApiError::from(const HttpError& error) {
  ApiError out{.status = error.status, .message = fmt::format("The request was refused: {}.", error.reason)};
  if (error.status == 503) out.retry_after = 1;
  if (error.status == 413) out.code = "request_too_large";
  return out;
}

ApiError ApiError::from(const Error& error) {
  switch (error.code) {
    case ErrorCode::queue_full:
      return {.status = 429, .message = "Too many requests are waiting.", .code = "queue_full", .retry_after = 1};
    case ErrorCode::draining:
      return unavailable("The server is about to stop.", "draining", 5);
    case ErrorCode::out_of_memory:
      log(LogLevel::warn, "server: {}", error.message);
      return unavailable("There is not enough memory for this model now.", "out_of_memory", 10);
    case ErrorCode::no_thread:
      log(LogLevel::error, "server: {}", error.message);
      return unavailable("The server may start no more threads; its log says which limits to raise.", "no_thread", 10);
    case ErrorCode::model_not_found:
      return model_not_found();
    case ErrorCode::invalid_argument:
    case ErrorCode::out_of_range:
    case ErrorCode::unsupported:
    case ErrorCode::limit_exceeded:
    case ErrorCode::json_syntax:
    case ErrorCode::json_depth:
    case ErrorCode::json_type:
    case ErrorCode::tokenizer_input:
    case ErrorCode::tokenizer_pattern:
    case ErrorCode::template_syntax:
    case ErrorCode::template_runtime:
    case ErrorCode::template_raised:
    case ErrorCode::template_limit:
      return {.status = 400, .message = error.message, .code = std::string(error_name(error.code))};
    case ErrorCode::model_not_finite:
      return {.status = 500,
              .message = fmt::format("The model computed numbers that are not finite ({}).", error.message),
              .code = "model_not_finite"};
    case ErrorCode::device_failed:
    case ErrorCode::device_unavailable:  // it is opened again with a later request
      log(LogLevel::error, "server: {}", error.message);
      return unavailable("The device that computes has failed; the server's log says why.",
                         std::string(error_name(error.code)), 1);
    default:
      log(LogLevel::error, "server: {}", error.message);
      return {.status = 500,
              .message = fmt::format("The model failed ({}); the server's log says why.", error_name(error.code)),
              .code = std::string(error_name(error.code))};
  }
}

}  // namespace rocmforge::server
