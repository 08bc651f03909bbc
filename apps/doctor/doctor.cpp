#include "doctor/doctor.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "base/units.h"
#include "doctor/doctor_report.h"

namespace rocmforge {

namespace fs = std::filesystem;
using doctor::Tree;

namespace {

constexpr uint64_t kLittleMemory = 2u << 30;

// Why the cards of one vendor cannot be used, from what files tell; empty when they can, as far as that goes.
std::string obstacle(const Machine& machine, const Tree& tree, const char* vendor, const char* module) {
  const bool is_amd = std::string_view(module) == "hip";
  const auto& path = is_amd ? machine.hip_module : machine.cuda_module;
  if (!path) return fmt::format("no module for the {} GPU: {}", vendor, doctor::module_command(machine, module));
  const std::vector<std::string> nodes = is_amd ? tree.amd_nodes() : tree.nvidia_nodes();
  if (nodes.empty() || !tree.exists(nodes[0])) return fmt::format("the driver of the {} GPU is not loaded", vendor);
  for (const std::string& node : nodes) {
    if (!tree.can_open(node)) return fmt::format("{} cannot be opened by this user", node);
  }
  return "";
}

}  // namespace

namespace doctor {

void examine_cuda(std::vector<Finding>& out, const Machine& machine) {
  const Tree tree(machine);
  GpuReport report(out, "cuda", machine);
  if (!tree.has_nvidia()) return report.add(Health::ok, "no NVIDIA GPU in this machine");
  report.module(machine.cuda_module);
  const std::vector<std::string> nodes = tree.nvidia_nodes();
  if (nodes.empty()) {
    report.add(Health::warn, "no /dev/nvidia*: the driver is not loaded",
               "sudo apt install nvidia-driver, then sudo modprobe nvidia; in a container: --gpus all");
  } else {
    report.nodes(nodes, "video", "--gpus all");
  }
  if (const std::string version = tree.first_line("/proc/driver/nvidia/version"); !version.empty()) {
    report.add(Health::ok, version);
  }
  report.library(machine.cuda_library, "libcuda.so.1", "sudo apt install libcuda1; in a container: --gpus all");
  if (machine.cuda_module && !machine.cuda_library.name.empty()) {
    report.devices("the CPU runs every model; nvidia-smi shows what the driver says");
  }
}

}  // namespace doctor

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

std::string why_not_gpu(const Machine& machine) {
  const Tree tree(machine);
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
  if (tree.is_wsl()) add("this is WSL2 without /dev/kfd");
  if (tree.has_amd()) add(obstacle(machine, tree, "AMD", "hip"));
  if (tree.has_nvidia()) add(obstacle(machine, tree, "NVIDIA", "cuda"));
  if (out.empty())
    return tree.has_amd() || tree.has_nvidia() ? "the driver shows none (rocmforge doctor)" : std::string(kNoGpu);
  return out + " (rocmforge doctor)";
}

bool has_unused_gpu(const Machine& machine) {
  const Tree tree(machine);
  if (!tree.has_amd() && !tree.has_nvidia() && !tree.is_wsl()) return false;
  return !doctor::has_usable_device(machine, "hip") && !doctor::has_usable_device(machine, "cuda");
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
  doctor::examine_hip(out, machine);
  doctor::examine_cuda(out, machine);
  return out;
}

}  // namespace rocmforge
