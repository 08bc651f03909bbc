// librocmforge-cuda.so: CUDA's driver, found as libcuda.so.1.

#include <dlfcn.h>

#include <array>
#include <cstring>
#include <mutex>

#include "gpu/modules/driver_api.h"
#include "gpu/modules/kernel_files.h"

namespace rocmforge::gpu::modules {
namespace {

constexpr int kMaxDevices = 64;
constexpr unsigned kMaxSharedBytes = 227 << 10;
constexpr Code kInvalidDevice = 101;

// As CUDA's driver takes them: CUlaunchConfig and CUlaunchAttribute.
struct LaunchAttribute {
  int id = 0;
  alignas(8) unsigned value[16] = {};
};
struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void* stream;
  const LaunchAttribute* attributes;
  unsigned n_attributes;
};
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56);
constexpr int kClusterDimension = 4;
constexpr int kProgrammaticSerialization = 6;
constexpr int kMaxDynamicShared = 8;  // CUfunction_attribute
constexpr int kIntegrated = 18;       // CUdevice_attribute

struct More {
  Code (*retain_context)(void** out, int device) = nullptr;
  Code (*set_context)(void* context) = nullptr;
  Code (*error_text)(Code code, const char** out) = nullptr;
  Code (*set_attribute)(void* function, int attribute, int value) = nullptr;
  LaunchKernel launch = nullptr;
  Code (*device_attribute)(int* out, int attribute, int device) = nullptr;
  Code (*launch_with)(const LaunchConfig* config, void* function, void** params, void** extra) = nullptr;
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
  take(m.launch_with, "cuLaunchKernelEx");  // absent from drivers that are older than Hopper
  take(m.device_attribute, "cuDeviceGetAttribute");
  return take(m.retain_context, "cuDevicePrimaryCtxRetain") && take(m.set_context, "cuCtxSetCurrent") &&
         take(m.error_text, "cuGetErrorString") && take(m.set_attribute, "cuFuncSetAttribute") &&
         take(m.launch, "cuLaunchKernel");
}

Code launch(void* function, const LaunchShape& shape, void* stream, void** params) {
  const Grid& grid = shape.grid;
  if (more().launch_with == nullptr) {
    if (grid.cluster > 1) return kNotSupported;
    return more().launch(function, grid.x, grid.y, grid.z, shape.n_threads, 1, 1, shape.shared_bytes, stream, params,
                         nullptr);
  }
  LaunchAttribute attributes[2];
  unsigned n = 0;
  if (grid.cluster > 1) attributes[n++] = {kClusterDimension, {1, 1, grid.cluster}};
  if (shape.overlaps) attributes[n++] = {kProgrammaticSerialization, {1}};
  const LaunchConfig config{
      {grid.x, grid.y, grid.z}, {shape.n_threads, 1, 1}, shape.shared_bytes, stream, attributes, n};
  return more().launch_with(&config, function, params, nullptr);
}

Code allow_shared(void* function, unsigned n_bytes) {
  return more().set_attribute(function, kMaxDynamicShared, static_cast<int>(n_bytes));
}

// The primary context is shared with whatever else in the process uses the device, and kept.
Code use(int device) {
  static std::mutex mutex;
  static std::array<void*, kMaxDevices> contexts{};
  static thread_local int current = -1;
  if (device == current) return 0;
  if (device < 0 || device >= kMaxDevices) return kInvalidDevice;
  void* context = nullptr;
  {
    const std::lock_guard lock(mutex);
    void*& known = contexts[static_cast<size_t>(device)];
    if (known == nullptr) {
      if (const Code code = more().retain_context(&known, device); code != 0) return code;
    }
    context = known;
  }
  const Code code = more().set_context(context);
  if (code == 0) current = device;
  return code;
}

const char* describe(Code code) {
  const char* text = nullptr;
  return more().error_text(code, &text) == 0 ? text : nullptr;
}

void look_at(int device, GpuDeviceInfo* out) {
  int value = 0;
  const bool answers = more().device_attribute != nullptr && more().device_attribute(&value, kIntegrated, device) == 0;
  out->is_integrated = answers && value != 0 ? 1 : 0;
}

std::vector<std::string> libraries() {
  return {"libcuda.so.1"};
}

constexpr FunctionNames kNames = {
    "cuInit",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceTotalMem_v2",
    "cuMemGetInfo_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuGraphInstantiateWithFlags",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphLaunch",
};

}  // namespace

const Vendor kVendor = {.module = "cuda",
                        .targets = "",
                        .libraries = libraries,
                        .library_variable = nullptr,
                        .names = &kNames,
                        .version_name = "cuDriverGetVersion",
                        .stream_query_name = "cuStreamQuery",
                        .event_query_name = "cuEventQuery",
                        .wait_seconds = 0,
                        .load_more = load_more,
                        .launch = launch,
                        .allow_shared = allow_shared,
                        .max_shared_bytes = kMaxSharedBytes,
                        .pinned_flags = 0,
                        .use = use,
                        .describe = describe,
                        .look_at = look_at,
                        .why_no_device = [] { return std::string(); },
                        .why_no_code = [](const GpuDeviceInfo&) { return std::string(); },
                        .why_no_memory = [](const GpuDeviceInfo&) { return std::string(); },
                        .files = kKernelFiles};

}  // namespace rocmforge::gpu::modules
