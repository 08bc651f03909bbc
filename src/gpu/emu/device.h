#pragma once
// An emulated device: memory, streams, events and graphs, behind a table of functions like those of the real modules.
//
// Work on a stream is executed as late as the rules allow: only when the host waits for it or for a later event. This
// exposes a forgotten wait: a reader finds memory that was not written yet (new memory is NaNs), and a copy finds a
// buffer that was refilled too early.
//
// Devices, by index:  0  wave 32, mma     1  wave 64, mfma     2  wave 32, gfx11     3  wave 32, gfx12     4  wave 32,
// none
//
// Threads: as gpu/api.h says.

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "gpu/api.h"
#include "gpu/emu/block.h"
#include "gpu/emu/registry.h"

namespace rocmforge::gpu::emu {

inline constexpr Variant kDevices[] = {
    {32, FragmentKind::mma},   {64, FragmentKind::mfma}, {32, FragmentKind::gfx11},
    {32, FragmentKind::gfx12}, {32, FragmentKind::none},
};
inline constexpr uint32_t kNumDevices = sizeof kDevices / sizeof kDevices[0];

// Settings and counters for tests; one set per process.
struct Controls {
  std::atomic<Order> order{Order::forward};
  std::atomic<bool> immediate{false};              // work is executed when it is put on a stream
  std::atomic<uint64_t> memory_bytes{8ull << 30};  // of each device
  std::atomic<uint64_t> fail_at{0};                // the call with this number fails; 0: none
  // From the call with this number on every call fails, including those that free memory, as after an illegal access;
  // 0: never. Pending work is not executed any more.
  std::atomic<uint64_t> lost_from{0};
  std::atomic<uint64_t> n_calls{0};        // calls so far that may fail
  std::atomic<uint64_t> n_allocations{0};  // allocations of device and pinned memory so far
  std::atomic<uint64_t> n_launches{0};
  std::atomic<uint64_t> n_graph_launches{0};
  std::atomic<bool> refuse_capture{false};
  std::atomic<int64_t> held_bytes{0};  // device and pinned memory currently allocated
};
Controls& controls();

const GpuApi& api();

// For the stand-in of HIP's library (modules/stand_in_hip.cpp), which has kernels of its own kind.
// Work in a stream's order, captured like a launch.
GpuStatus put_work(GpuDevice* device, GpuStream* stream, std::function<void()> work);
// Memory that was given out. REQUIRES: called by work on a stream of the device.
struct Allocation {
  const std::byte* from;
  size_t n_bytes;
};
std::vector<Allocation> allocations(const GpuDevice& device);

}  // namespace rocmforge::gpu::emu
