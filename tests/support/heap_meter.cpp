#include "support/heap_meter.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<size_t> held{0};
std::atomic<size_t> peak{0};

void* counted(void* memory) {
  if (memory == nullptr) std::abort();
  const size_t now = held += malloc_usable_size(memory);
  size_t seen = peak;
  while (now > seen && !peak.compare_exchange_weak(seen, now)) {
  }
  return memory;
}

void release(void* memory) noexcept {
  if (memory == nullptr) return;
  held -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(size_t n) {
  return counted(std::malloc(n));
}
void* operator new(size_t n, std::align_val_t alignment) {
  const auto unit = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(unit, (n + unit - 1) / unit * unit));
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, size_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  release(memory);
}

namespace rocmforge::testing {

HeapMeter::HeapMeter() : start_bytes_(held) {
  peak = held.load();
}

size_t HeapMeter::peak_bytes() const {
  return peak - start_bytes_;
}

}  // namespace rocmforge::testing
