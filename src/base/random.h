#pragma once
// Random bits from the operating system (getrandom): seeing some of them does not help to predict others.

#include <cstdint>

namespace rocmforge {

uint64_t random_bits();  // 64 bits

}  // namespace rocmforge
