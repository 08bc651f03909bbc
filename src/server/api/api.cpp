#include "server/api/api.h"

#include <algorithm>
#include <random>
#include <span>

#include "base/log.h"
#include "server/api/routes.h"
#include "server/page/page.h"

namespace rocmforge::server {
namespace {

enum class Where : uint8_t { loop, worker };  // loop: a look-up of microseconds

struct Route {
  std::string_view method;
  std::string_view path;  // without /v1; ending with '/': takes the rest as its argument
  void (*call)(const Call&);
  Where where;
  bool is_open = false;  // without a key
  bool is_work = false;  // refused while draining
};

constexpr Route kRoutes[] = {
    {"POST", "/chat/completions", chat_completions, Where::worker, false, true},
    {"POST", "/completions", completions, Where::worker, false, true},
    {"POST", "/embeddings", embeddings, Where::worker, false, true},
    {"GET", "/models", list_models, Where::loop},
    {"POST", "/models/load", load_model, Where::worker, false, true},
    {"POST", "/models/unload", unload_model, Where::worker, false, true},
    {"GET", "/models/", show_model, Where::loop},
    {"POST", "/tokenize", tokenize, Where::worker, false, true},
    {"POST", "/detokenize", detokenize, Where::worker, false, true},
    {"POST", "/apply-template", apply_template, Where::worker, false, true},
    {"POST", "/generate", generate, Where::worker, false, true},
    {"POST", "/generate/stream", generate_stream, Where::worker, false, true},
    {"GET", "/status/", request_status, Where::loop},
    {"POST", "/cancel/", cancel_request, Where::worker},
    {"GET", "/health", health, Where::loop, true},
    {"GET", "/ready", ready, Where::loop, true},
    {"GET", "/metrics", show_metrics, Where::loop},
};

constexpr std::string_view kAllowedHeaders =
    "Authorization, Content-Type, X-Api-Key, OpenAI-Organization, OpenAI-Project, "
    "X-Stainless-Arch, X-Stainless-Lang, X-Stainless-OS, "
    "X-Stainless-Package-Version, X-Stainless-Retry-Count, X-Stainless-Runtime, "
    "X-Stainless-Runtime-Version, X-Stainless-Timeout, X-Stainless-Helper-Method";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// A name inside a path, with %XX decoded once; nothing when that is malformed or hides a control character.
std::optional<std::string> decode_argument(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); i++) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size() || hex_digit(text[i + 1]) < 0 || hex_digit(text[i + 2]) < 0) return {};
      c = static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return {};
    out += c;
  }
  return out;
}

struct Match {
  const Route* route = nullptr;  // of the path and the method
  std::string argument;
  std::string allowed;  // methods that the path has
};

Match find_route(std::string_view method, std::string_view path) {
  Match match;
  if (path.starts_with("/v1/")) path.remove_prefix(3);
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  for (const Route& route : kRoutes) {
    const bool takes_argument = route.path.ends_with('/');
    if (takes_argument ? !path.starts_with(route.path) || path.size() == route.path.size() : path != route.path)
      continue;
    const auto argument = takes_argument ? decode_argument(path.substr(route.path.size())) : std::string();
    if (!argument) continue;
    if (match.allowed.find(route.method) == std::string::npos) {
      match.allowed += (match.allowed.empty() ? "" : ", ") + std::string(route.method);
    }
    if (match.route || (method != route.method && !(method == "HEAD" && route.method == "GET"))) continue;
    match.argument = *argument;
    match.route = &route;
  }
  return match;
}

const PageAsset* find_asset(std::string_view path) {
  const auto assets = page_assets();
  const auto found = std::ranges::find(assets, path, &PageAsset::path);
  return found == assets.end() ? nullptr : &*found;
}

