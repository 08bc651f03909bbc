#include "engine/doctor.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "base/units.h"

namespace rocmforge {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLittleMemory = 2u << 30;

// Files of a tree that may be another machine's.
class Tree {
 public:
  explicit Tree(const Machine& machine) : machine_(machine) {}

  bool exists(const std::string& path) const {
    std::error_code error;
    return fs::exists(machine_.root + path, error);
  }
  bool can_open(const std::string& path) const { return machine_.can_open(machine_.root + path); }
  std::string first_line(const std::string& path) const {
    std::ifstream file(machine_.root + path);
    std::string line;
    std::getline(file, line);
    return line;
  }
  // "/dev/dri/renderD128", ... sorted
  std::vector<std::string> with_prefix(const std::string& folder, std::string_view prefix) const {
    std::vector<std::string> found;
    std::error_code error;
    for (fs::directory_iterator at(machine_.root + folder, error), end; !error && at != end; at.increment(error)) {
      const std::string name = at->path().filename().string();
      if (name.starts_with(prefix)) found.push_back(folder + "/" + name);
    }
    std::ranges::sort(found);
    return found;
  }
  // A PCI display device of this vendor.
  bool has_gpu_of(std::string_view vendor) const {
    for (const std::string& device : with_prefix("/sys/bus/pci/devices", "")) {
      const bool is_display = first_line(device + "/class").starts_with("0x03") ||
                              first_line(device + "/class").starts_with("0x12");  // accelerators without a screen
      if (is_display && first_line(device + "/vendor") == vendor) return true;
    }
    return false;
  }

 private:
  const Machine& machine_;
};

std::string joined(const std::vector<std::string>& parts, std::string_view between = ", ") {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : std::string(between)) + part;
  return out;
}

bool contains(const std::vector<std::string>& list, std::string_view item) {
  return std::ranges::find(list, item) != list.end();
}

// One vendor's way from the card to our kernels, told in the order in which it is built up.
class GpuReport {
 public:
  GpuReport(std::vector<Finding>& out, std::string module, const Machine& machine)
      : out_(out), module_(std::move(module)), machine_(machine) {}

  void add(Health health, std::string fact, std::string advice = {}) {
    out_.push_back({health, module_, std::move(fact), std::move(advice)});
  }

  void module(const std::optional<std::string>& path) {
    if (path) return add(Health::ok, fmt::format("module {}", *path));
    add(Health::warn, fmt::format("no module librocmforge-{}.so beside the program or in ../lib/rocmforge", module_),
        "build it in the source tree: make gpu");
  }

  void library(const GpuLibrary& library, std::string_view wanted, std::string_view advice) {
    if (library.name.empty()) return add(Health::warn, fmt::format("no {}", wanted), std::string(advice));
    add(Health::ok, fmt::format("{}{}", library.name, library.version.empty() ? "" : ", version " + library.version));
  }

  // Whether the nodes can be opened; a node that cannot is a matter of groups.
  void nodes(const std::vector<std::string>& paths, const Tree& tree, std::string_view groups) {
    std::vector<std::string> closed;
    for (const std::string& path : paths) {
      if (!tree.can_open(path)) closed.push_back(path);
    }
    if (closed.empty()) return add(Health::ok, joined(paths));
    add(Health::warn,
        fmt::format("{} cannot be opened by this user, who is in the groups: {}", joined(closed),
                    machine_.user_groups.empty() ? "none" : joined(machine_.user_groups)),
        fmt::format("sudo usermod -aG {} $USER, then log in again; in a container pass the devices and their groups",
                    groups));
  }

  void devices() {
    bool is_told = false;
    for (const gpu::FoundDevice& device : machine_.gpus.devices) {
      if (device.module != module_) continue;
      is_told = true;
      add(Health::ok, fmt::format("{} is {}, {}", device.id, device.name, format_bytes(device.memory_bytes)));
    }
    for (const std::string& absence : machine_.gpus.absences) {
      if (!absence.starts_with(module_ + ":")) continue;
      is_told = true;
      add(Health::warn, absence, "the CPU runs every model");
    }
    if (!is_told) add(Health::warn, "the driver shows no device", "the CPU runs every model");
  }

