// AMD: from the card over the kernel's driver, the user's groups and ROCm's library to our module.

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "base/units.h"
#include "doctor/doctor_report.h"

namespace rocmforge::doctor {
namespace {

constexpr const char* kInAContainer =
    "--device /dev/kfd --device /dev/dri --group-add $(stat -c %g /dev/kfd) "
    "--group-add $(stat -c %g /dev/dri/renderD128)";

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

// Targets that our kernels compile for beyond those that are built: clang-19 was tried with gfx906, 908, 1031, 1102,
// 1103 and 1150.
bool can_be_built(const std::string& target) {
  return target == "gfx906" || target == "gfx908" || target.starts_with("gfx103") || target.starts_with("gfx11");
}

std::string advice_for(const std::string& target, const Machine& machine) {
  std::string advice = "the CPU runs every model";
  if (can_be_built(target)) {
    const std::string where = machine.source_tree.empty() ? "" : " -C '" + machine.source_tree + "'";
    advice = fmt::format("make{} gpu RF_HIP_TARGETS={}{}", where, target, where.empty() ? " in the source tree" : "");
  }
  if (const auto similar = override_for(target, machine.hip_targets)) {
    advice += fmt::format("; or, at your own risk, export HSA_OVERRIDE_GFX_VERSION={}", *similar);
  }
  return advice;
}

void examine_targets(GpuReport& report, const Machine& machine) {
  for (const std::string& target : amd_targets(machine.root)) {
    const bool is_covered = contains(machine.hip_targets, target);
    if (is_covered && machine.hip_override) {
      report.add(Health::warn,
                 fmt::format("{} is covered, but HSA_OVERRIDE_GFX_VERSION={} makes it another GPU", target,
                             *machine.hip_override),
                 "unset HSA_OVERRIDE_GFX_VERSION");
    } else if (is_covered) {
      report.add(Health::ok, fmt::format("{} is covered", target));
    } else {
      report.add(
          Health::warn,
          fmt::format(
              "{} is not among the targets: {}{}", target, joined(machine.hip_targets, " "),
              machine.hip_override ? fmt::format("; HSA_OVERRIDE_GFX_VERSION={} is set", *machine.hip_override) : ""),
          advice_for(target, machine));
    }
  }
}

// An integrated GPU has little memory of its own and takes the rest from the system's, up to a limit of the kernel's.
void examine_shared_memory(GpuReport& report, const Tree& tree) {
  constexpr uint64_t kOwnMemory = uint64_t{4} << 30;  // a card has more
  for (const std::string& card : tree.with_prefix("/sys/class/drm", "card")) {
    const uint64_t n_own = tree.number(card + "/device/mem_info_vram_total");
    const uint64_t n_shared = tree.number(card + "/device/mem_info_gtt_total");
    if (n_own == 0 || n_own >= kOwnMemory || n_shared == 0) continue;
    const uint64_t n_wanted = tree.memory_bytes() / 4 * 3;
    report.add(Health::ok,
               fmt::format("{} has {} of its own and may take {} of the system's memory; kernel {}",
                           card.substr(card.rfind('/') + 1), format_bytes(n_own), format_bytes(n_shared),
                           tree.first_line("/proc/sys/kernel/osrelease")),
               n_wanted <= n_shared
                   ? ""
                   : fmt::format("for {}: sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&ttm.pages_limit={} /' "
                                 "/etc/default/grub && sudo update-grub, then restart the machine",
                                 format_bytes(n_wanted), n_wanted >> 12));
  }
}

// ROCm's libraries below /opt, each once: /opt/rocm is a link to one of the others.
std::vector<std::string> libraries_of_rocm(const Machine& machine, const Tree& tree) {
  std::vector<std::string> found, real;
  for (const std::string& folder : tree.with_prefix("/opt", "rocm")) {
    for (const char* name : {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}) {
      const std::string path = folder + "/lib/" + name;
      if (!tree.exists(path)) continue;
      std::error_code error;
      const std::string at = std::filesystem::canonical(machine.root + path, error).string();
      if (contains(real, at)) continue;
      real.push_back(at);
      found.push_back(path);
    }
  }
  return found;
}

bool is_newer_than_rocm_5(const std::string& target) {
  return target.starts_with("gfx94") || target.starts_with("gfx11") || target.starts_with("gfx12");
}

void examine_library(GpuReport& report, const Machine& machine, const Tree& tree) {
  const std::vector<std::string> found = libraries_of_rocm(machine, tree);
  const auto targets = amd_targets(machine.root);
  const auto newer = std::ranges::find_if(targets, is_newer_than_rocm_5);
  const std::string install =
      newer != targets.end()
          ? "sudo apt install hip-runtime-amd, from AMD's package source (rocm.docs.amd.com)"
          : "sudo apt install libamdhip64-5, or hip-runtime-amd from AMD's package source (rocm.docs.amd.com)";
  if (!machine.hip_library_choice.empty() && machine.hip_library.name.empty()) {
    return report.library(machine.hip_library,
                          "library where ROCMFORGE_HIP_LIBRARY says: " + machine.hip_library_choice,
                          "unset ROCMFORGE_HIP_LIBRARY, or name a libamdhip64.so.7, .6 or .5");
  }
  if (machine.hip_library.name.empty() && !found.empty()) {
    return report.library({}, fmt::format("libamdhip64.so.7, .6 or .5 on the loader's path, but {}", found[0]),
                          fmt::format("echo {} | sudo tee /etc/ld.so.conf.d/rocm.conf && sudo ldconfig; or export "
                                      "ROCMFORGE_HIP_LIBRARY={}",
                                      found[0].substr(0, found[0].rfind('/')), found[0]));
  }
  report.library(machine.hip_library, "libamdhip64.so.7, .6 or .5", install);
  if (newer != targets.end() && machine.hip_library.version.starts_with("5.2")) {
    report.add(Health::warn, fmt::format("ROCm {} is older than {}", machine.hip_library.version, *newer), install);
  }
  if (found.size() > 1) {
    report.add(Health::ok, fmt::format("more than one ROCm: {}", joined(found)),
               fmt::format("export ROCMFORGE_HIP_LIBRARY={} chooses that one", found.back()));
  }
}

}  // namespace

void examine_hip(std::vector<Finding>& out, const Machine& machine) {
  const Tree tree(machine);
  GpuReport report(out, "hip", machine);
  if (tree.is_wsl()) {
    return report.add(Health::warn, "this is WSL2: an AMD GPU would be behind /dev/dxg, not /dev/kfd",
                      "install ROCm for WSL with librocdxg; before ROCm 7.13 also export HSA_ENABLE_DXG_DETECTION=1");
  }
  if (!tree.has_amd()) return report.add(Health::ok, "no AMD GPU in this machine");
  report.module(machine.hip_module);
  if (!tree.exists("/dev/kfd")) {
    report.add(Health::warn, "no /dev/kfd: the amdgpu driver is not loaded, or does not do compute",
               fmt::format("sudo modprobe amdgpu; in a container: {}", kInAContainer));
  } else {
    report.nodes(tree.amd_nodes(), "render,video", kInAContainer);
  }
  examine_shared_memory(report, tree);
  examine_targets(report, machine);
  examine_library(report, machine, tree);
  if (machine.hip_module && !machine.hip_library.name.empty()) {
    report.devices("the CPU runs every model; sudo dmesg | grep -i amdgpu shows what the driver says");
  }
}

}  // namespace rocmforge::doctor
