#pragma once
// Which table of kernels this machine runs: the best one it has, or the one that ROCMFORGE_CPU names, tried on a few
// products first.

#include <span>
#include <string_view>

#include "cpu/isa/kernels.h"

namespace rocmforge::cpu {

// The tables whose instructions this machine has, the plainest first.
std::span<const Kernels* const> available_kernels();

// By name ("scalar", "avx2", "avx512", "avx512bf16"), or nullptr for the best. A name that is unknown or not available,
// and a table that fails its self-test, cost a warning and give the next best.
const Kernels& choose_kernels(const char* wanted);
// As the environment variable ROCMFORGE_CPU asks.
const Kernels& choose_kernels();

// Whether a table computes what the scalar one does, up to rounding. Takes well under a millisecond.
bool passes_self_test(const Kernels& kernels);

}  // namespace rocmforge::cpu
