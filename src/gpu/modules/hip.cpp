// librocmforge-hip.so: HIP's runtime, whatever ROCm a machine has: libamdhip64.so.7, .6 or .5.

#include <dlfcn.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "gpu/modules/amd_system.h"
#include "gpu/modules/driver_api.h"
#include "gpu/modules/kernel_files.h"

namespace rocmforge::gpu::modules {
namespace {

constexpr unsigned kMaxSharedBytes = 64 << 10;
constexpr int kIntegrated = 16;             // hipDeviceAttribute_t, from ROCm 5 on
constexpr unsigned kCoherent = 0x40000000;  // hipHostMallocCoherent: the default, unless a variable changes it

struct More {
  Code (*set_device)(int device) = nullptr;
  const char* (*error_text)(Code code) = nullptr;
  LaunchKernel launch = nullptr;
  Code (*device_attribute)(int* out, int attribute, int device) = nullptr;
  Code (*pci_bus_id)(char* out, int n_bytes, int device) = nullptr;
};

More& more() {
  static More functions;
  return functions;
}

bool load_more(void* library) {
  More& m = more();
  const auto take = [&](auto& function, const char* name) {
    void* found = dlsym(library, name);
    std::memcpy(&function, &found, sizeof found);
    return found != nullptr;
  };
  take(m.device_attribute, "hipDeviceGetAttribute");
  take(m.pci_bus_id, "hipDeviceGetPCIBusId");
  return take(m.set_device, "hipSetDevice") && take(m.error_text, "hipGetErrorString") &&
         take(m.launch, "hipModuleLaunchKernel");
}

Code launch(void* function, const LaunchShape& shape, void* stream, void** params) {
  const Grid& grid = shape.grid;
  if (grid.cluster > 1) return kNotSupported;
  return more().launch(function, grid.x, grid.y, grid.z, shape.n_threads, 1, 1, shape.shared_bytes, stream, params,
                       nullptr);
}

Code use(int device) {
  static thread_local int current = -1;
  if (device == current) return 0;
  const Code code = more().set_device(device);
  if (code == 0) current = device;
  return code;
}

const char* describe(Code code) {
  return more().error_text(code);
}

void look_at(int device, GpuDeviceInfo* out) {
  int value = 0;
  const bool answers = more().device_attribute != nullptr && more().device_attribute(&value, kIntegrated, device) == 0;
  out->is_integrated = answers && value != 0 ? 1 : 0;
  char bus_id[32] = {};
  if (more().pci_bus_id == nullptr || more().pci_bus_id(bus_id, sizeof bus_id, device) != 0) return;
  const amd_system::Card card = amd_system::card_at("", bus_id);
  out->n_units = card.n_units;
  std::strncpy(out->target, card.target.c_str(), sizeof out->target - 1);
  if (out->is_integrated != 0) out->memory_bytes = std::max(out->memory_bytes, card.shared_bytes);
}

std::vector<std::string> libraries() {
  const char* rocm_path = std::getenv("ROCM_PATH");
  return amd_system::library_candidates("", rocm_path != nullptr ? rocm_path : "");
}

std::string why_no_device() {
  return amd_system::missing_rights("", [](const std::string& path) { return access(path.c_str(), R_OK | W_OK) == 0; });
}

std::string why_no_code(const GpuDeviceInfo& device) {
  return amd_system::why_no_code(device.target, RF_HIP_TARGETS);
}

std::string why_no_memory(const GpuDeviceInfo& device) {
  return device.is_integrated == 0 ? ""
                                   : "an integrated GPU has what the BIOS gives it and may take more of the system's "
                                     "memory up to ttm.pages_limit (rocmforge doctor)";
}

constexpr FunctionNames kNames = {
    "hipInit",
    "hipGetDeviceCount",
    "hipDeviceGetName",
    "hipDeviceTotalMem",
    "hipMemGetInfo",
    "hipMalloc",
    "hipFree",
    "hipHostMalloc",
    "hipHostFree",
    "hipStreamCreateWithFlags",
    "hipStreamDestroy",
    "hipStreamSynchronize",
    "hipStreamWaitEvent",
    "hipEventCreateWithFlags",
    "hipEventDestroy",
    "hipEventRecord",
    "hipEventSynchronize",
    "hipMemcpyHtoDAsync",
    "hipMemcpyDtoHAsync",
    "hipMemcpyDtoDAsync",
    "hipMemsetD8Async",
    "hipModuleLoadData",
    "hipModuleUnload",
    "hipModuleGetFunction",
    "hipStreamBeginCapture",
    "hipStreamEndCapture",
    "hipGraphInstantiateWithFlags",
    "hipGraphDestroy",
    "hipGraphExecDestroy",
    "hipGraphLaunch",
};

}  // namespace

const Vendor kVendor = {.module = "hip",
                        .targets = RF_HIP_TARGETS,
                        .libraries = libraries,
                        .library_variable = "ROCMFORGE_HIP_LIBRARY",
                        .names = &kNames,
                        .version_name = "hipRuntimeGetVersion",
                        .stream_query_name = "hipStreamQuery",
                        .event_query_name = "hipEventQuery",
                        .wait_seconds = 600,
                        .load_more = load_more,
                        .launch = launch,
                        .allow_shared = nullptr,
                        .max_shared_bytes = kMaxSharedBytes,
                        .pinned_flags = kCoherent,
                        .use = use,
                        .describe = describe,
                        .look_at = look_at,
                        .why_no_device = why_no_device,
                        .why_no_code = why_no_code,
                        .why_no_memory = why_no_memory,
                        .files = kKernelFiles};

}  // namespace rocmforge::gpu::modules
