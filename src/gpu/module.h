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
#include "gpu/self_test_policy.h"
#include "plan/backend.h"

namespace rocmforge::gpu {

// The modules of real devices, preferred ones first.
inline constexpr const char* kGpuModules[] = {"hip", "cuda"};

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
  uint32_t n_units = 0;  // compute units; 0: not known
  std::string target{};  // "gfx1100"; empty: not known

  // A desktop processor's own GPU: slower than its CPU.
  bool is_small() const { return is_integrated && n_units != 0 && n_units < 8; }
};

struct Survey {
  std::vector<FoundDevice> devices;
  std::string shipped_targets{};      // AMD's, that there is code for; empty without the HIP module
  std::vector<std::string> absences;  // "cuda: libcuda.so.1: cannot open shared object file"
};
// Sorts as gpu:N counts, and names them so.
void rank_devices(std::vector<FoundDevice>& devices);

Survey find_devices(const std::vector<std::string>& folders);

// What the result of a device's self-test depends on. The module's driver gives its version in a function of its own:
// modules from before it have none.
SelfTestKey self_test_key(const FoundDevice& found, const std::vector<std::string>& folders);

// device_unavailable: no such device; the message gives the reason.
// The key in `self_test` is filled in. The emulation is tested in the mode `always` alone: the CPU that runs it is the
// judge.
Result<std::unique_ptr<Backend>> open_backend(const std::string& id, const std::vector<std::string>& folders,
                                              const SelfTestOptions& self_test = {});

// Those that are used without being named, of devices that are ranked: an integrated one only where there is no card,
// since it is slower than a card that does not open, and often than the CPU; a small one never.
std::vector<FoundDevice> devices_for_auto(std::vector<FoundDevice> devices);

// The first of devices_for_auto that opens; null if there is none.
// If GPUs exist and none opens, the last one's error.
Result<std::unique_ptr<Backend>> open_any_gpu(const std::vector<std::string>& folders,
                                              const SelfTestOptions& self_test = {});

}  // namespace rocmforge::gpu
