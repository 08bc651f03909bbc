#pragma once
// Kernels of the stand-in HIP library that run by their machine code (gpu/isa).
//
//   ROCMFORGE_MACHINE_CODE=gfx1100,gfx942    devices, each the target whose code is taken of a bundle
//   ROCMFORGE_MACHINE_SEED=7                 another order of waves and blocks
//   ROCMFORGE_MACHINE_CHECKS=off             no checks but of bounds
//   ROCMFORGE_MACHINE_COUNTS=file            counts of every kernel are appended there when the process ends
//
// Threads: everything may be called from any thread.

#include <string>

#include "gpu/api.h"

namespace rocmforge::gpu::machine_code {

bool is_asked_for();
int n_devices();
std::string device_name(int device);

// What the first launch or load that failed said; empty: none did.
const std::string& failure();

bool load(int device, const void* bundle, void** module);
void unload(void* module);
bool find(void* module, const char* name, void** kernel);
GpuStatus launch(GpuDevice* device, GpuStream* stream, void* kernel, LaunchShape shape, const void* args);

}  // namespace rocmforge::gpu::machine_code
