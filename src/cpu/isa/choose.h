#pragma once
// Which table of kernels this machine runs.

#include "cpu/isa/kernels.h"

namespace rocmforge::cpu {

const Kernels& choose_kernels();

}  // namespace rocmforge::cpu
