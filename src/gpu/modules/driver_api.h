#pragma once
// The table of functions (gpu/api.h) of a module whose driver is found at run time.

#include "gpu/api.h"
#include "gpu/modules/driver.h"

namespace rocmforge::gpu::modules {

// Defined once in each module; rocmforge_gpu_api uses it.
extern const Vendor kVendor;

const GpuApi* driver_api();

}  // namespace rocmforge::gpu::modules
