#pragma once
// Bytes as files hold them: little-endian, at any alignment.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace rocmforge {

static_assert(std::endian::native == std::endian::little, "ROCmForge runs on little-endian machines");

template <class T>
  requires std::is_trivially_copyable_v<T>
T load_le(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
  requires std::is_trivially_copyable_v<T>
void store_le(void* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace rocmforge
