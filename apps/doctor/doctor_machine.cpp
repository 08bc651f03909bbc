// The machine this program runs on, as doctor.h wants it told.

#include <dlfcn.h>
#include <fmt/core.h>
#include <grp.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "doctor/doctor.h"

namespace rocmforge {
namespace {

std::optional<std::string> find_module(const std::string& name) {
  for (const std::string& folder : gpu::module_folders()) {
    const std::string path = folder + "/librocmforge-" + name + ".so";
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path;
  }
  return std::nullopt;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The first library there is, the file it is, and what its function says when it is asked for a version.
GpuLibrary find_library(const std::vector<std::string>& names, const char* version_function,
                        std::string (*version_text)(int)) {
  GpuLibrary found;
  for (const std::string& name : names) {
    void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays open: drivers do not like to be closed
    if (!library) {
      if (const char* why = ::dlerror(); why && names.size() == 1) found.why_not = why;
      continue;
    }
    found.name = name;
    using GetVersion = int (*)(int*);
    int version = 0;
    const auto get_version = reinterpret_cast<GetVersion>(::dlsym(library, version_function));
    if (get_version && get_version(&version) == 0) found.version = version_text(version);
    Dl_info place{};
    if (get_version && ::dladdr(reinterpret_cast<void*>(get_version), &place) != 0 && place.dli_fname) {
      found.path = place.dli_fname;
    }
    return found;
  }
  return found;
}

// Beside a program that was built here lies CMake's cache, which knows the sources.
std::string source_tree() {
  for (const std::string& folder : gpu::module_folders()) {
    std::ifstream cache(folder + "/CMakeCache.txt");
    constexpr std::string_view kKey = "CMAKE_HOME_DIRECTORY:INTERNAL=";
    for (std::string line; std::getline(cache, line);) {
      if (line.starts_with(kKey)) return line.substr(kKey.size());
    }
  }
  return "";
}

// What files tell.
Machine look_at_files() {
  Machine machine;
  machine.can_open = [](const std::string& path) { return ::access(path.c_str(), R_OK | W_OK) == 0; };
  machine.hip_module = find_module("hip");
  machine.cuda_module = find_module("cuda");
  machine.source_tree = source_tree();
  return machine;
}

std::vector<std::string> group_names() {
  std::vector<gid_t> ids(static_cast<size_t>(std::max(0, ::getgroups(0, nullptr))));
  const int n = ::getgroups(static_cast<int>(ids.size()), ids.data());
  ids.resize(static_cast<size_t>(std::max(0, n)));
  std::vector<std::string> names;
  for (const gid_t id : ids) {
    const struct group* entry = ::getgrgid(id);
    names.push_back(entry ? entry->gr_name : std::to_string(id));
  }
  return names;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

}  // namespace

std::string why_not_gpu() {
  return why_not_gpu(look_at_files());
}

Machine look_at_machine() {
  Machine machine = look_at_files();
  machine.user_groups = group_names();
  machine.hip_targets = words(RF_HIP_TARGETS);
  if (std::string forced = variable("HSA_OVERRIDE_GFX_VERSION"); !forced.empty()) machine.hip_override = forced;
  machine.hip_library_choice = variable("ROCMFORGE_HIP_LIBRARY");
  std::vector<std::string> names = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
  if (!machine.hip_library_choice.empty()) names = {machine.hip_library_choice};
  // 60342134 is 6.3, 13000 is 13.0
  machine.hip_library = find_library(names, "hipRuntimeGetVersion",
                                     [](int v) { return fmt::format("{}.{}", v / 10'000'000, v / 100'000 % 100); });
  machine.cuda_library = find_library({"libcuda.so.1"}, "cuDriverGetVersion",
                                      [](int v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); });
  machine.cuda_library.why_not.clear();  // the name was ours
  machine.gpus = gpu::find_devices(gpu::module_folders());
  return machine;
}

}  // namespace rocmforge
