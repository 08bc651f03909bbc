#include "base/seeded_hash.h"

#include <sys/auxv.h>
#include <sys/random.h>

#include <chrono>

namespace rocmforge {
namespace {

// A sandbox may forbid getrandom. The kernel also gives every process 16 random bytes at its start.
HashKey key_without_getrandom() {
  uint64_t seed[2] = {};
  if (const unsigned long address = getauxval(AT_RANDOM)) {
    std::memcpy(seed, reinterpret_cast<const void*>(address), sizeof seed);  // NOLINT(performance-no-int-to-ptr)
  }
  seed[0] ^= static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  HashKey key{};
  for (uint64_t& word : key.words) {
    seed[0] += 0x9E3779B97F4A7C15;
    word = detail::folded_product(seed[0], seed[1] ^ 0xD6E8FEB86659FD93) ^ seed[0];
  }
  return key;
}

HashKey random_key() {
  HashKey key{};
  const bool is_random = getrandom(&key, sizeof key, 0) == static_cast<ssize_t>(sizeof key);
  if (!is_random) key = key_without_getrandom();
  key.words[3] |= 1;
  return key;
}

}  // namespace

const HashKey& process_hash_key() {
  static const HashKey key = random_key();
  return key;
}

}  // namespace rocmforge
