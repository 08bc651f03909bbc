#pragma once
// SHA-256 (FIPS 180-4), for API keys: what is compared is a digest of fixed length, never the key.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace rocmforge::server {

using Sha256 = std::array<uint8_t, 32>;

Sha256 sha256(std::string_view bytes);
std::string to_hex(const Sha256& digest);

}  // namespace rocmforge::server
