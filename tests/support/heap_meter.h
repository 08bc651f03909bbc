#pragma once
// How much memory a piece of code takes from operator new. A test program that uses it lists heap_meter.cpp among its
// sources: that file replaces operator new and delete for the whole program.

#include <cstddef>

namespace rocmforge::testing {

class HeapMeter {
 public:
  // Measures from here on. One at a time.
  HeapMeter();
  // The most that was held at once, beyond what was held at the start.
  size_t peak_bytes() const;

 private:
  size_t start_bytes_;
};

}  // namespace rocmforge::testing
