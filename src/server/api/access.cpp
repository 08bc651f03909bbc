#include "server/api/access.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

namespace rocmforge::server {
namespace {

std::string to_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool is_port(std::string_view text) {
  uint32_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && text.size() <= 5 && port <= 65535;
}

// The name in "name", "name:port", "[address]" or "[address]:port", in lower case; nothing for any other form.
std::optional<std::string> host_name(std::string_view host) {
  const size_t end = host.starts_with('[') ? host.find(']') + 1 : std::min(host.find(':'), host.size());
  if (end == 0) return {};  // no closing bracket, or no name
  const std::string_view rest = host.substr(end);
  if (!rest.empty() && !(rest[0] == ':' && is_port(rest.substr(1)))) return {};
  return to_lower(host.substr(0, end));
}

// Equal for all bytes, looked at whether or not the first differ.
bool equal_in_constant_time(const Sha256& a, const Sha256& b) {
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); i++) difference = static_cast<uint8_t>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

}  // namespace

Result<void> ApiKeys::check(std::string_view key) {
  if (key.size() < kMinBytes) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("server: a key has {} bytes, and a key needs at least {}", key.size(), kMinBytes)};
  }
  const bool is_plain = std::ranges::all_of(key, [](char c) { return (c < 0 || c >= 0x20) && c != 0x7f; });
  if (!is_plain || key.front() == ' ' || key.back() == ' ') {
    return Error{ErrorCode::invalid_argument,
                 "server: a key holds a character that clients cannot send; use letters, digits and punctuation"};
  }
  return {};
}

Access::Access(const Rules& rules)
    : hosts_{"localhost", "127.0.0.1", "[::1]"}, origins_(rules.cors_origins), any_host_(rules.any_host) {
  for (const std::string& host : rules.allowed_hosts) hosts_.push_back(to_lower(host));
  set_keys(rules.keys);
}

void Access::set_keys(const ApiKeys& keys) {
  auto digests = std::make_shared<Digests>();
  for (const std::string& key : keys.users) digests->users.push_back(sha256(key));
  for (const std::string& key : keys.admins) digests->admins.push_back(sha256(key));
  digests->users_are_admins = keys.users_are_admins;
  const std::lock_guard lock(mutex_);
  digests_ = std::move(digests);
}

std::shared_ptr<const Access::Digests> Access::digests() const {
  const std::lock_guard lock(mutex_);
  return digests_;
}

bool Access::needs_key() const {
  return !digests()->users.empty();
}

std::optional<Client> Access::Digests::find(std::string_view key) const {
  if (key.size() < ApiKeys::kMinBytes) return {};
  const Sha256 digest = sha256(key);
  bool is_user = false, is_admin = false;
  for (const Sha256& known : users) is_user |= equal_in_constant_time(digest, known);
  for (const Sha256& known : admins) is_admin |= equal_in_constant_time(digest, known);
  if (!is_user && !is_admin) return {};
  return Client{.owner = to_hex(digest).substr(0, 16), .is_admin = is_admin || (is_user && users_are_admins)};
}

uint64_t Client::number() const {
  uint64_t out = 0;
  std::from_chars(owner.data(), owner.data() + owner.size(), out, 16);
  return out;
}

std::optional<Client> Access::identify(const Request& request) const {
  const auto known = digests();
  std::optional<Client> client;
  bool is_good = request.count("authorization") <= 1 && request.count("x-api-key") <= 1;
  if (const std::string* authorization = request.header("authorization"); authorization && is_good) {
    constexpr std::string_view kScheme = "bearer ";
    const std::string_view given = *authorization;
    if (to_lower(given.substr(0, kScheme.size())) == kScheme) client = known->find(given.substr(kScheme.size()));
    is_good = client.has_value();
  }
  if (const std::string* key = request.header("x-api-key"); key && is_good) {
    const auto found = known->find(*key);
    is_good = found && (!client || client->owner == found->owner);
    client = found;
  }
  if (is_good && client) return client;
  if (!known->users.empty()) return {};
  // Clients that always send some key, whatever the server, are served without one, too.
  return Client{.is_admin = known->admins.empty()};
}

bool Access::is_host_allowed(const Request& request) const {
  const std::string* host = request.header("host");
  if (any_host_ || !host) return true;  // only HTTP/1.0 has none, and no browser speaks that
  const auto name = host_name(*host);
  return name && std::ranges::find(hosts_, *name) != hosts_.end();
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