void serve_asset(const Call& call, const PageAsset& asset) {
  ResponseHead head{.content_type = std::string(asset.content_type),
                    .headers = {{"ETag", std::string(asset.etag)},
                                {"Cache-Control", "no-cache"},
                                {"Content-Security-Policy", std::string(kPageSecurityPolicy)},
                                {"X-Frame-Options", "DENY"},
                                {"Referrer-Policy", "no-referrer"}}};
  const std::string* known = call.exchange->request().header("if-none-match");
  if (known && *known == asset.etag) {
    head.status = 304;
    return call.respond(std::move(head), "");
  }
  call.respond(std::move(head), std::string(asset.bytes));
}

void answer_options(const Call& call) {
  std::vector<Header> headers = {{"Allow", "GET, HEAD, POST, OPTIONS"}};
  if (!call.origin.empty()) {
    headers.push_back({"Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS"});
    headers.push_back({"Access-Control-Allow-Headers", std::string(kAllowedHeaders)});
    headers.push_back({"Access-Control-Max-Age", "3600"});
  }
  call.respond({.status = 204, .headers = std::move(headers)}, "");
}

}  // namespace

Api::Api(ModelSource models, ApiOptions options, std::function<void(std::function<void()>)> post_work)
    : shared_(new ApiShared{.models = std::move(models),
                            .options = options,
                            .access = Access(options.access),
                            .metrics = {},
                            .requests = {},
                            .post_work = std::move(post_work)}) {
  std::random_device random;
  shared_->id_salt = uint64_t{random()} << 32 | random();
}

std::pair<ResponseHead, std::string> Api::answer_error(const HttpError& error) const {
  const ApiError said = ApiError::from(error);
  shared_->metrics.answered(said.status);
  return {said.head(), said.to_json()};
}

void Api::begin_drain() {
  shared_->is_draining = true;
}

void Api::handle(std::shared_ptr<Exchange> exchange) const {
  Call call{.shared = shared_,
            .exchange = std::move(exchange),
            .owner = {},
            .argument = {},
            .origin = {},
            .arrived = shared_->options.clock()};
  call.attempt([&] { dispatch(call); });
}

void Api::dispatch(Call& call) const {
  const Request& request = call.exchange->request();
  const Access& access = shared_->access;
  if (!access.is_host_allowed(request)) {
    return call.refuse(
        {.status = 403, .message = "This server does not go by that Host name.", .code = "host_not_allowed"});
  }
  if (const std::string* origin = request.header("origin"); origin && access.is_cors_origin(*origin))
    call.origin = *origin;
  if (request.method == "OPTIONS") return answer_options(call);
  if (request.method == "POST" && !access.is_origin_allowed(request)) {
    return call.refuse(
        {.status = 403, .message = "Pages of this origin may not ask here.", .code = "origin_not_allowed"});
  }

  const std::string_view path = std::string_view(request.target).substr(0, request.target.find('?'));
  const bool is_get = request.method == "GET" || request.method == "HEAD";
  if (const PageAsset* asset = find_asset(path); asset && is_get) return serve_asset(call, *asset);

  Match match = find_route(request.method, path);
  if (!match.route || !match.route->is_open) {
    const auto owner = access.owner(request);
    if (!owner) return call.refuse(ApiError::unauthorized());
    call.owner = *owner;
  }
  if (!match.route) {
    if (match.allowed.empty()) return call.refuse(ApiError::not_found("There is nothing at this path."));
    ApiError error{.status = 405, .message = "This path does not know that method."};
    ResponseHead head = error.head();
    head.headers.push_back({"Allow", match.allowed + ", OPTIONS"});
    return call.respond(std::move(head), error.to_json());
  }
  if (match.route->is_work && shared_->is_draining) {
    return call.refuse(ApiError::unavailable("The server is about to stop.", "draining", 5));
  }
  call.argument = std::move(match.argument);
  if (match.route->where == Where::loop) return match.route->call(call);
  shared_->post_work([route = match.route, call] { call.attempt([&] { route->call(call); }); });
}

}  // namespace rocmforge::server
