#pragma once
// Large blocks of memory straight from the system: zeroed, aligned to huge pages where there are any, touched first by
// whoever writes first.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace rocmforge::cpu {

class Memory {
 public:
  Memory() = default;
  ~Memory() { release(); }
  Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Memory& operator=(Memory&& other) noexcept;

  // out_of_memory with what is needed and what is available, which must be known: the system would promise more than it
  // has and end the process when it is used.
  static Result<Memory> allocate(uint64_t n_bytes, uint64_t available_bytes, std::string_view what);

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  void release();

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

// What this process holds now of the machine's memory, its program included.
uint64_t held_memory();

// What this process may still take: the machine's memory or its control group's, whichever is less.
uint64_t available_memory();

}  // namespace rocmforge::cpu
