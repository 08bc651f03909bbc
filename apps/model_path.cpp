#include "model_path.h"

#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "engine/model_list.h"

namespace rocmforge::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBundled = "story-q4_k_m.gguf";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

// Beside the binary, in the source tree around it (it is built in build/PRESET), or where it was installed.
Result<std::string> find_bundled_model() {
  std::error_code error;
  const fs::path binary = fs::read_symlink("/proc/self/exe", error);
  if (error) return Error{ErrorCode::file_not_found, "cannot tell where this program lies: " + error.message()};
  const fs::path folder = binary.parent_path();
  const fs::path up = folder.parent_path();
  for (const fs::path& root : {folder, up.parent_path(), up / "share" / "rocmforge"}) {
    const fs::path candidate = root / "models" / kBundled;
    if (is_file(candidate)) return candidate.string();
  }
  return Error{ErrorCode::file_not_found,
               fmt::format("no model was given, and the bundled models/{} is neither beside {} nor installed", kBundled,
                           binary.string())};
}

std::string models_directory() {
  if (const auto chosen = environment("ROCMFORGE_MODELS"); !chosen.empty()) return std::string(chosen);
  if (const auto home = environment("HOME"); !home.empty()) return std::string(home) + "/.local/share/rocmforge/models";
  return "";
}

Result<std::string> find_model(std::string_view model) {
  if (model.empty()) return find_bundled_model();
  const std::string name(model);
  const std::string directory = models_directory();
  std::error_code ignored;
  if (name.find('/') != std::string::npos || is_file(name)) return name;
  if (!directory.empty()) {
    if (auto found = find_in_folder(directory, name)) return *found;
  }
  // The bundled model is listed under its name as well.
  if (name == kBundled || name + ".gguf" == kBundled) {
    if (auto bundled = find_bundled_model(); bundled.ok()) return bundled;
  }
  if (fs::exists(name, ignored)) return name;  // something that is no file: opening it says what
  const char* advice = name.find(' ') == std::string::npos ? "" : "; a text comes after the model";
  const std::string where =
      directory.empty() ? kNoModelsDirectory : fmt::format("no model of that name in '{}'", directory);
  return Error{
      ErrorCode::file_not_found,
      fmt::format("model '{}': no such file, and {}; `rocmforge models` lists the names{}", name, where, advice)};
}

}  // namespace rocmforge::apps
