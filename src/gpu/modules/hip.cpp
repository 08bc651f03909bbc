// librocmforge-hip.so: HIP's runtime, whatever ROCm a machine has: libamdhip64.so.7, .6 or .5.

#include <dlfcn.h>

#include <cstring>

#include "gpu/modules/driver_api.h"
#include "gpu/modules/kernel_files.h"

namespace rocmforge::gpu::modules {
namespace {

struct More {
  Code (*set_device)(int device) = nullptr;
  const char* (*error_text)(Code code) = nullptr;
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
  return take(m.set_device, "hipSetDevice") && take(m.error_text, "hipGetErrorString");
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
    "hipModuleLaunchKernel",
    "hipStreamBeginCapture",
    "hipStreamEndCapture",
    "hipGraphInstantiateWithFlags",
    "hipGraphDestroy",
    "hipGraphExecDestroy",
    "hipGraphLaunch",
};

}  // namespace

const Vendor kVendor = {"hip", kLibraries, &kNames, load_more, nullptr, use, describe, kKernelFiles};

}  // namespace rocmforge::gpu::modules
