#include "server/api/ollama_request.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <utility>

#include "server/api/body_parts.h"
#include "server/api/fields.h"

namespace rocmforge::server {
namespace {

constexpr const char* kCode = "unsupported_feature";

// Options about the machine: the server's own flags decide.
constexpr std::string_view kOfTheMachine[] = {"num_ctx",   "num_batch",  "num_gpu",    "main_gpu",        "use_mmap",
                                              "use_mlock", "num_thread", "numa",       "low_vram",        "num_keep",
                                              "f16_kv",    "vocab_only", "logits_all", "penalize_newline"};
constexpr std::string_view kSampling[] = {"seed",
                                          "temperature",
                                          "top_k",
                                          "top_p",
                                          "min_p",
                                          "typical_p",
                                          "tfs_z",
                                          "repeat_last_n",
                                          "repeat_penalty",
                                          "presence_penalty",
                                          "mirostat",
                                          "mirostat_tau",
                                          "mirostat_eta",
                                          "stop",
                                          "frequency_penalty",
                                          "dry_multiplier",
                                          "xtc_probability",
                                          "top_n_sigma",
                                          "min_tokens",
                                          "dry_base",
                                          "xtc_threshold",
                                          "mirostat_mode",
                                          "stop_token_ids",
                                          "dry_allowed_length",
                                          "dry_penalty_last_n",
                                          "dry_sequence_breakers"};

// "1h30m", "300ms", "-1": Go's form of a duration, or a number of seconds.
std::optional<double> parse_seconds(std::string_view text) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9},
                                                                   {"h", 3600},  {"m", 60},    {"s", 1}};
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  if (text.empty() || text.size() > 40) return std::nullopt;
  double total = 0;
  for (bool is_bare = true; !text.empty(); is_bare = false) {
    double n = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), n, std::chars_format::fixed);
    if (failure != std::errc() || !std::isfinite(n) || n < 0) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (is_bare && text.empty()) return is_negative ? -n : n;
    const auto* const unit = std::ranges::find_if(kUnits, [&](const auto& one) { return text.starts_with(one.first); });
    if (unit == std::end(kUnits)) return std::nullopt;
    total += n * unit->second;
    text.remove_prefix(unit->first.size());
  }
  return is_negative ? -total : total;
}

