#include "doctor/doctor_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/units.h"

namespace rocmforge::doctor {

namespace fs = std::filesystem;

bool Tree::exists(const std::string& path) const {
  std::error_code error;
  return fs::exists(machine_.root + path, error);
}

bool Tree::is_folder(const std::string& path) const {
  std::error_code error;
  return fs::is_directory(machine_.root + path, error);
}

std::string Tree::first_line(const std::string& path) const {
  std::ifstream file(machine_.root + path);
  std::string line;
  std::getline(file, line);
  return line;
}

uint64_t Tree::number(const std::string& path) const {
  return std::strtoull(first_line(path).c_str(), nullptr, 10);
}

std::vector<std::string> Tree::with_prefix(const std::string& folder, std::string_view prefix) const {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(machine_.root + folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(prefix)) found.push_back(folder + "/" + name);
  }
  std::ranges::sort(found);
  return found;
}

bool Tree::has_gpu_of(std::string_view vendor) const {
  return std::ranges::any_of(with_prefix("/sys/bus/pci/devices", ""), [&](const std::string& device) {
    const std::string kind = first_line(device + "/class");
    const bool is_display = kind.starts_with("0x03") || kind.starts_with("0x12");  // accelerators without a screen
    return is_display && first_line(device + "/vendor") == vendor;
  });
}

uint64_t Tree::memory_bytes() const {
  std::istringstream line(first_line("/proc/meminfo"));  // "MemTotal:  65786380 kB"
  std::string name;
  uint64_t n_kib = 0;
  return line >> name >> n_kib && name == "MemTotal:" && n_kib < uint64_t{1} << 44 ? n_kib * 1024 : 0;
}

std::vector<std::string> Tree::amd_nodes() const {
  std::vector<std::string> nodes = with_prefix("/dev/dri", "renderD");
  nodes.insert(nodes.begin(), "/dev/kfd");
  return nodes;
}

std::vector<std::string> Tree::nvidia_nodes() const {
  std::vector<std::string> nodes = with_prefix("/dev", "nvidia");
  std::erase_if(nodes, [&](const std::string& path) { return is_folder(path); });  // /dev/nvidia-caps
  return nodes;
}

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : std::string(between)) + part;
  return out;
}

bool contains(const std::vector<std::string>& list, std::string_view item) {
  return std::ranges::find(list, item) != list.end();
}

std::string module_command(const Machine& machine, std::string_view module) {
  if (!machine.source_tree.empty()) return fmt::format("make -C '{}' gpu", machine.source_tree);
  return fmt::format("sudo apt install ./rocmforge-{}_*.deb (`make deb` in the source tree writes it)", module);
}

bool has_usable_device(const Machine& machine, std::string_view module) {
  if (std::ranges::none_of(machine.gpus.devices, [&](const auto& d) { return d.module == module; })) return false;
  if (module != "hip" || machine.hip_override) return true;
  const auto targets = amd_targets(machine.root);
  return targets.empty() ||
         std::ranges::any_of(targets, [&](const std::string& t) { return contains(machine.hip_targets, t); });
}

void GpuReport::module(const std::optional<std::string>& path) {
  if (path) return add(Health::ok, fmt::format("module {}", *path));
  add(Health::warn, fmt::format("no module librocmforge-{}.so beside the program or in ../lib/rocmforge", module_),
      module_command(machine_, module_));
}

void GpuReport::library(const GpuLibrary& library, std::string_view wanted, const std::string& advice) {
  if (library.name.empty()) {
    const std::string why = library.why_not.empty() ? "" : fmt::format(" ({})", library.why_not);
    return add(Health::warn, fmt::format("no {}{}", wanted, why), advice);
  }
  add(Health::ok, fmt::format("{}{}{}", library.name, library.path.empty() ? "" : " at " + library.path,
                              library.version.empty() ? "" : ", version " + library.version));
}

void GpuReport::nodes(const std::vector<std::string>& paths, std::string_view groups, std::string_view in_a_container) {
  const Tree tree(machine_);
  std::vector<std::string> closed;
  for (const std::string& path : paths) {
    if (!tree.can_open(path)) closed.push_back(path);
  }
  if (closed.empty()) return add(Health::ok, joined(paths));
  add(Health::warn,
      fmt::format("{} cannot be opened by this user, who is in the groups: {}", joined(closed),
                  machine_.user_groups.empty() ? "none" : joined(machine_.user_groups)),
      fmt::format("sudo usermod -aG {} $USER, then log in again; in a container: {}", groups, in_a_container));
}

void GpuReport::devices(std::string_view advice) {
  bool is_told = false;
  for (const gpu::FoundDevice& device : machine_.gpus.devices) {
    if (device.module != module_) continue;
    is_told = true;
    add(Health::ok, fmt::format("{} is {}, {}{}", device.id, device.name, format_bytes(device.memory_bytes),
                                device.is_integrated ? ", integrated: used when there is no card" : ""));
  }
  for (const std::string& absence : machine_.gpus.absences) {
    if (!absence.starts_with(module_ + ":")) continue;
    is_told = true;
    add(Health::warn, absence, std::string(advice));
  }
  if (!is_told) add(Health::warn, "the driver shows no device", std::string(advice));
}

}  // namespace rocmforge::doctor
