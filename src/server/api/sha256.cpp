#include "server/api/sha256.h"

#include <bit>
#include <cmath>

namespace rocmforge::server {
namespace {

struct Constants {
  std::array<uint32_t, 64> round;  // the fractions of the first 64 primes' cube roots
  std::array<uint32_t, 8> start;   // and of the first 8 primes' square roots
};

uint32_t fraction_bits(long double x) {
  return static_cast<uint32_t>((x - std::floor(x)) * 4294967296.0L);
}

Constants make_constants() {
  Constants c{};
  size_t n = 0;
  for (uint32_t candidate = 2; n < 64; candidate++) {
    bool is_prime = true;
    for (uint32_t d = 2; d * d <= candidate; d++) is_prime = is_prime && candidate % d != 0;
    if (!is_prime) continue;
    c.round[n] = fraction_bits(std::cbrt(static_cast<long double>(candidate)));
    if (n < 8) c.start[n] = fraction_bits(std::sqrt(static_cast<long double>(candidate)));
    n++;
  }
  return c;
}

const Constants& constants() {
  static const Constants made = make_constants();
  return made;
}

void mix_block(std::array<uint32_t, 8>& state, const uint8_t* block) {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; i++) {
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 | uint32_t{block[4 * i + 2]} << 8 |
           block[4 * i + 3];
  }
  for (size_t i = 16; i < 64; i++) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
  }
  std::array<uint32_t, 8> s = state;  // a to h
  for (size_t i = 0; i < 64; i++) {
    const uint32_t t1 = s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) +
                        ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants().round[i] + w[i];
    const uint32_t t2 = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) +
                        ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
  }
  for (size_t i = 0; i < 8; i++) state[i] += s[i];
}

}  // namespace

Sha256 sha256(std::string_view bytes) {
  std::string padded(bytes);
  padded.push_back(static_cast<char>(0x80));
  while (padded.size() % 64 != 56) padded.push_back('\0');
  for (int shift = 56; shift >= 0; shift -= 8) {
    padded.push_back(static_cast<char>((uint64_t{bytes.size()} * 8) >> shift));
  }
  std::array<uint32_t, 8> state = constants().start;
  for (size_t at = 0; at < padded.size(); at += 64) {
    mix_block(state, reinterpret_cast<const uint8_t*>(padded.data()) + at);
  }
  Sha256 digest;
  for (size_t i = 0; i < 32; i++) digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

std::string to_hex(const Sha256& digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const uint8_t byte : digest) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

}  // namespace rocmforge::server
