#pragma once
// The language of our kernels: a small set of names with one meaning on NVIDIA GPUs, on AMD GPUs and in the emulation
// that runs kernels on a CPU. Portable kernels do not know which of the three they are compiled for. This file,
// gpu/fragment/ and kernels/target.cu do, and so do kernels for Hopper alone, which are empty on other targets.
//
//   RF_KERNEL(name, Args, kThreads) { ... args.x ... }   a kernel: one struct by value, kThreads threads a block
//   RF_KERNEL_EARLY(name, Args, kThreads) { ... }        a kernel that waits for its inputs itself, see below
//   RF_DEVICE                                            before a function that kernels call
//   RF_SHARED(T, name);                                  memory of the block, uninitialised; once per kernel
//   RF_DYNAMIC_SHARED(T, name);                          a T* to LaunchShape::shared_bytes more bytes, 128-byte aligned
//   RF_KERNELS                                           the namespace of the kernels
//   kWave                                                lanes that run together: 32 or 64, never assumed
//   thread_index() block_x() block_y() block_z()         this thread's coordinates
//   wait_for_inputs() let_next_begin()                   for RF_KERNEL_EARLY
//   keep_order()                                         the compiler moves no load across this point
//   sync_block()                                         barrier of all threads of the block
//   shuffle(v, lane) shuffle_xor(v, mask) ballot(p)      between the lanes of a wave; all of them take part
//   dot4(a, b, c)                                        c + the dot product of four signed bytes each
//   load16(p)                                            16 bytes from 16-byte aligned memory read once
//   widen(F16) narrow(float)                             half precision in hardware
//   exp_f32 log_f32 sqrt_f32 tanh_f32                    to the last bit or two
//   quotient_f32(a, b)                                   a / b to the last bit or two; 0 for b beyond 2^126
//   fma_f32(a, b, c)                                     a * b + c, rounded once
//   round_f32                                            to the nearest integer, ties to even
//   atomic_add(p, v)                                     relaxed: orders nothing else
//   arrive(counter, word)                                called by every thread of a block: counts the block and gives
//                                                        how many came before. What those wrote is visible after it.
//                                                        `word`: shared
//
// Launches overlap on GPUs that support it (LaunchShape::overlaps): a kernel's blocks may start while the previous
// kernel still runs. wait_for_inputs() returns when the previous kernel, and through that kernel's own wait all kernels
// before it, have ended and their writes are visible. A kernel written with RF_KERNEL first waits, then calls
// let_next_begin(). In an RF_KERNEL_EARLY every thread of every block must call wait_for_inputs() itself: before the
// thread ends and before it accesses memory that kernels write. Only weights may be read before the wait.
// let_next_begin(), called by any thread, marks the block as ready for the next kernel to start; the next kernel then
// uses the registers and shared memory that are free. A block that never calls it is marked when it ends.
//
// Device code has no library: no allocation, no exceptions, no std containers.

#if defined(__HIP__)
#include "gpu/runtime/amd.h"
#elif defined(__CUDACC__)
#include "gpu/runtime/cuda.h"
#else
#include "gpu/runtime/emu.h"
#endif

#include "tensor/half.h"

#define RF_KERNEL(name, Args, n_threads)      \
  RF_DEVICE void body_of_##name(const Args&); \
  RF_KERNEL_EARLY(name, Args, n_threads) {    \
    wait_for_inputs();                        \
    let_next_begin();                         \
    body_of_##name(args);                     \
  }                                           \
  RF_DEVICE void body_of_##name([[maybe_unused]] const Args& args)

namespace rocmforge::gpu::RF_KERNELS {

struct alignas(16) Word4 {
  uint32_t v[4];
};

RF_DEVICE uint32_t lane() {
  return thread_index() % kWave;
}
RF_DEVICE uint32_t wave() {
  return thread_index() / kWave;
}

// A tree of fixed shape over the lanes: every lane gets the same bits.
RF_DEVICE float wave_sum(float v) {
  for (uint32_t mask = kWave / 2; mask > 0; mask /= 2) v += shuffle_xor(v, mask);
  return v;
}
RF_DEVICE float wave_max(float v) {
  for (uint32_t mask = kWave / 2; mask > 0; mask /= 2) {
    const float other = shuffle_xor(v, mask);
    v = other > v ? other : v;
  }
  return v;
}

// The sum over a block of kThreads threads, for every thread. `partial`: shared, one float per wave.
template <uint32_t kThreads>
RF_DEVICE float block_sum(float v, float* partial) {
  v = wave_sum(v);
  if (lane() == 0) partial[wave()] = v;
  sync_block();
  float total = 0;
  for (uint32_t w = 0; w < kThreads / kWave; w++) total += partial[w];
  sync_block();
  return total;
}
template <uint32_t kThreads>
RF_DEVICE float block_max(float v, float* partial) {
  v = wave_max(v);
  if (lane() == 0) partial[wave()] = v;
  sync_block();
  float largest = partial[0];
  for (uint32_t w = 1; w < kThreads / kWave; w++) largest = partial[w] > largest ? partial[w] : largest;
  sync_block();
  return largest;
}

// Near zero by a series, where 1 - 2 / (1 + e^2x) would suffer cancellation.
RF_DEVICE float tanh_f32(float x) {
  const float s = x * x;
  if (s < 0.0625f) return x + x * s * (-1.0f / 3 + s * (2.0f / 15 + s * (-17.0f / 315 + s * (62.0f / 2835))));
  return 1.0f - 2.0f / (1.0f + exp_f32(2.0f * x));
}

// Smoothly limited to -limit .. limit; a limit of 0 means none.
RF_DEVICE float capped(float x, float limit) {
  return limit != 0.0f ? limit * tanh_f32(x / limit) : x;
}

RF_DEVICE Word4 load16(const void* from) {
  Word4 out;
  load16_streaming(out.v, from);
  return out;
}

}  // namespace rocmforge::gpu::RF_KERNELS
