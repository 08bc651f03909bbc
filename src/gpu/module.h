#pragma once
// Finds GPUs: opens the modules beside the program and asks each for its devices. A missing module, driver or device is
// reported, and is an error only when a device is requested by name.
//
//   gpu, gpu:N       device N of those found: cards before integrated GPUs, more memory before less, AMD before NVIDIA
//   emu, emu:64      the emulation with waves of 32 or 64 lanes; never counted among the others
//
// Threads: any. Modules stay open: drivers do not support being closed.

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/api.h"
#include "plan/backend.h"

namespace rocmforge::gpu {

// Folders searched for modules, in order: the program's own, then its ../lib/rocmforge.
std::vector<std::string> module_folders();

// The function table of a module. device_unavailable: missing, built for another version, or not a module.
Result<const GpuApi*> open_module(const std::string& name, const std::vector<std::string>& folders);

struct FoundDevice {
  std::string id;      // "gpu:0"
  std::string module;  // "hip"
  std::string name;
  uint64_t memory_bytes = 0;
  uint32_t index = 0;  // among the module's
  bool is_integrated = false;
};

struct Survey {
  std::vector<FoundDevice> devices;
  std::vector<std::string> absences;  // "cuda: libcuda.so.1: cannot open shared object file"
};
// Sorts as gpu:N counts, and names them so.
void rank_devices(std::vector<FoundDevice>& devices);

Survey find_devices(const std::vector<std::string>& folders);

// device_unavailable: no such device; the message gives the reason.
Result<std::unique_ptr<Backend>> open_backend(const std::string& id, const std::vector<std::string>& folders);

// The first GPU that opens, an integrated one only where there is no other; null if there is none. If GPUs exist and
// none opens, the last one's error.
Result<std::unique_ptr<Backend>> open_any_gpu(const std::vector<std::string>& folders);

}  // namespace rocmforge::gpu
