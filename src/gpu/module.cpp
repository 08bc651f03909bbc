#include "gpu/module.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/log.h"
#include "gpu/backend.h"
#include "gpu/driver_version.h"

namespace rocmforge::gpu {
namespace {

Error unavailable(std::string fact) {
  return {ErrorCode::device_unavailable, "gpu: " + std::move(fact)};
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : "; ") + part;
  return out;
}

// "gpu:3" -> 3 and "gpu" -> 0; nothing for anything else.
std::optional<uint32_t> index_after(std::string_view text, std::string_view prefix, uint32_t otherwise) {
  if (text == prefix) return otherwise;
  if (!text.starts_with(prefix) || text.size() < prefix.size() + 2 || text[prefix.size()] != ':') return std::nullopt;
  const std::string_view digits = text.substr(prefix.size() + 1);
  uint32_t index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return index;
}

Result<std::unique_ptr<Backend>> open_found(const FoundDevice& found, const std::vector<std::string>& folders,
                                            SelfTestOptions self_test) {
  const GpuApi* api = TRY(open_module(found.module, folders));
  if (self_test.mode != SelfTestMode::off) self_test.key = self_test_key(found, folders);
  return TRY(GpuBackend::open(*api, found.index, self_test));
}

// The first file of that module; empty: there is none.
std::string path_of_module(const std::string& name, const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::string path = fmt::format("{}/librocmforge-{}.so", folder, name);
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path;
  }
  return "";
}

}  // namespace

std::vector<std::string> module_folders() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const auto folder = program.parent_path();
  return {folder.string(), (folder.parent_path() / "lib" / "rocmforge").string()};
}

Result<const GpuApi*> open_module(const std::string& name, const std::vector<std::string>& folders) {
  const std::string path = path_of_module(name, folders);
  if (path.empty()) return unavailable(fmt::format("{0}: no librocmforge-{0}.so", name));
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return unavailable(fmt::format("{}: {}", name, dlerror()));
  const auto get_api = reinterpret_cast<GetApi>(dlsym(module, "rocmforge_gpu_api"));
  const GpuApi* api = get_api == nullptr ? nullptr : get_api(kApiVersion);
  if (api == nullptr) return unavailable(fmt::format("{}: '{}' belongs to another version", name, path));
  return api;
}

SelfTestKey self_test_key(const FoundDevice& found, const std::vector<std::string>& folders) {
  SelfTestKey out;
  out.device = found.target.empty() ? found.name : fmt::format("{}, {}", found.name, found.target);
  const std::string path = path_of_module(found.module, folders);
  if (void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    const auto get_version = reinterpret_cast<GetDriverVersion>(dlsym(module, kGetDriverVersion));
    if (get_version != nullptr) out.driver = get_version();
  }
  struct stat status{};
  if (stat(path.c_str(), &status) == 0) {
    out.module = fmt::format("{}, {} bytes, {}.{:09}", found.module, status.st_size, status.st_mtim.tv_sec,
                             status.st_mtim.tv_nsec);
  }
  return out;
}

void rank_devices(std::vector<FoundDevice>& devices) {
  const auto precedes = [](const FoundDevice& a, const FoundDevice& b) {
    return a.is_integrated != b.is_integrated ? b.is_integrated : a.memory_bytes > b.memory_bytes;
  };
  std::vector<FoundDevice> ranked;  // what is equal stays in its order
  for (FoundDevice& device : devices) {
    const auto behind = std::ranges::find_if(ranked, [&](const FoundDevice& other) { return precedes(device, other); });
    ranked.insert(behind, std::move(device));
  }
  devices = std::move(ranked);
  for (size_t i = 0; i < devices.size(); i++) devices[i].id = fmt::format("gpu:{}", i);
}

Survey find_devices(const std::vector<std::string>& folders) {
  Survey out;
  for (const char* name : kGpuModules) {
    const Result<const GpuApi*> api = open_module(name, folders);
    if (!api.ok()) {
      out.absences.push_back(api.error().message.substr(5));
      continue;
    }
    if ((*api)->targets[0] != 0) out.shipped_targets = (*api)->targets;
    uint32_t n = 0;
    if ((*api)->count(&n) != GpuStatus::ok) {
      out.absences.push_back(fmt::format("{}: {}", name, (*api)->last_error()));
      continue;
    }
    for (uint32_t i = 0; i < n; i++) {
      GpuDeviceInfo info{};
      if ((*api)->info(i, &info) != GpuStatus::ok) {
        out.absences.push_back(fmt::format("{}: device {}: {}", name, i, (*api)->last_error()));
        continue;
      }
      out.devices.push_back(
          {"", name, info.name, info.memory_bytes, i, info.is_integrated != 0, info.n_units, info.target});
    }
  }
  rank_devices(out.devices);
  return out;
}

std::vector<FoundDevice> devices_for_auto(std::vector<FoundDevice> devices) {
  const bool has_card = std::ranges::any_of(devices, [](const FoundDevice& found) { return !found.is_integrated; });
  std::erase_if(devices,
                [&](const FoundDevice& found) { return found.is_small() || (found.is_integrated && has_card); });
  return devices;
}

Result<std::unique_ptr<Backend>> open_any_gpu(const std::vector<std::string>& folders,
                                              const SelfTestOptions& self_test) {
  Result<std::unique_ptr<Backend>> last = std::unique_ptr<Backend>();
  for (const FoundDevice& found : devices_for_auto(find_devices(folders).devices)) {
    if (!last.ok()) log(LogLevel::warn, "{}; {} is tried", last.error().message, found.id);
    last = open_found(found, folders, self_test);
    if (last.ok()) break;
  }
  return last;
}

Result<std::unique_ptr<Backend>> open_backend(const std::string& id, const std::vector<std::string>& folders,
                                              const SelfTestOptions& self_test) {
  if (const auto wave = index_after(id, "emu", 32)) {
    if (*wave != 32 && *wave != 64) return unavailable(fmt::format("no device '{}': emu, emu:32 or emu:64", id));
    const FoundDevice emulated{.id = id, .module = "emu", .name = id, .index = *wave == 64 ? 1u : 0u};
    return open_found(emulated, folders, self_test.mode == SelfTestMode::always ? self_test : SelfTestOptions());
  }
  const auto index = index_after(id, "gpu", 0);
  if (!index) return unavailable(fmt::format("no device '{}': auto, cpu, gpu, gpu:N, emu or emu:64", id));
  const Survey survey = find_devices(folders);
  if (*index >= survey.devices.size()) {
    return unavailable(
        fmt::format("no device '{}': {} found ({})", id, survey.devices.size(), joined(survey.absences)));
  }
  return open_found(survey.devices[*index], folders, self_test);
}

}  // namespace rocmforge::gpu
