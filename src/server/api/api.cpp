#include "server/api/api.h"

#include <algorithm>
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
  bool is_open = false;   // without a key
  bool is_work = false;   // refused while draining
  bool is_probe = false;  // asked every few seconds: logged for debug, and open on the metrics port
  bool is_admin = false;  // changes what everybody is served with
};

constexpr Route kRoutes[] = {
    {"POST", "/chat/completions", chat_completions, Where::worker, false, true},
    {"POST", "/responses", create_response, Where::worker, false, true},
    {"POST", "/responses/input_tokens", count_response_tokens, Where::worker, false, true},
    {"GET", "/responses/", show_response, Where::worker},
    {"DELETE", "/responses/", delete_response, Where::worker},
    {"POST", "/responses/", cancel_response, Where::worker},
    {"POST", "/messages", create_message, Where::worker, false, true},
    {"POST", "/messages/count_tokens", count_message_tokens, Where::worker, false, true},
    {"POST", "/api/chat", ollama_chat, Where::worker, false, true},
    {"POST", "/api/generate", ollama_generate, Where::worker, false, true},
    {"POST", "/api/embed", ollama_embed, Where::worker, false, true},
    {"POST", "/api/embeddings", ollama_embeddings, Where::worker, false, true},
    {"POST", "/api/show", ollama_show, Where::worker, false, true},
    {"GET", "/api/tags", ollama_tags, Where::loop},
    {"GET", "/api/ps", ollama_ps, Where::loop},
    {"GET", "/api/version", ollama_version, Where::loop},
    {"POST", "/api/pull", ollama_not_done, Where::loop},
    {"POST", "/api/push", ollama_not_done, Where::loop},
    {"POST", "/api/create", ollama_not_done, Where::loop},
    {"POST", "/api/copy", ollama_not_done, Where::loop},
    {"DELETE", "/api/delete", ollama_not_done, Where::loop},
    {"POST", "/completions", completions, Where::worker, false, true},
    {"POST", "/completion", llama_completion, Where::worker, false, true},
    {"POST", "/infill", llama_infill, Where::worker, false, true},
    {"GET", "/props", llama_props, Where::worker, false, true},
    {"GET", "/slots", llama_slots, Where::loop},
    {"POST", "/embeddings", embeddings, Where::worker, false, true},
    {"POST", "/rerank", rerank, Where::worker, false, true},
    {"POST", "/v2/rerank", rerank, Where::worker, false, true},
    {"POST", "/reranking", rerank, Where::worker, false, true},
    {"GET", "/models", list_models, Where::loop},
    {"POST", "/models/load", load_model, Where::worker, false, true, false, true},
    {"POST", "/models/unload", unload_model, Where::worker, false, true, false, true},
    {"GET", "/models/", show_model, Where::loop},
    {"POST", "/tokenize", tokenize, Where::worker, false, true},
    {"POST", "/detokenize", detokenize, Where::worker, false, true},
    {"POST", "/apply-template", apply_template, Where::worker, false, true},
    {"POST", "/parse", parse_text, Where::worker, false, true},
    {"POST", "/schema/check", check_schema, Where::worker, false, true},
    {"POST", "/generate", generate, Where::worker, false, true},
    {"POST", "/generate/stream", generate_stream, Where::worker, false, true},
    {"GET", "/status/", request_status, Where::loop},
    {"POST", "/cancel/", cancel_request, Where::worker},
    {"GET", "/health", health, Where::loop, true, false, true},
    {"GET", "/ready", ready, Where::loop, true, false, true},
    {"GET", "/metrics", show_metrics, Where::loop, false, false, true},
};

constexpr size_t kMaxUnreadBodyBytes = 4u << 10;  // of requests whose body means nothing
constexpr size_t kLargeBodyBytes = 64u << 10;     // from here on a request is large work

constexpr std::string_view kAllowedHeaders =
    "Authorization, Content-Type, X-Api-Key, X-Request-Id, OpenAI-Organization, OpenAI-Project, "
    "Anthropic-Version, Anthropic-Beta, Anthropic-Dangerous-Direct-Browser-Access, X-Stainless-Arch, X-Stainless-Lang, "
    "X-Stainless-OS, "
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

