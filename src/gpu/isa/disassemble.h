#pragma once
// Runs llvm-objdump on a code object.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace rocmforge::gpu::isa {

struct Line {
  uint64_t address;
  std::string text;  // the instruction alone
};

Result<std::vector<Line>> disassemble_kernel(std::span<const std::byte> elf, const std::string& name);

}  // namespace rocmforge::gpu::isa
