#pragma once
// Runs llvm-objdump on a code object, once for any number of kernels.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace rocmforge::gpu::isa {

struct Line {
  uint64_t address;
  std::string text;  // the instruction alone
};

// By kernel. names: of letters, digits and underscores.
Result<std::map<std::string, std::vector<Line>>> disassemble(std::span<const std::byte> elf,
                                                             const std::vector<std::string>& names);

}  // namespace rocmforge::gpu::isa
