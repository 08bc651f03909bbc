#include "user_folders.h"

#include <cstdlib>

namespace rocmforge::apps {
namespace {

// A relative path in these variables is to be ignored, say the rules.
std::string file_under(const char* variable, const char* fallback, const char* name) {
  const char* folder = std::getenv(variable);
  if (folder && folder[0] == '/') return std::string(folder) + "/rocmforge/" + name;
  const char* home = std::getenv("HOME");
  return home && home[0] == '/' ? std::string(home) + fallback + "/rocmforge/" + name : "";
}

}  // namespace

std::string chat_history_file() {
  return file_under("XDG_STATE_HOME", "/.local/state", "chat_history");
}

std::string user_settings_file() {
  return file_under("XDG_CONFIG_HOME", "/.config", "config.toml");
}

std::string model_cache_file() {
  return file_under("XDG_CACHE_HOME", "/.cache", "models.json");
}

std::string self_test_file() {
  return file_under("XDG_CACHE_HOME", "/.cache", "gpu_self_tests.json");
}

}  // namespace rocmforge::apps
