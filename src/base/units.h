#pragma once
// Sizes and rates as people write and read them.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rocmforge {

// "12.0 MiB", "765 MiB", "512 B": three significant digits, binary units.
std::string format_bytes(uint64_t n_bytes);

// "1.24 B", "20.2 M", "512": counts in decimal thousands.
std::string format_count(uint64_t n);

// "4G", "512M", "1.5GiB", "1000000", "64k": binary units, upper or lower case, fractions allowed.
Result<uint64_t> parse_size(std::string_view text);

}  // namespace rocmforge
