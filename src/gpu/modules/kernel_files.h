#pragma once
// The kernels' code, built into the module (kernels.cmake writes the file that defines this).

#include "gpu/modules/driver.h"

namespace rocmforge::gpu::modules {

extern const KernelFile kKernelFiles[];  // a null name at the end

}  // namespace rocmforge::gpu::modules
