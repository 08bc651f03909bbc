#include "serve_keys.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <cstdlib>

#include "base/file.h"
#include "base/log.h"

namespace rocmforge::apps {
namespace {

constexpr uint64_t kMaxKeyFileBytes = 1u << 20;

Result<void> add_key(std::vector<std::string>& keys, std::string key, const std::string& source) {
  if (auto checked = server::ApiKeys::check(key); !checked.ok()) {
    return Error{checked.error().code, fmt::format("{}: {}", source, checked.error().message)};
  }
  keys.push_back(std::move(key));
  return {};
}

void warn_about_mode(const std::string& path) {
  struct stat file{};
  if (::stat(path.c_str(), &file) != 0) return;
  if (file.st_mode & (S_IWGRP | S_IWOTH)) {
    log(LogLevel::warn, "'{}': others may write to this file and so add keys; chmod 600 prevents it", path);
  } else if (file.st_mode & S_IROTH) {
    log(LogLevel::warn, "'{}': every user of this machine may read these keys; chmod 600 prevents it", path);
  }
}

// One key per line; empty lines and those that begin with # are skipped.
Result<void> add_file(std::vector<std::string>& keys, const std::string& path) {
  if (path.empty()) return {};
  warn_about_mode(path);
  const std::string text = TRY(read_whole_file(path, kMaxKeyFileBytes));
  const size_t n_before = keys.size();
  size_t n_lines = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    n_lines++;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    TRY(add_key(keys, std::move(line), fmt::format("'{}' line {}", path, n_lines)));
  }
  if (keys.size() == n_before) {
    return Error{ErrorCode::invalid_argument, fmt::format("'{}' holds no API key", path)};
  }
  return {};
}

Result<void> add_all(std::vector<std::string>& keys, const std::vector<std::string>& given, const char* flag,
                     const char* variable, const std::string& file) {
  for (const std::string& key : given) TRY(add_key(keys, key, flag));
  if (const char* key = std::getenv(variable)) TRY(add_key(keys, key, variable));
  return add_file(keys, file);
}

}  // namespace

Result<server::ApiKeys> read_keys(const KeyFlags& flags) {
  server::ApiKeys keys;
  TRY(add_all(keys.users, flags.api_keys, "--api-key", "ROCMFORGE_API_KEY", flags.api_key_file));
  TRY(add_all(keys.admins, flags.admin_keys, "--admin-key", "ROCMFORGE_ADMIN_KEY", flags.admin_key_file));
  keys.users_are_admins = flags.users_are_admins;
  return keys;
}

}  // namespace rocmforge::apps
