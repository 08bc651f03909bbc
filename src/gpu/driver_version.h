#pragma once
// What a module may export beside its table (gpu/api.h): the version of the driver behind it, for people and to
// compare. Empty where no driver was found.

namespace rocmforge::gpu {

using GetDriverVersion = const char* (*)();
inline constexpr const char* kGetDriverVersion = "rocmforge_gpu_driver_version";

}  // namespace rocmforge::gpu
