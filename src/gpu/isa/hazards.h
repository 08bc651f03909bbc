#pragma once
// Distances between instructions that hardware does not keep, and compilers must: s_nop, s_waitcnt_depctr, v_nop. They
// are looked for in the code, along every path, whether a launch takes it or not.

#include <string>

#include "gpu/isa/code_object.h"

namespace rocmforge::gpu::isa {

// Names both instructions of the first that is found; empty: there is none.
std::string find_hazard(const Kernel& kernel);

}  // namespace rocmforge::gpu::isa