 private:
  std::vector<Finding>& out_;
  const std::string module_;
  const Machine& machine_;
};

// "11.0.0": what HSA_OVERRIDE_GFX_VERSION takes for a covered target of the same generation.
std::optional<std::string> override_for(const std::string& target, const std::vector<std::string>& covered) {
  for (const std::string& other : covered) {
    // gfx1103 and gfx1100: the same but for the stepping.
    if (other.size() != target.size() || other.substr(0, other.size() - 1) != target.substr(0, target.size() - 1)) {
      continue;
    }
    const std::string digits = other.substr(3);
    const auto step = std::to_string(std::stoi(digits.substr(digits.size() - 1), nullptr, 16));
    return digits.substr(0, digits.size() - 2) + "." + digits.substr(digits.size() - 2, 1) + "." + step;
  }
  return std::nullopt;
}

// An integrated GPU has little memory of its own and takes the rest from the system's, up to a limit of the kernel's.
void examine_shared_memory(GpuReport& report, const Tree& tree) {
  constexpr uint64_t kOwnMemory = uint64_t{4} << 30;  // a card has more
  for (const std::string& card : tree.with_prefix("/sys/class/drm", "card")) {
    const std::string own = tree.first_line(card + "/device/mem_info_vram_total");
    const std::string shared = tree.first_line(card + "/device/mem_info_gtt_total");
    const uint64_t n_own = std::strtoull(own.c_str(), nullptr, 10);
    const uint64_t n_shared = std::strtoull(shared.c_str(), nullptr, 10);
    if (n_own == 0 || n_own >= kOwnMemory || n_shared == 0) continue;
    report.add(Health::ok,
               fmt::format("{} has {} of its own and may take {} of the system's memory; kernel {}",
                           card.substr(card.rfind('/') + 1), format_bytes(n_own), format_bytes(n_shared),
                           tree.first_line("/proc/sys/kernel/osrelease")),
               "for more, add ttm.pages_limit=N to the kernel's command line, N in pages of 4 KiB");
  }
}

void examine_hip(std::vector<Finding>& out, const Machine& machine) {
  const Tree tree(machine);
  GpuReport report(out, "hip", machine);
  if (tree.exists("/dev/dxg") && !tree.exists("/dev/kfd")) {
    return report.add(Health::warn, "this is WSL2: an AMD GPU would be behind /dev/dxg, not /dev/kfd",
                      "install ROCm for WSL with librocdxg; before ROCm 7.13 also set HSA_ENABLE_DXG_DETECTION=1");
  }
  if (!tree.has_gpu_of("0x1002") && !tree.exists("/dev/kfd")) {
    return report.add(Health::ok, "no AMD GPU in this machine");
  }
  report.module(machine.hip_module);
  if (!tree.exists("/dev/kfd")) {
    report.add(Health::warn, "no /dev/kfd: the amdgpu driver is not loaded, or does not do compute",
               "load amdgpu (sudo modprobe amdgpu); in a container pass --device /dev/kfd --device /dev/dri");
  } else {
    std::vector<std::string> nodes = tree.with_prefix("/dev/dri", "renderD");
    nodes.insert(nodes.begin(), "/dev/kfd");
    report.nodes(nodes, tree, "render,video");
  }
  examine_shared_memory(report, tree);
  for (const std::string& target : amd_targets(machine.root)) {
    if (contains(machine.hip_targets, target)) {
      report.add(Health::ok, fmt::format("{} is covered", target));
      continue;
    }
    const auto similar = override_for(target, machine.hip_targets);
    report.add(Health::warn, fmt::format("{} is not among the targets: {}", target, joined(machine.hip_targets, " ")),
               similar ? fmt::format("HSA_OVERRIDE_GFX_VERSION={} may work, at your own risk", *similar)
                       : "the CPU runs every model");
  }
  report.library(machine.hip_library, "libamdhip64.so.7, .6 or .5", "install ROCm's HIP runtime (hip-runtime-amd)");
  if (machine.hip_module && !machine.hip_library.name.empty()) report.devices();
}

