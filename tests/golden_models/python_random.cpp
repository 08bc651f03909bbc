#include "python_random.h"

#include <bit>
#include <cmath>
#include <numbers>
#include <string>

namespace rocmforge::golden_models {
namespace {

// The first 64 bits behind the point of the cube roots of the first 80 primes, and of the square roots of eight.
constexpr uint64_t kRounds[80] = {
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc, 0x3956c25bf348b538,
    0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118, 0xd807aa98a3030242, 0x12835b0145706fbe,
    0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2, 0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235,
    0xc19bf174cf692694, 0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5, 0x983e5152ee66dfab,
    0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4, 0xc6e00bf33da88fc2, 0xd5a79147930aa725,
    0x06ca6351e003826f, 0x142929670a0e6e70, 0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed,
    0x53380d139d95b3df, 0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30, 0xd192e819d6ef5218,
    0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8, 0x19a4c116b8d2d0c8, 0x1e376c085141ab53,
    0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8, 0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373,
    0x682e6ff3d6b2b8a3, 0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b, 0xca273eceea26619c,
    0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178, 0x06f067aa72176fba, 0x0a637dc5a2c898a6,
    0x113f9804bef90dae, 0x1b710b35131c471b, 0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc,
    0x431d67c49c100d4c, 0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
};
constexpr std::array<uint64_t, 8> kStart = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

uint64_t load_big_endian(const char* from) {
  uint64_t out = 0;
  for (int i = 0; i < 8; i++) out = out << 8 | static_cast<uint8_t>(from[i]);
  return out;
}

void add_block(std::array<uint64_t, 8>& hash, const char* block) {
  uint64_t w[80];
  for (int i = 0; i < 16; i++) w[i] = load_big_endian(block + 8 * i);
  for (int i = 16; i < 80; i++) {
    const uint64_t a = w[i - 15], b = w[i - 2];
    const uint64_t small = std::rotr(a, 1) ^ std::rotr(a, 8) ^ a >> 7;
    const uint64_t large = std::rotr(b, 19) ^ std::rotr(b, 61) ^ b >> 6;
    w[i] = w[i - 16] + small + w[i - 7] + large;
  }
  std::array<uint64_t, 8> s = hash;  // a to h
  for (int i = 0; i < 80; i++) {
    const uint64_t mixed = std::rotr(s[4], 14) ^ std::rotr(s[4], 18) ^ std::rotr(s[4], 41);
    const uint64_t chosen = (s[4] & s[5]) ^ (~s[4] & s[6]);
    const uint64_t first = s[7] + mixed + chosen + kRounds[i] + w[i];
    const uint64_t turned = std::rotr(s[0], 28) ^ std::rotr(s[0], 34) ^ std::rotr(s[0], 39);
    const uint64_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    s = {first + turned + majority, s[0], s[1], s[2], s[3] + first, s[4], s[5], s[6]};
  }
  for (size_t i = 0; i < 8; i++) hash[i] += s[i];
}

// A polynomial from its highest coefficient down.
double polynomial(const double (&c)[8], double x) {
  double out = c[0];
  for (int i = 1; i < 8; i++) out = out * x + c[i];
  return out;
}

}  // namespace

std::array<uint8_t, 64> sha512(std::string_view text) {
  std::string padded(text);
  padded += '\x80';
  while (padded.size() % 128 != 112) padded += '\0';
  padded.append(8, '\0');
  for (int shift = 56; shift >= 0; shift -= 8) padded += static_cast<char>(text.size() * 8 >> shift);
  std::array<uint64_t, 8> hash = kStart;
  for (size_t at = 0; at < padded.size(); at += 128) add_block(hash, padded.data() + at);
  std::array<uint8_t, 64> out{};
  for (size_t i = 0; i < 64; i++) out[i] = static_cast<uint8_t>(hash[i / 8] >> (56 - 8 * (i % 8)));
  return out;
}

// The text and its hash are one long number, most significant byte first; the key is its words from the lowest up.
PythonRandom::PythonRandom(std::string_view text) {
  std::string bytes(text);
  for (const uint8_t byte : sha512(text)) bytes += static_cast<char>(byte);
  std::vector<uint32_t> key((bytes.size() + 3) / 4);
  for (size_t i = 0; i < bytes.size(); i++) {
    key[i / 4] |= uint32_t{static_cast<uint8_t>(bytes[bytes.size() - 1 - i])} << (8 * (i % 4));
  }
  seed(key);
}

// Seeding by an array of words, as the generator's authors published it in 2002.
void PythonRandom::seed(const std::vector<uint32_t>& key) {
  state_[0] = 19650218;
  for (uint32_t i = 1; i < kWords; i++) state_[i] = 1812433253u * (state_[i - 1] ^ state_[i - 1] >> 30) + i;
  size_t i = 1, j = 0;
  const auto step = [&] {
    if (++i < kWords) return;
    state_[0] = state_[kWords - 1];
    i = 1;
  };
  for (size_t k = std::max(kWords, key.size()); k > 0; k--) {
    const uint32_t before = state_[i - 1];
    state_[i] = (state_[i] ^ (before ^ before >> 30) * 1664525u) + key[j] + static_cast<uint32_t>(j);
    step();
    j = (j + 1) % key.size();
  }
  for (size_t k = kWords - 1; k > 0; k--) {
    const uint32_t before = state_[i - 1];
    state_[i] = (state_[i] ^ (before ^ before >> 30) * 1566083941u) - static_cast<uint32_t>(i);
    step();
  }
  state_[0] = 0x80000000;
}

uint32_t PythonRandom::next() {
  if (at_ == kWords) {
    for (size_t i = 0; i < kWords; i++) {
      const uint32_t joined = (state_[i] & 0x80000000) | (state_[(i + 1) % kWords] & 0x7fffffff);
      state_[i] = state_[(i + 397) % kWords] ^ joined >> 1 ^ (joined & 1 ? 0x9908b0df : 0);
    }
    at_ = 0;
  }
  uint32_t y = state_[at_++];
  y ^= y >> 11;
  y ^= y << 7 & 0x9d2c5680;
  y ^= y << 15 & 0xefc60000;
  return y ^ y >> 18;
}

double PythonRandom::uniform() {
  const uint32_t high = next() >> 5, low = next() >> 6;
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

double PythonRandom::gauss(double mean, double deviation) {
  double z = 0;
  if (kept_) {
    z = *kept_;
    kept_.reset();
  } else {
    const double angle = uniform() * (2 * std::numbers::pi);
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    z = std::cos(angle) * radius;
    kept_ = std::sin(angle) * radius;
  }
  return mean + z * deviation;
}

std::vector<uint16_t> PythonRandom::halves(uint64_t n) {
  std::vector<uint16_t> out(n);
  for (uint64_t i = 0; i + 1 < n; i += 2) {
    const uint32_t word = next();
    out[i] = static_cast<uint16_t>(word);
    out[i + 1] = static_cast<uint16_t>(word >> 16);
  }
  if (n % 2 == 1) out[n - 1] = static_cast<uint16_t>(next() >> 16);
  return out;
}

double normal_quantile(double p) {
  static constexpr double kNear[8] = {2509.0809287301226727, 33430.575583588128105, 67265.770927008700853,
                                      45921.953931549871457, 13731.693765509461125, 1971.5909503065514427,
                                      133.14166789178437745, 3.3871328727963666080};
  static constexpr double kNearBelow[8] = {
      5226.4952788528545610, 28729.085735721942674, 39307.895800092710610, 21213.794301586595867,
      5394.1960214247511077, 687.18700749205790830, 42.313330701600911252, 1.0};
  static constexpr double kFar[8] = {7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
                                     1.27045825245236838258,    3.64784832476320460504,    5.76949722146069140550,
                                     4.63033784615654529590,    1.42343711074968357734};
  static constexpr double kFarBelow[8] = {
      1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
      6.89767334985100004550e-1, 1.67638483018380384940,    2.05319162663775882187,    1.0};
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return polynomial(kNear, r) * q / polynomial(kNearBelow, r);
  }
  const double r = std::sqrt(-std::log(q <= 0 ? p : 1 - p)) - 1.6;
  const double x = polynomial(kFar, r) / polynomial(kFarBelow, r);
  return q < 0 ? -x : x;
}

}  // namespace rocmforge::golden_models
