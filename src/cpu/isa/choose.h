#pragma once
// Selects the table of kernels for this machine: the best available one, or the one that ROCMFORGE_CPU names. It is
// checked on a few products first.

#include <span>
#include <string_view>

#include "cpu/isa/kernels.h"

namespace rocmforge::cpu {

// The tables whose instructions this machine has, the simplest first.
std::span<const Kernels* const> available_kernels();

// By name ("scalar", "avx2", "avx512", "avx512bf16"), or nullptr for the best. For a name that is unknown or not
// available, or a table that fails its self-test, it logs a warning and returns the next best.
const Kernels& choose_kernels(const char* wanted);
// As the environment variable ROCMFORGE_CPU asks.
const Kernels& choose_kernels();

// Whether a table computes what the scalar one does, up to rounding. Takes well under a millisecond.
bool passes_self_test(const Kernels& kernels);

}  // namespace rocmforge::cpu
