#include "support/heap_faults.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<bool> is_armed{false};
std::atomic<int64_t> n_seen{0}, first{0}, last{0}, failed{0};
thread_local bool is_spared = false;

void* checked(void* memory) {
  if (is_armed && !is_spared) {
    const int64_t n = n_seen++;
    if (n >= first && n < last) {
      failed++;
      std::free(memory);
      throw std::bad_alloc();
    }
  }
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t n) {
  return checked(std::malloc(n));
}
void* operator new(size_t n, std::align_val_t alignment) {
  const auto unit = static_cast<size_t>(alignment);
  return checked(std::aligned_alloc(unit, (n + unit - 1) / unit * unit));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace rocmforge::testing {

HeapFaults::HeapFaults(int64_t n_before, int64_t n_failing) {
  is_spared = true;
  failed = 0;
  n_seen = 0;
  first = n_before;
  last = n_before + n_failing;
  is_armed = true;
}

HeapFaults::~HeapFaults() {
  is_armed = false;
}

int64_t HeapFaults::n_failed() const {
  return failed;
}

}  // namespace rocmforge::testing