// Paths of other APIs, as their clients ask for them. Without /v1 where ours may go without.
struct Foreign {
  std::string_view prefix;  // of the path
  std::string_view message;
};
constexpr Foreign kForeign[] = {
    {"/api/", "Ollama's API has nothing at this path here."},
    {"/messages", "Of Anthropic's API there are /v1/messages, /v1/messages/count_tokens and /v1/models."},
    {"/audio/", "Audio is not offered."},
    {"/images/", "Images are not offered."},
    {"/moderations", "Moderation is not offered."},
    {"/assistants", "The Assistants API is not offered; use /v1/chat/completions."},
};

std::string_view path_of(const Request& request) {
  return std::string_view(request.target).substr(0, request.target.find('?'));
}

// The clients of a path read errors in one shape.
Dialect dialect_of(const Request& request) {
  std::string_view path = path_of(request);
  if (path.starts_with("/api/")) return Dialect::ollama;
  if (path.starts_with("/v1/")) path.remove_prefix(3);
  if (path == "/messages" || path.starts_with("/messages/")) return Dialect::anthropic;
  const bool is_models = path == "/models" || path.starts_with("/models/");
  return is_models && request.header("anthropic-version") ? Dialect::anthropic : Dialect::openai;
}

void refuse_path(const Call& call, std::string_view path) {
  if (path.starts_with("/v1/")) path.remove_prefix(3);
  const auto* const found =
      std::ranges::find_if(kForeign, [&](const Foreign& one) { return path.starts_with(one.prefix); });
  if (found == std::end(kForeign)) return call.refuse(ApiError::not_found("There is nothing at this path."));
  call.refuse(ApiError::not_found(std::string(found->message), "api_not_offered"));
}

void answer_options(const Call& call) {
  std::vector<Header> headers = {{"Allow", "GET, HEAD, POST, DELETE, OPTIONS"}};
  if (!call.origin.empty()) {
    headers.push_back({"Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE, OPTIONS"});
    headers.push_back({"Access-Control-Allow-Headers", std::string(kAllowedHeaders)});
    headers.push_back({"Access-Control-Max-Age", "3600"});
  }
  call.respond({.status = 204, .headers = std::move(headers)}, "");
}

}  // namespace

// What becomes of a request, by its head alone.
struct Api::Judgement {
  std::optional<ApiError> refusal;
  std::vector<Header> headers;   // of the refusal
  bool is_unknown_path = false;  // refuse_path() says the refusal
  bool is_options = false;       // else an asset, else a route
  const PageAsset* asset = nullptr;
  Match match;
  std::optional<Client> client;  // nothing: it is open to all, and no good key came with it
  std::string origin;            // as Call's
};

Api::Api(ModelSource models, ApiOptions options, PostWork post_work, TryPostWork try_post_work)
    : shared_(new ApiShared{.models = std::move(models),
                            .options = options,
                            .access = Access(options.access),
                            .metrics = {},
                            .requests = {},
                            .post = std::move(post_work),
                            .try_post_work = std::move(try_post_work),
                            .parsed = std::make_shared<ByteBudget>(options.max_bytes_of_parsed),
                            .answers = std::make_shared<ByteBudget>(options.max_bytes_of_answers)}) {
  if (!shared_->try_post_work) {
    shared_->try_post_work = [post = shared_->post](std::function<void()> work, WorkSize size) {
      post(std::move(work), size);
      return true;
    };
  }
}

std::pair<ResponseHead, std::string> Api::answer_error(const HttpError& error) const {
  const ApiError said = ApiError::from(error);
  shared_->metrics.answered(said.status);
  ResponseHead head = said.head();
  const std::string id = make_id("req");
  head.headers.push_back({"X-Request-Id", id});
  const LogField fields[] = {{"id", id}, {"status", static_cast<uint64_t>(said.status)}, {"error", said.message}};
  log_event(said.status >= 500 ? LogLevel::warn : LogLevel::info, "request refused", fields);
  return {std::move(head), said.to_json()};
}

void Api::set_keys(const ApiKeys& keys) {
  shared_->access.set_keys(keys);
}

void Api::begin_drain() {
  shared_->is_draining = true;
}

void Api::handle(std::shared_ptr<Exchange> exchange, Port port) const {
  Call call;
  call.shared = shared_;
  call.exchange = std::move(exchange);
  call.arrived = shared_->options.clock();
  try {
    call.record = std::make_shared<RequestRecord>(call.exchange->request(), shared_->options.clock);
  } catch (const std::exception&) {  // without memory for a record there is none for an answer
    return call.exchange->cancel();
  }
  call.exchange->hold_answer(ByteHold(shared_->answers));
  call.attempt([&] { dispatch(call, port); });
}

