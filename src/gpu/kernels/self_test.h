#pragma once
// Kernels of the device's self-test (gpu/self_test.h).

#include <cstdint>

#include "gpu/api.h"

namespace rocmforge::gpu {

// out (16 x 16) = a b^T, of 16 x 16 elements each, by one wave's matrix fragments.
struct TryFragmentsArgs {
  float* out;
  const uint16_t* a;  // bits of F16 or Bf16
  const uint16_t* b;
};
inline constexpr uint32_t kTryFragmentsThreads = 64;

// Every thread of every block writes a number; the last block to arrive sums the numbers of all, thread by thread.
struct MeetArgs {
  uint32_t* sums;     // kMeetThreads
  uint32_t* numbers;  // n_blocks x kMeetThreads
  uint32_t* counter;  // 0
  uint32_t n_blocks;
};
inline constexpr uint32_t kMeetThreads = 256;

inline uint32_t meet_number(uint32_t block, uint32_t thread) {
  return block * 7 + thread;
}

}  // namespace rocmforge::gpu
