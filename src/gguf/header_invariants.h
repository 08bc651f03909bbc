#pragma once
// For tests and fuzzing: what must hold for every header that parse_header accepts, whatever the bytes were.

#include <cstdint>
#include <string>

#include "gguf/header.h"

namespace rocmforge::gguf::testing {

// Reads everything that the header offers. Returns an empty string, or the invariant that is broken.
std::string broken_invariant(const Header& header, uint64_t n_file_bytes);

}  // namespace rocmforge::gguf::testing