std::optional<size_t> Api::judge_head(const Request& head, Port port) const {
  const Judgement judged = judge(head, port);
  if (judged.refusal) return {};
  return judged.match.route && judged.match.route->is_work ? SIZE_MAX : kMaxUnreadBodyBytes;
}

// Only the routes of probes. Pages of other origins get no leave to read them.
void Api::judge_metrics_port(const Request& request, Judgement& out) const {
  out.match = find_route(request.method, path_of(request));
  if (out.match.route && out.match.route->is_probe) {
    out.client = shared_->access.identify(request);
    return;
  }
  out.refusal = ApiError::not_found("This port has /metrics, /health and /ready.");
}

Api::Judgement Api::judge(const Request& request, Port port) const {
  const Access& access = shared_->access;
  Judgement out;
  if (!access.is_host_allowed(request)) {
    out.refusal = {.status = 403, .message = "This server does not go by that Host name.", .code = "host_not_allowed"};
    return out;
  }
  if (port == Port::metrics) {
    judge_metrics_port(request, out);
    return out;
  }
  if (const std::string* origin = request.header("origin"); origin && access.is_cors_origin(*origin))
    out.origin = *origin;
  out.is_options = request.method == "OPTIONS";
  if (out.is_options) return out;
  if ((request.method == "POST" || request.method == "DELETE") && !access.is_origin_allowed(request)) {
    out.refusal = {.status = 403, .message = "Pages of this origin may not ask here.", .code = "origin_not_allowed"};
    return out;
  }

  const std::string_view path = path_of(request);
  const bool is_get = request.method == "GET" || request.method == "HEAD";
  if (is_get) out.asset = find_asset(path);
  if (out.asset) return out;

  out.match = find_route(request.method, path);
  const Route* route = out.match.route;
  out.client = access.identify(request);
  if (!out.client && !(route && route->is_open)) {
    out.refusal = ApiError::unauthorized();
    return out;
  }
  if (!route && out.match.allowed.empty()) {
    out.refusal = ApiError::not_found("There is nothing at this path.");
    out.is_unknown_path = true;
  } else if (!route) {
    out.refusal = {.status = 405, .message = "This path does not know that method."};
    out.headers.push_back({"Allow", out.match.allowed + ", OPTIONS"});
  } else if (route->is_admin && !(out.client && out.client->is_admin)) {
    out.refusal = ApiError::not_admin();
  } else if (route->is_work && shared_->is_draining) {
    out.refusal = ApiError::unavailable("The server is about to stop.", "draining", 5);
  }
  return out;
}

void Api::dispatch(Call& call, Port port) const {
  Judgement judged = judge(call.exchange->request(), port);
  call.origin = std::move(judged.origin);
  call.dialect = dialect_of(call.exchange->request());
  call.is_identified = judged.client.has_value();
  if (judged.client) {
    call.client = std::move(*judged.client);
    call.record->note([&](RequestRecord::Facts& facts) { facts.client = call.client.label(); });
  }
  if (judged.is_unknown_path) return refuse_path(call, path_of(call.exchange->request()));
  if (judged.refusal) {
    call.record->note([&](RequestRecord::Facts& facts) { facts.error = judged.refusal->message; });
    ResponseHead head = judged.refusal->head();
    head.headers.insert(head.headers.end(), judged.headers.begin(), judged.headers.end());
    return call.respond(std::move(head), judged.refusal->to_json(call.dialect, call.record->id()));
  }
  if (judged.is_options) return answer_options(call);
  if (judged.asset) {
    call.record->note([](RequestRecord::Facts& facts) { facts.is_probe = true; });
    return serve_asset(call, *judged.asset);
  }
  call.argument = std::move(judged.match.argument);
  const Route* route = judged.match.route;
  call.record->note([&](RequestRecord::Facts& facts) { facts.is_probe = route->is_probe; });
  if (route->where == Where::loop) return route->call(call);
  if (call.exchange->request().body.size() >= kLargeBodyBytes) call.work_size = WorkSize::large;
  const auto work = [route, call] {
    if (!call.is_abandoned()) call.attempt([&] { route->call(call); });
  };
  const bool is_taken = shared_->try_post_work(work, call.work_size);
  if (!is_taken) call.refuse(ApiError::unavailable("Too many requests wait to be read.", "server_busy", 1));
}

}  // namespace rocmforge::server
