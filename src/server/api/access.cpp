#include "server/api/access.h"

#include <algorithm>

namespace rocmforge::server {
namespace {

std::string to_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// Without the port.
std::string host_name(std::string_view host) {
  if (host.starts_with('[')) return to_lower(host.substr(0, host.find(']') + 1));
  return to_lower(host.substr(0, host.find(':')));
}

// Equal for all bytes, looked at whether or not the first differ.
bool equal_in_constant_time(const Sha256& a, const Sha256& b) {
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); i++) difference = static_cast<uint8_t>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

}  // namespace

Access::Access(const Rules& rules)
    : hosts_{"localhost", "127.0.0.1", "[::1]"}, origins_(rules.cors_origins), any_host_(rules.any_host) {
  for (const std::string& key : rules.api_keys) digests_.push_back(sha256(key));
  for (const std::string& host : rules.allowed_hosts) hosts_.push_back(to_lower(host));
}

std::optional<std::string> Access::find_key(std::string_view key) const {
  const Sha256 digest = sha256(key);
  bool found = false;
  for (const Sha256& known : digests_) found |= equal_in_constant_time(digest, known);
  if (!found) return {};
  return to_hex(digest).substr(0, 16);
}

std::optional<std::string> Access::owner(const Request& request) const {
  if (!needs_key()) return "";
  std::optional<std::string> owner;
  if (request.count("authorization") > 1 || request.count("x-api-key") > 1) return {};
  if (const std::string* authorization = request.header("authorization")) {
    constexpr std::string_view kScheme = "bearer ";
    if (to_lower(std::string_view(*authorization).substr(0, kScheme.size())) != kScheme) return {};
    owner = find_key(std::string_view(*authorization).substr(kScheme.size()));
    if (!owner) return {};
  }
  if (const std::string* key = request.header("x-api-key")) {
    const auto found = find_key(*key);
    if (!found || (owner && *owner != *found)) return {};
    owner = found;
  }
  return owner;
}

bool Access::is_host_allowed(const Request& request) const {
  const std::string* host = request.header("host");
  if (any_host_ || !host) return true;  // only HTTP/1.0 has none, and no browser speaks that
  return std::ranges::find(hosts_, host_name(*host)) != hosts_.end();
}

bool Access::is_cors_origin(std::string_view origin) const {
  return std::ranges::any_of(origins_, [&](const std::string& allowed) { return allowed == "*" || allowed == origin; });
}

bool Access::is_origin_allowed(const Request& request) const {
  const std::string* origin = request.header("origin");
  if (!origin || is_cors_origin(*origin)) return true;
  const std::string* host = request.header("host");
  const size_t scheme = origin->find("://");
  return host && scheme != std::string::npos && to_lower(origin->substr(scheme + 3)) == to_lower(*host);
}

}  // namespace rocmforge::server