// Negative: for good.
Duration keep_of(double seconds) {
  constexpr double kMost = 1e8;  // three years
  if (seconds < 0 || seconds > kMost) return Duration::max();
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

class Reader {
 public:
  Reader(JsonObject body, OllamaAnswer kind, OllamaRequest& out) : body_(std::move(body)), kind_(kind), out_(out) {}

  std::optional<ApiError> read() {
    const JsonValue stream = take_member(body_, "stream");
    if (const auto* flag = stream.as<bool>()) {
      out_.is_stream = *flag;
    } else if (!stream.is_null()) {
      refuse("stream", "must be true or false.");
    }
    set("stream", JsonValue(out_.is_stream));
    set("model", take_member(body_, "model"));
    read_keep_alive(take_member(body_, "keep_alive"));
    kind_ == OllamaAnswer::chat ? read_messages() : read_prompt();
    if (!error_) read_format();
    if (!error_) read_think();
    if (!error_) read_options();
    if (!error_) read_rest();
    out_.chat = JsonValue(std::move(chat_));
    return std::move(error_);
  }

 private:
  void refuse(std::string param, const std::string& message, std::string code = {}) {
    if (!error_) error_ = ApiError::bad_param(param, fmt::format("'{}' {}", param, message), std::move(code));
  }
  void ignore(std::string name) {
    if (std::ranges::find(out_.ignored, name) == out_.ignored.end()) out_.ignored.push_back(std::move(name));
  }
  void set(std::string_view key, JsonValue value) {
    if (!value.is_null()) chat_.emplace_back(std::string(key), std::move(value));
  }

  // 0 unloads the model when the request has ended.
  void read_keep_alive(const JsonValue& value) {
    if (value.is_null()) return;
    const auto* text = value.as<std::string>();
    const auto n = as_number(value);
    const std::optional<double> seconds = text ? parse_seconds(*text) : n;
    if (!seconds) return refuse("keep_alive", "must be a number of seconds or a text as \"5m\".");
    out_.is_unload = *seconds == 0;
    if (!out_.is_unload) out_.keep_alive = keep_of(*seconds);
  }

  void check_images(const JsonValue& images, const std::string& at) {
    if (images.is_null() || (images.as<JsonArray>() && images.as<JsonArray>()->empty())) return;
    refuse(at, "is not supported: this server reads no images.", kCode);
  }

  void read_messages() {
    JsonValue messages = take_member(body_, "messages");
    auto* list = array_in(messages);
    if (!list && !messages.is_null()) return refuse("messages", "must be an array of messages.");
    out_.is_load = !list || list->empty();
    if (out_.is_load) return;
    for (size_t i = 0; i < list->size() && !error_; i++) {
      add_message(std::move((*list)[i]), fmt::format("messages[{}]", i));
    }
    set("messages", std::move(messages_));
    JsonValue tools = take_member(body_, "tools");
    if (!tools.is_null() && !tools.as<JsonArray>()) return refuse("tools", "must be an array.");
    if (tools.as<JsonArray>() && !tools.as<JsonArray>()->empty()) set("tools", std::move(tools));
  }

  // Calls have objects as arguments here and may have no ids: results follow in their order.
  void add_message(JsonValue message, const std::string& at) {
    auto* members = object_in(message);
    if (!members) return refuse(at, "must be an object.");
    check_images(take_member(*members, "images"), at + ".images");
    JsonValue calls = take_member(*members, "tool_calls");
    if (auto* list = array_in(calls)) {
      for (size_t i = 0; i < list->size() && !error_; i++) {
        add_call(std::move((*list)[i]), fmt::format("{}.tool_calls[{}]", at, i));
      }
      if (!list->empty()) members->emplace_back("tool_calls", std::move(calls_));
      calls_.clear();
    } else if (!calls.is_null()) {
      return refuse(at + ".tool_calls", "must be an array.");
    }
    if (text_or(message, "role", "") == "tool" && !text_in(message, "tool_call_id")) {
      members->emplace_back("tool_call_id", JsonValue(open_ids_.empty() ? std::string("call_0") : open_ids_.front()));
      if (!open_ids_.empty()) open_ids_.pop_front();
    }
    if (JsonValue name = take_member(*members, "tool_name"); name.as<std::string>()) {
      members->emplace_back("name", std::move(name));
    }
    messages_.push_back(std::move(message));
  }

  void add_call(JsonValue call, const std::string& at) {
    const JsonValue* function = call.find("function");
    const std::string* name = function ? text_in(*function, "name") : nullptr;
    if (!name) return refuse(at + ".function.name", "must be a string.");
    const JsonValue* arguments = function->find("arguments");
    const auto* text = arguments ? arguments->as<std::string>() : nullptr;
    JsonObject made{{"name", JsonValue(*name)},
                    {"arguments", JsonValue(text        ? *text
                                            : arguments ? json_of(*arguments)
                                                        : "{}")}};
    const std::string id = text_or(call, "id", fmt::format("call_{}", n_calls_));
    n_calls_++;
    open_ids_.push_back(id);
    calls_.push_back(JsonObject{{"id", JsonValue(id)}, {"type", JsonValue("function")}, {"function", std::move(made)}});
  }

  void read_prompt() {
    const JsonValue prompt = take_member(body_, "prompt");
    const JsonValue system = take_member(body_, "system");
    const JsonValue raw = take_member(body_, "raw");
    const JsonValue suffix = take_member(body_, "suffix");
    check_images(take_member(body_, "images"), "images");
    const JsonValue own = take_member(body_, "template");
    if (own.as<std::string>() && !own.as<std::string>()->empty()) refuse("template", "is not supported.", kCode);
    const JsonValue context = take_member(body_, "context");
    if (context.as<JsonArray>() && !context.as<JsonArray>()->empty()) {
      refuse("context", "is not supported; use /api/chat.", kCode);
    }
    const auto* text = prompt.as<std::string>();
    if (!text && !prompt.is_null()) return refuse("prompt", "must be a string.");
    if (!suffix.is_null() && !suffix.as<std::string>()) return refuse("suffix", "must be a string.");
    if (suffix.as<std::string>()) out_.suffix = *suffix.as<std::string>();
    out_.is_load = (!text || text->empty()) && out_.suffix.empty();
    if (out_.is_load) return;
    const std::string said = text ? *text : "";
    if ((raw.as<bool>() && *raw.as<bool>()) || !out_.suffix.empty()) {
      out_.raw = said;
      return;
    }
    if (system.as<std::string>() && !system.as<std::string>()->empty()) {
      messages_.push_back(JsonObject{{"role", JsonValue("system")}, {"content", system}});
    }
    messages_.push_back(JsonObject{{"role", JsonValue("user")}, {"content", JsonValue(said)}});
    set("messages", std::move(messages_));
  }

  void read_format() {
    JsonValue format = take_member(body_, "format");
    const auto* name = format.as<std::string>();
    if (format.is_null() || (name && name->empty())) return;
    if (name && *name == "json") return set("response_format", JsonObject{{"type", JsonValue("json_object")}});
    if (!format.as<JsonObject>()) return refuse("format", "must be \"json\" or a JSON Schema.");
    JsonObject schema{{"name", JsonValue("answer")}, {"schema", std::move(format)}};
    set("response_format", JsonObject{{"type", JsonValue("json_schema")}, {"json_schema", std::move(schema)}});
  }

  void read_think() {
    const JsonValue think = take_member(body_, "think");
    if (think.is_null()) return;
    if (const auto* flag = think.as<bool>()) return set("enable_thinking", JsonValue(*flag));
    const auto* level = think.as<std::string>();
    if (!level || (*level != "low" && *level != "medium" && *level != "high")) {
      return refuse("think", "must be true, false, \"low\", \"medium\" or \"high\".");
    }
    set("enable_thinking", JsonValue(true));
    set("reasoning_effort", think);
  }

  void read_options() {
    JsonValue options = take_member(body_, "options");
    if (options.is_null()) return;
    auto* members = object_in(options);
    if (!members) return refuse("options", "must be an object.");
    for (auto& [name, value] : *members) {
      if (name == "num_predict") {
        const auto n = as_integer(value);
        if (!n) return refuse("options.num_predict", "must be an integer.");
        if (*n == 0) return refuse("options.num_predict", "must not be 0.");
        if (*n > 0) set("max_tokens", std::move(value));  // -1, -2: as long as there is room
      } else if (std::ranges::find(kSampling, name) != std::end(kSampling)) {
        set(name, std::move(value));
      } else if (std::ranges::find(kOfTheMachine, name) == std::end(kOfTheMachine)) {
        ignore("options." + name.substr(0, 40));
      }
    }
  }

  void read_rest() {
    const JsonValue logprobs = take_member(body_, "logprobs");
    const JsonValue top = take_member(body_, "top_logprobs");
    set("logprobs", logprobs);
    const bool has_logprobs = logprobs.as<bool>() && *logprobs.as<bool>();
    if (has_logprobs) set("top_logprobs", top);
    for (const auto& [name, value] : body_) ignore(name.substr(0, 40));
  }

  JsonObject body_;
  const OllamaAnswer kind_;
  OllamaRequest& out_;
  std::optional<ApiError> error_;
  JsonObject chat_;
  JsonArray messages_, calls_;
  std::deque<std::string> open_ids_;
  size_t n_calls_ = 0;
};

}  // namespace

std::optional<ApiError> read_ollama(JsonObject body, OllamaAnswer kind, OllamaRequest& out) {
  return Reader(std::move(body), kind, out).read();
}

}  // namespace rocmforge::server
