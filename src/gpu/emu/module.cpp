// librocmforge-emu.so: the emulation as a module.

#include "gpu/emu/device.h"

extern "C" __attribute__((visibility("default"))) const rocmforge::gpu::GpuApi* rocmforge_gpu_api(uint32_t version) {
  return version == rocmforge::gpu::kApiVersion ? &rocmforge::gpu::emu::api() : nullptr;
}
