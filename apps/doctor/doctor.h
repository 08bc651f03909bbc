#pragma once
// What this machine has to run models, what is missing, and what to do about it.
//
// Everything is judged from a Machine, which is filled in from the system (look_at_machine) or by hand; files are
// looked for below `root`, so that a tree of files can stand for any machine.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu/module.h"
#include "gpu/self_test.h"

namespace rocmforge {

enum class Health : uint8_t { ok, warn, fail };
std::string_view health_name(Health health);

struct Finding {
  Health health = Health::ok;
  std::string topic;  // "cpu", "hip", ...
  std::string fact;
  std::string advice = {};  // what to do; empty when there is nothing
};

struct GpuLibrary {
  std::string name;          // "libamdhip64.so.6"; empty: none was found
  std::string version = {};  // "6.3"; empty: not known
  std::string path = {};     // of the file that the loader took
  std::string why_not = {};  // the loader's words, where one was named and none was found
};

struct Machine {
  std::string root;                                       // "" is the real one
  std::function<bool(const std::string& path)> can_open;  // for reading and writing, by this user
  std::vector<std::string> user_groups;

  std::string cpu;                      // the backend's name: "cpu (avx2, 8 threads)"
  std::optional<Error> cpu_error = {};  // of a first pass
  uint64_t available_bytes = 0;

  std::optional<std::string> hip_module = {}, cuda_module = {};  // where they lie
  std::vector<std::string> hip_targets;                          // "gfx1100": what the module has code for
  std::optional<std::string> hip_override = {};                  // HSA_OVERRIDE_GFX_VERSION
  std::string hip_library_choice = {};                           // ROCMFORGE_HIP_LIBRARY
  std::string source_tree = {};  // where the program was built; empty when it is installed
  GpuLibrary hip_library, cuda_library;
  gpu::Survey gpus;
};

std::vector<Finding> examine(const Machine& machine);

// A GPU by its self-test: each family, what is not used, and what was remembered of the driver and module before.
std::vector<Finding> examine_self_test(const gpu::FoundDevice& found, const gpu::SelfTestReport& report,
                                       const std::optional<gpu::SelfTestReport>& known);

// The GPUs that AMD's kernel driver shows below `root`, by their targets: "gfx1100".
std::vector<std::string> amd_targets(const std::string& root);

// Why no GPU is used, in a few words, from files alone: no driver is opened. kNoGpu where that is the reason.
inline constexpr std::string_view kNoGpu = "there is none";
std::string why_not_gpu(const Machine& machine);
std::string why_not_gpu();

// A GPU is in this machine, and none can be used.
bool has_unused_gpu(const Machine& machine);

// Everything but cpu, cpu_error and available_bytes, as it is here.
Machine look_at_machine();

}  // namespace rocmforge
