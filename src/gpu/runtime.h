#pragma once
// The language of our kernels: a small set of names with one meaning on NVIDIA GPUs, on AMD GPUs and in the emulation
// that runs kernels on a CPU. Portable kernels do not know which of the three they are compiled for. This file,
// gpu/fragment/ and kernels/target.cu do, and so do kernels for Hopper alone, which are empty on other targets.
//
//   RF_KERNEL(name, Args, kThreads) { ... args.x ... }   a kernel: one struct by value, kThreads threads a block
//   RF_KERNEL(name, Args, kThreads, kBlocks) { ... }     the same; on NVIDIA with registers for so many blocks at once
//   RF_KERNEL_EARLY(name, Args, kThreads) { ... }        a kernel that waits for its inputs itself, see below
//   RF_DEVICE                                            before a function that kernels call
//   RF_SHARED(T, name);                                  memory of the block, uninitialised; once per kernel
//   RF_DYNAMIC_SHARED(T, name);                          a T* to LaunchShape::shared_bytes more bytes, 128-byte aligned
//   RF_KERNELS                                           the namespace of the kernels
//   kWave                                                lanes that run together: 32 or 64, never assumed
//   thread_index() block_x() block_y() block_z()         this thread's coordinates
//   wait_for_inputs() let_next_begin()                   for RF_KERNEL_EARLY
//   keep_order()                                         the compiler moves no load across this point
//   keep_here(v)                                         the compiler computes v (floats) before this point
//   sync_block()                                         barrier of all threads of the block
//   sync_shared()                                        the same for shared memory alone: what threads wrote to global
//                                                        memory before it is not visible to others after it
//   shuffle(v, lane) shuffle_xor(v, mask) ballot(p)      between the lanes of a wave; all of them take part
//   dot4(a, b, c)                                        c + the dot product of four signed bytes each
//   load16(p)                                            16 bytes from 16-byte aligned memory read once
//   CopyAhead<n>                                         copies of n times 16 bytes by each thread from global to
//                                                        shared memory, begun ahead of their use: see below
//   look_up_bytes(table, codes)                          four bytes of a table of 16, by the low four bits of each byte
//   widen(F16) narrow(float)                             half precision in hardware
//   two_halves_of(a, b)                                  narrow(a) in the lower half of a word, narrow(b) in the upper
//   halves_of_bytes<i>(bytes)                            1024 + byte i and 1024 + byte i + 1 as two halves of a word
//   add_halves(a, b) fma_halves(a, b, c)                 of two halves each, rounded once
//   exp_f32 log_f32 sqrt_f32 tanh_f32                    to the last bit or two
//   quotient_f32(a, b)                                   a / b to the last bit or two; 0 for b beyond 2^126
//   fma_f32(a, b, c)                                     a * b + c, rounded once
//   round_f32                                            to the nearest integer, ties to even
//   atomic_add(p, v)                                     relaxed: orders nothing else
//   is_last_to_arrive(counter, n, word)                  called by every thread of a block: counts the block, and tells
//                                                        whether it is the n-th. What the blocks before it wrote is
//                                                        then visible. `word`: shared
//
// Launches overlap on GPUs that support it (LaunchShape::overlaps): a kernel's blocks may start while the previous
// kernel still runs. wait_for_inputs() returns when the previous kernel, and through that kernel's own wait all kernels
// before it, have ended and their writes are visible. A kernel written with RF_KERNEL first waits, then calls
// let_next_begin(). In an RF_KERNEL_EARLY every thread of every block must call wait_for_inputs() itself: before the
// thread ends and before it accesses memory that kernels write. Only weights may be read before the wait.
// let_next_begin(), called by any thread, marks the block as ready for the next kernel to start; the next kernel then
// uses the registers and shared memory that are free. A block that never calls it is marked when it ends.
//
// CopyAhead lets copies run while a block computes with what came before. Shared memory holds kCopyBuffers buffers,
// used in turn. begin(i, to, from) for every i, then commit(), begin the copies into the buffer of kCopyBuffers - 1
// steps from now. wait(), then land(i, to) for every i, end the copies of this step: after a sync_block() every thread
// may read the step's buffer. A step is wait, land, sync_block(), begin and commit ahead, compute; commit() also where
// nothing is begun.
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

#define RF_KERNEL(name, Args, ...)            \
  RF_DEVICE void body_of_##name(const Args&); \
  RF_KERNEL_EARLY(name, Args, __VA_ARGS__) {  \
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

// The sum over a block of kThreads threads, for every thread. `partial`: shared, one float per wave. Orders accesses to
// shared memory alone, like sync_shared().
template <uint32_t kThreads>
RF_DEVICE float block_sum(float v, float* partial) {
  v = wave_sum(v);
  if (lane() == 0) partial[wave()] = v;
  sync_shared();
  float total = 0;
  for (uint32_t w = 0; w < kThreads / kWave; w++) total += partial[w];
  sync_shared();
  return total;
}
template <uint32_t kThreads>
RF_DEVICE float block_max(float v, float* partial) {
  v = wave_max(v);
  if (lane() == 0) partial[wave()] = v;
  sync_shared();
  float largest = partial[0];
  for (uint32_t w = 1; w < kThreads / kWave; w++) largest = partial[w] > largest ? partial[w] : largest;
  sync_shared();
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

#if !defined(__CUDACC__)
RF_DEVICE uint32_t two_halves_of(float first, float second) {
  return narrow(first).bits | static_cast<uint32_t>(narrow(second).bits) << 16;
}

// Through registers: they hold the next step's words while this one computes.
inline constexpr uint32_t kCopyBuffers = 2;
template <uint32_t kWords>
struct CopyAhead {
  uint32_t words[kWords][4] = {};  // AMD's compiler would keep a Word4 in memory
  RF_DEVICE void begin(uint32_t i, void*, const void* from) {
    const Word4 read = *static_cast<const Word4*>(from);
    RF_UNROLL
    for (uint32_t w = 0; w < 4; w++) words[i][w] = read.v[w];
  }
  RF_DEVICE void commit() {}
  RF_DEVICE void wait() {}
  RF_DEVICE void land(uint32_t i, void* to) {
    *static_cast<Word4*>(to) = {{words[i][0], words[i][1], words[i][2], words[i][3]}};
  }
};
#endif

RF_DEVICE Word4 load16(const void* from) {
  Word4 out;
  load16_streaming(out.v, from);
  return out;
}

}  // namespace rocmforge::gpu::RF_KERNELS
