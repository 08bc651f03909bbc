#pragma once
// What Linux knows of AMD's GPUs and of ROCm, from files below `root`: "" is the machine's own root, tests have others.
// HIP's own answers are sparse: a missing right looks like a missing card.
//
// Threads: any.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rocmforge::gpu::amd_system {

// HIP's runtime, by the order in which to try: what the loader finds, then where ROCm's packages put it. `rocm_path`:
// the variable ROCM_PATH, may be empty.
std::vector<std::string> library_candidates(const std::string& root, const std::string& rocm_path);

// Why the kernel's driver does not answer this user, and what to do; empty if nothing is wrong with rights.
// `can_open`: for reading and writing
std::string missing_rights(const std::string& root, const std::function<bool(const std::string& path)>& can_open);

// Why a GPU refuses the module's code. `target`: the GPU's, may be empty; `shipped`: the module's, separated by spaces
std::string why_no_code(const std::string& target, const std::string& shipped);

// A GPU as the kernel's driver describes it; empty and zeros where it does not.
struct Card {
  std::string target;         // "gfx1100"
  uint32_t n_units = 0;       // compute units
  uint64_t shared_bytes = 0;  // an integrated one's own memory, and what it may take of the system's
};
Card card_at(const std::string& root, const std::string& pci_bus_id);  // "0000:03:00.0"

}  // namespace rocmforge::gpu::amd_system