void examine_cuda(std::vector<Finding>& out, const Machine& machine) {
  const Tree tree(machine);
  GpuReport report(out, "cuda", machine);
  std::vector<std::string> nodes = tree.with_prefix("/dev", "nvidia");
  std::erase_if(nodes, [&](const std::string& path) {  // folders: /dev/nvidia-caps
    std::error_code error;
    return fs::is_directory(machine.root + path, error);
  });
  if (!tree.has_gpu_of("0x10de") && nodes.empty()) return report.add(Health::ok, "no NVIDIA GPU in this machine");
  report.module(machine.cuda_module);
  if (nodes.empty()) {
    report.add(Health::warn, "no /dev/nvidia*: the driver is not loaded",
               "install NVIDIA's driver and load it (sudo modprobe nvidia); in a container use --gpus all");
  } else {
    report.nodes(nodes, tree, "video");
  }
  if (const std::string version = tree.first_line("/proc/driver/nvidia/version"); !version.empty()) {
    report.add(Health::ok, version);
  }
  report.library(machine.cuda_library, "libcuda.so.1", "install NVIDIA's driver; in a container use --gpus all");
  if (machine.cuda_module && !machine.cuda_library.name.empty()) report.devices();
}

}  // namespace

std::string_view health_name(Health health) {
  switch (health) {
    case Health::ok:
      return "ok";
    case Health::warn:
      return "warn";
    case Health::fail:
      return "fail";
  }
  RF_UNREACHABLE("a Health outside its enum");
}

std::vector<std::string> amd_targets(const std::string& root) {
  std::vector<std::string> targets;
  std::error_code error;
  const std::string nodes = root + "/sys/class/kfd/kfd/topology/nodes";
  std::vector<fs::path> folders;
  for (fs::directory_iterator at(nodes, error), end; !error && at != end; at.increment(error)) {
    folders.push_back(at->path());
  }
  std::ranges::sort(folders);
  for (const fs::path& folder : folders) {
    std::ifstream file(folder / "properties");
    std::string key;
    uint64_t value = 0;
    while (file >> key >> value) {
      // 90010 is 9.0.10: gfx90a. A CPU's is 0.
      if (key != "gfx_target_version" || value == 0) continue;
      targets.push_back(fmt::format("gfx{}{:x}{:x}", value / 10000, value / 100 % 100, value % 100));
    }
  }
  return targets;
}

std::optional<std::string> unused_gpu_hint(const Machine& machine) {
  const Tree tree(machine);
  const bool has_amd = tree.exists("/dev/kfd") && tree.has_gpu_of("0x1002");
  const bool has_nvidia = tree.exists("/dev/nvidiactl") && tree.has_gpu_of("0x10de");
  const char* card = has_amd && !machine.hip_module ? "AMD" : has_nvidia && !machine.cuda_module ? "NVIDIA" : nullptr;
  if (!card) return std::nullopt;
  return fmt::format(
      "this machine has an {} GPU and this program no module for it: `make gpu` in the source tree builds "
      "it, `rocmforge doctor` says more",
      card);
}

std::vector<Finding> examine(const Machine& machine) {
  std::vector<Finding> out;
  if (machine.cpu_error) {
    out.push_back({Health::fail, "cpu", machine.cpu_error->message, "this is a defect: report it with this text"});
  } else {
    out.push_back({Health::ok, "cpu", machine.cpu});
  }
  const bool has_little = machine.available_bytes < kLittleMemory;
  out.push_back({has_little ? Health::warn : Health::ok, "memory",
                 fmt::format("{} available", format_bytes(machine.available_bytes)),
                 has_little ? "models larger than that stream from the disk, slowly: close something" : ""});
  examine_hip(out, machine);
  examine_cuda(out, machine);
  return out;
}

}  // namespace rocmforge
