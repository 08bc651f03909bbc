#pragma once
// For tests and fuzzing: what must hold for every header that parse_header accepts, whatever the bytes were.

#include <cstdint>
#include <string>

#include "gguf/header.h"

namespace rocmforge::gguf::testing {

// Reads all that the header offers. Empty, or what is broken.
std::string broken_invariant(const Header& header, uint64_t n_file_bytes);

}  // namespace rocmforge::gguf::testing
