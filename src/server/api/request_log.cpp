#include "server/api/request_log.h"

#include <algorithm>
#include <exception>
#include <vector>

#include "base/log.h"
#include "server/api/call.h"

namespace rocmforge::server {
namespace {

constexpr size_t kMaxIdBytes = 64;
constexpr size_t kMaxPathBytes = 256, kMaxErrorBytes = 256;
constexpr int kClientLeft = 499;  // nginx' number for it

bool is_plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
         c == '.' || c == ':';
}

// Without the query, which may hold anything.
std::string path_of(const Request& request) {
  return request.target.substr(0, std::min(request.target.find('?'), kMaxPathBytes));
}

}  // namespace

std::string request_id_of(const Request& request) {
  const std::string* given = request.header("x-request-id");
  const bool is_good = given && request.count("x-request-id") == 1 && !given->empty() && given->size() <= kMaxIdBytes &&
                       std::ranges::all_of(*given, is_plain);
  return is_good ? *given : make_id("req");
}

RequestRecord::RequestRecord(const Request& request, Clock clock)
    : id_(request_id_of(request)),
      method_(request.method),
      path_(path_of(request)),
      clock_(std::move(clock)),
      arrived_(clock_()) {}

RequestRecord::~RequestRecord() {
  try {
    write();
  } catch (const std::exception&) {  // no memory for the line
  }
}

void RequestRecord::write() const {
  const int status = facts_.status == 0 ? kClientLeft : facts_.status;
  const bool is_trouble = status >= 500 || status == 429;
  const LogLevel level = is_trouble ? LogLevel::warn : facts_.is_probe ? LogLevel::debug : LogLevel::info;
  if (!log_enabled(level)) return;
  std::vector<LogField> fields = {{"id", id_}};
  const auto add_text = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) fields.push_back({name, value});
  };
  const auto add_count = [&](std::string_view name, const std::optional<uint64_t>& n) {
    if (n) fields.push_back({name, *n});
  };
  const auto add_time = [&](std::string_view name, const std::optional<double>& time) {
    if (time) fields.push_back({name, *time});
  };
  add_text("client", facts_.client);
  add_text("method", method_);
  add_text("path", path_);
  fields.push_back({"status", static_cast<uint64_t>(status)});
  add_text("model", facts_.model);
  add_text("answer", facts_.answer_id);
  add_count("prompt_tokens", facts_.n_prompt);
  add_count("cached_tokens", facts_.n_cached);
  add_count("completion_tokens", facts_.n_generated);
  add_time("queue_seconds", facts_.queue_seconds);
  add_time("first_token_seconds", facts_.first_token_seconds);
  add_time("total_seconds", seconds(clock_() - arrived_));
  add_text("finish_reason", facts_.finish_reason);
  add_text("error", std::string_view(facts_.error).substr(0, kMaxErrorBytes));
  log_event(level, "request", fields);
}

}  // namespace rocmforge::server
