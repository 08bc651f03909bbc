#pragma once
// Random bits from the operating system (getrandom): nobody who has seen some of them can predict others.

#include <cstdint>

namespace rocmforge {

uint64_t random_bits();  // 64 of them

}  // namespace rocmforge
