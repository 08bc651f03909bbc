#pragma once
// Memory that runs out at a chosen moment. A test program that uses it lists heap_faults.cpp among its sources: that
// file replaces operator new and delete for the whole program.

#include <cstdint>

namespace rocmforge::testing {

// While it lives, of the allocations of all threads but the one that made it, `n_failing` fail after `n_before` have
// not. One at a time.
class HeapFaults {
 public:
  HeapFaults(int64_t n_before, int64_t n_failing);
  ~HeapFaults();
  HeapFaults(const HeapFaults&) = delete;
  HeapFaults& operator=(const HeapFaults&) = delete;

  // How many have failed.
  int64_t n_failed() const;
};

}  // namespace rocmforge::testing
