#pragma once
// The hazard of gfx1200 and gfx1201 that has no distance: a vector instruction has read a scalar register, a scalar
// instruction writes it, and one of either kind reads it before s_wait_alu has waited for the scalar unit. Then the old
// value may be read. Registers count in aligned pairs. LLVM guards against it from version 20 on; tools/gfx12_waits.py
// does for the code of clang 19.

#include <optional>
#include <utility>

#include "gpu/isa/code_object.h"

namespace rocmforge::gpu::isa {

// The number of the first instruction that may read an old value, along any path.
std::optional<uint32_t> find_old_scalar(const Kernel& kernel);

}  // namespace rocmforge::gpu::isa
