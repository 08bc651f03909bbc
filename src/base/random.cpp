#include "base/random.h"

#include <sys/random.h>

#include <cerrno>

#include "base/check.h"

namespace rocmforge {

uint64_t random_bits() {
  uint64_t bits = 0;
  ssize_t n = 0;
  // Only a signal before the pool is ready interrupts it; as few bytes as these come whole.
  do {
    n = getrandom(&bits, sizeof bits, 0);
  } while (n < 0 && errno == EINTR);
  CHECK(n == sizeof bits);  // every kernel since 3.17 has it
  return bits;
}

}  // namespace rocmforge
