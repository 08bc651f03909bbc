#include "gpu/modules/amd_system.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

namespace rocmforge::gpu::amd_system {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNames[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};

// Files of a folder whose names begin so, the last in the order of names first: newer versions before older ones.
std::vector<std::string> with_prefix(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().starts_with(prefix)) out.push_back(at->path().string());
  }
  std::ranges::sort(out, std::greater<>());
  return out;
}

uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : 0;
}

std::map<std::string, uint64_t> properties(const std::string& node) {
  std::map<std::string, uint64_t> out;
  std::ifstream file(node + "/properties");
  std::string key;
  uint64_t value = 0;
  while (file >> key >> value) out[key] = value;
  return out;
}

// 90010 is 9.0.10: gfx90a.
std::string target_name(uint64_t version) {
  char text[32];
  std::snprintf(text, sizeof text, "gfx%u%x%x", static_cast<unsigned>(version / 10000),
                static_cast<unsigned>(version / 100 % 100), static_cast<unsigned>(version % 100));
  return text;
}

// The first ROCm that loads code for a target, as far as one is known.
const char* least_rocm(const std::string& target) {
  if (target.starts_with("gfx115")) return "7.0";
  if (target.starts_with("gfx12")) return "6.4";
  if (target.starts_with("gfx942")) return "6.0";
  return target.starts_with("gfx11") ? "5.5" : "";
}

}  // namespace

std::string why_no_code(const std::string& target, const std::string& shipped) {
  if (target.empty()) return "there is code for " + shipped;
  if ((" " + shipped + " ").find(" " + target + " ") == std::string::npos) {
    return "this is a " + target + ", and there is code for " + shipped;
  }
  const std::string least = least_rocm(target);
  return "there is code for this " + target + ": ROCm may be too old for it" +
         (least.empty() ? "" : ", " + least + " is the first that knows it");
}

std::vector<std::string> library_candidates(const std::string& root, const std::string& rocm_path) {
  std::vector<std::string> out(std::begin(kNames), std::end(kNames));
  std::vector<std::string> folders;
  if (!rocm_path.empty()) folders.push_back(rocm_path + "/lib");
  folders.push_back(root + "/opt/rocm/lib");
  for (const std::string& rocm : with_prefix(root + "/opt", "rocm-")) folders.push_back(rocm + "/lib");
  folders.push_back(root + "/usr/lib64/rocm/lib");
  for (const char* name : kNames) {
    for (const std::string& folder : folders) {
      std::error_code error;
      if (fs::exists(folder + "/" + name, error)) out.push_back(folder + "/" + name);
    }
  }
  return out;
}

std::string missing_rights(const std::string& root, const std::function<bool(const std::string& path)>& can_open) {
  std::error_code error;
  std::vector<std::string> nodes;
  if (fs::exists(root + "/dev/kfd", error)) nodes.push_back(root + "/dev/kfd");
  if (nodes.empty()) return "";
  for (const std::string& node : with_prefix(root + "/dev/dri", "renderD")) nodes.push_back(node);
  for (const std::string& node : nodes) {
    if (can_open(node)) continue;
    return "this user may not open " + node.substr(root.size()) +
           ": sudo usermod -aG render,video $USER, then log in again (rocmforge doctor)";
  }
  return "";
}

Card card_at(const std::string& root, const std::string& pci_bus_id) {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  if (std::sscanf(pci_bus_id.c_str(), "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4) return {};
  const uint64_t location = bus << 8 | device << 3 | function;
  Card card;
  for (const std::string& node : with_prefix(root + "/sys/class/kfd/kfd/topology/nodes", "")) {
    const auto all = properties(node);
    const auto value = [&](const char* key) {
      const auto at = all.find(key);
      return at == all.end() ? 0 : at->second;
    };
    const uint64_t version = value("gfx_target_version");
    if (version == 0 || value("location_id") != location || value("domain") != domain) continue;
    card.target = target_name(version);
    const uint64_t per_unit = std::max<uint64_t>(value("simd_per_cu"), 1);
    card.n_units = static_cast<uint32_t>(std::min<uint64_t>(value("simd_count") / per_unit, UINT32_MAX));
  }
  const std::string folder = root + "/sys/bus/pci/devices/" + pci_bus_id;
  card.shared_bytes = number_in(folder + "/mem_info_vram_total") + number_in(folder + "/mem_info_gtt_total");
  return card;
}

}  // namespace rocmforge::gpu::amd_system
