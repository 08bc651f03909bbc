#pragma once
// Runs the threads of a block on one CPU core: a fiber each, switched at barriers and wave operations. For tests, not
// for speed (some 5 to 10 million GPU threads a second and core).
//
// A wave runs lane by lane up to its next operation, then the next wave runs. order() reverses the order of lanes,
// waves and blocks, so that a missing barrier changes the result. These errors end the process with a message: lanes of
// a wave or threads of a block at different operations, a barrier that some threads never reach, a shuffle from a lane
// that takes no part, a thread that ends without waiting for its inputs. Shared memory is filled with NaNs before each
// block and ends at an inaccessible page.
//
// Not emulated: blocks that wait for each other, memory ordering, time.
//
// Threads: one block per operating system thread at a time.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "gpu/api.h"

namespace rocmforge::gpu::emu {

inline constexpr uint32_t kMaxThreads = 1024;
inline constexpr size_t kSharedBytes = 64 << 10;  // available on every supported device
inline constexpr uint32_t kMaxWave = 64;

enum class Order : uint8_t { forward, reverse };

using KernelBody = void (*)(const void* args);

// The state of a running thread and its wave.
struct Context {
  uint32_t thread = 0;
  Grid block;
  bool has_waited = false;  // has called wait_for_inputs()
};
extern thread_local Context* current __attribute__((tls_model("initial-exec")));

// Ends the process: a kernel broke a rule of the language. `line`: in the kernel's source, 0 if unknown.
[[noreturn]] void fail(const char* fact, int line = 0);

// For the kernel language. All lanes of a wave take part in a wave operation.
void wait_for_block(int line);
void* shared_memory(size_t n_bytes);
void* dynamic_shared_memory();
void wait_for_inputs();
uint64_t ballot(bool p, int line);
// Publishes n_bytes of each lane and returns those of the whole wave, by lane; valid until the wave's second operation
// after this one.
const std::byte* exchange_bytes(const void* mine, size_t n_bytes, int line);
inline constexpr size_t kExchangeBytes = 64;
bool takes_part(uint32_t lane);  // whether the lane took part in the wave operation that just ended

template <class T>
T exchange(T mine, uint32_t from, int line) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kExchangeBytes);
  const std::byte* all = exchange_bytes(&mine, sizeof mine, line);
  if (!takes_part(from)) fail("a shuffle from a lane that takes no part", line);
  T out;
  std::memcpy(&out, all + from * kExchangeBytes, sizeof out);
  return out;
}

struct Launch {
  KernelBody body;
  const void* args;
  LaunchShape shape;
  uint32_t wave;
  Order order = Order::forward;
};

// Runs all blocks of a launch; on several cores when there are many.
void run(const Launch& launch);

}  // namespace rocmforge::gpu::emu
