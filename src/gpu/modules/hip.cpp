// librocmforge-hip.so: HIP's runtime, whatever ROCm a machine has: libamdhip64.so.7, .6 or .5.

#include <dlfcn.h>

#include <cstring>

#include "gpu/modules/driver_api.h"
#include "gpu/modules/kernel_files.h"

namespace rocmforge::gpu::modules {
namespace {

constexpr unsigned kMaxSharedBytes = 64 << 10;
constexpr int kIntegrated = 16;  // hipDeviceAttribute_t, from ROCm 5 on

struct More {
  Code (*set_device)(int device) = nullptr;
  const char* (*error_text)(Code code) = nullptr;
  LaunchKernel launch = nullptr;
  Code (*device_attribute)(int* out, int attribute, int device) = nullptr;
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

bool is_integrated(int device) {
  int value = 0;
  return more().device_attribute != nullptr && more().device_attribute(&value, kIntegrated, device) == 0 && value != 0;
}

constexpr const char* kLibraries[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", nullptr};

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

const Vendor kVendor = {"hip",         kLibraries,  "ROCMFORGE_HIP_LIBRARY", &kNames, load_more,
                        launch,        nullptr,     kMaxSharedBytes,         use,     describe,
                        is_integrated, kKernelFiles};

}  // namespace rocmforge::gpu::modules
