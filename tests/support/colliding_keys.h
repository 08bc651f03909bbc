#pragma once
// Keys made to collide: what a hostile file or request would send against a hash table whose hash function is known.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge::testing {

namespace detail {

// libstdc++'s std::hash of bytes on 64-bit machines: MurmurHash64A with a fixed seed. Every step of it is a bijection.
inline constexpr uint64_t kMurmurMul = 0xc6a4a7935bd1e995, kMurmurSeed = 0xc70f6907;

constexpr uint64_t murmur_shift(uint64_t v) {
  return v ^ v >> 47;  // its own inverse
}
constexpr uint64_t murmur_inverse_mul() {
  uint64_t x = kMurmurMul;  // Newton: each round doubles the number of right bits
  for (int i = 0; i < 6; i++) x *= 2 - kMurmurMul * x;
  return x;
}
constexpr uint64_t murmur_word(uint64_t v) {
  return murmur_shift(v * kMurmurMul) * kMurmurMul;
}
constexpr uint64_t murmur_unword(uint64_t v) {
  constexpr uint64_t kInverse = murmur_inverse_mul();
  return murmur_shift(v * kInverse) * kInverse;
}

// The number as eight letters 'a' to 'p', four bits each.
constexpr uint64_t spelled(uint32_t number) {
  uint64_t word = number;
  word = (word | word << 16) & 0x0000FFFF0000FFFF;
  word = (word | word << 8) & 0x00FF00FF00FF00FF;
  word = (word | word << 4) & 0x0F0F0F0F0F0F0F0F;
  return word + 0x6161616161616161;
}

inline std::string key_of(uint64_t head, uint64_t tail) {
  std::string key(16, 0);
  std::memcpy(key.data(), &head, 8);
  std::memcpy(key.data() + 8, &tail, 8);
  return key;
}

inline bool is_printable_ascii(uint64_t word) {
  for (int i = 0; i < 8; i++, word >>= 8) {
    const auto c = static_cast<unsigned char>(word);
    if (c < 0x20 || c > 0x7E || c == '"' || c == '\\') return false;
  }
  return true;
}

inline bool is_name(uint64_t word) {
  for (int i = 0; i < 8; i++, word >>= 8) {
    const auto c = static_cast<unsigned char>(word);
    const bool is_letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
    if (!is_letter && !(c >= '0' && c <= '9') && c != '_') return false;
  }
  return true;
}

// Keys of 16 bytes with one MurmurHash64A. The first 8 bytes are counted up; the last 8 are solved for, and kept when
// `fits` accepts them.
template <class Fits>
std::vector<std::string> colliding_keys(size_t n, const Fits& fits) {
  const uint64_t start = kMurmurSeed ^ 16 * kMurmurMul;
  constexpr uint64_t kWanted = 0x0123456789abcdef * murmur_inverse_mul();  // the same for all
  std::vector<std::string> keys;
  keys.reserve(n);
  for (uint32_t i = 0; keys.size() < n; i++) {
    const uint64_t head = spelled(i);
    const uint64_t after_head = (start ^ murmur_word(head)) * kMurmurMul;
    const uint64_t tail = murmur_unword(after_head ^ kWanted);
    if (fits(tail)) keys.push_back(key_of(head, tail));
  }
  return keys;
}

}  // namespace detail

// n different keys of 16 printable characters, without '"' and '\', that libstdc++'s std::hash maps to one value. About
// 50 us a key.
inline std::vector<std::string> colliding_keys(size_t n) {
  return detail::colliding_keys(n, detail::is_printable_ascii);
}

// The same, of letters, digits and '_', the first a letter: identifiers. About 1 ms a key.
inline std::vector<std::string> colliding_names(size_t n) {
  return detail::colliding_keys(n, detail::is_name);
}

// Whether this standard library's std::hash maps them all to one value. Elsewhere the keys are ordinary ones.
inline bool all_collide(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (std::hash<std::string_view>{}(key) != std::hash<std::string_view>{}(keys[0])) return false;
  }
  return true;
}

// n different texts of 16 bytes (not UTF-8) that a multiplying hash with known constants, mix(head ^ 17 * 0x9E37...,
// tail ^ ...), maps to 0: its first factor is 0 whatever the tail is.
inline std::vector<std::string> colliding_tokens(size_t n) {
  constexpr uint64_t kA = 0x9E3779B97F4A7C15;
  const uint64_t head = (16 * kA) ^ kA;
  std::vector<std::string> tokens;
  tokens.reserve(n);
  for (uint32_t i = 0; i < n; i++) tokens.push_back(detail::key_of(head, detail::spelled(i)));
  return tokens;
}

}  // namespace rocmforge::testing
