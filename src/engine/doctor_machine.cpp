// The machine this program runs on, as doctor.h wants it told.

#include <dlfcn.h>
#include <fmt/core.h>
#include <grp.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "engine/doctor.h"

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

// The first library there is, and what its function says when it is asked for a version.
GpuLibrary find_library(std::initializer_list<const char*> names, const char* version_function,
                        std::string (*version_text)(int)) {
  for (const char* name : names) {
    void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);  // stays open: drivers do not like to be closed
    if (!library) continue;
    GpuLibrary found{.name = name};
    using GetVersion = int (*)(int*);
    int version = 0;
    const auto get_version = reinterpret_cast<GetVersion>(::dlsym(library, version_function));
    if (get_version && get_version(&version) == 0) found.version = version_text(version);
    return found;
  }
  return {};
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

std::optional<std::string> unused_gpu_hint() {
  Machine machine;
  machine.hip_module = find_module("hip");
  machine.cuda_module = find_module("cuda");
  return unused_gpu_hint(machine);
}

Machine look_at_machine() {
  Machine machine;
  machine.can_open = [](const std::string& path) { return ::access(path.c_str(), R_OK | W_OK) == 0; };
  machine.user_groups = group_names();
  machine.hip_module = find_module("hip");
  machine.cuda_module = find_module("cuda");
  machine.hip_targets = words(RF_HIP_TARGETS);
  // 60342134 is 6.3, 13000 is 13.0
  machine.hip_library =
      find_library({"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}, "hipRuntimeGetVersion",
                   [](int v) { return fmt::format("{}.{}", v / 10'000'000, v / 100'000 % 100); });
  machine.cuda_library = find_library({"libcuda.so.1"}, "cuDriverGetVersion",
                                      [](int v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); });
  machine.gpus = gpu::find_devices(gpu::module_folders());
  return machine;
}

}  // namespace rocmforge
