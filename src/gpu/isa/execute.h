#pragma once
// Runs a kernel's machine code, block by block, on the cores of this machine.
//
// Blocks do not wait for each other. Waves of a block run one at a time, each up to its next barrier, or with a seed
// for a random number of instructions each.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "gpu/api.h"
#include "gpu/isa/code_object.h"
#include "gpu/isa/memory.h"
#include "gpu/isa/wave.h"

namespace rocmforge::gpu::isa {

struct Checks {
  bool hazards = true;         // of distances that compilers must keep
  bool waits = true;           // of registers that are used before their load has ended
  bool races = true;           // between waves, in shared memory; and reads of what nobody wrote there
  bool visibility = true;      // of stores of other waves: their order, and caches between them
  bool registers = true;       // that are read and that nobody wrote
  bool counts_traffic = true;  // of memory, see Traffic
};

inline constexpr Checks kNoChecks = {false, false, false, false, false, false};

struct Launch {
  Grid grid;
  uint32_t n_threads = 1;     // of a block
  uint32_t shared_bytes = 0;  // beside what the kernel declares
  uint64_t seed = 0;          // of the order of waves and blocks; 0: as they are numbered
  uint32_t n_workers = 0;     // threads of this machine; 0: one for each core
  Checks checks;
};

struct Report {
  std::vector<uint64_t> n_executed;  // by instruction of the kernel, counted once for each wave
  uint64_t n_waves = 0;
  Traffic traffic;

  uint64_t n_instructions() const;
  void add(const Report& other);
};

// args: the kernel's argument struct. unsupported: an instruction that is not modelled; internal: the kernel broke a
// rule; the message names the instruction.
Result<Report> run(const Kernel& kernel, const Launch& launch, std::span<const std::byte> args,
                   const MemoryMap& memory);

}  // namespace rocmforge::gpu::isa
