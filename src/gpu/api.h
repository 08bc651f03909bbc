#pragma once
// The interface between the program and a GPU module: plain functions over opaque handles, so that no CUDA, HIP or C++
// library type crosses it. A module (librocmforge-cuda.so, -hip.so, -emu.so) exports one function that returns this
// table.
//
// Every function that can fail returns a GpuStatus; last_error() then gives the reason, for the calling thread.
//
// Threads: every function may be called from any thread; each stream is used by one thread at a time.

#include <cstddef>
#include <cstdint>

namespace rocmforge::gpu {

inline constexpr uint32_t kApiVersion = 5;

enum class GpuStatus : int32_t {
  ok = 0,
  unavailable,  // no driver, no device, a driver that is too old
  out_of_memory,
  not_found,  // no such kernel
  failed,
};

enum class CopyKind : int32_t { to_device, to_host, on_device };

// Opaque handles, defined by the module.
struct GpuDevice;
struct GpuStream;
struct GpuEvent;
struct GpuKernel;
struct GpuGraph;

struct GpuDeviceInfo {
  char name[128];
  uint64_t memory_bytes;
  uint32_t is_integrated;  // 1: it shares the machine's memory
  uint32_t n_units;        // compute units; 0: not known
  char target[16];         // "gfx1100"; empty: not known, or no AMD GPU
};

struct Grid {
  uint32_t x = 1, y = 1, z = 1;
  uint32_t cluster = 1;  // blocks along z that share memory as a cluster, where a device has clusters (Target)
};

struct LaunchShape {
  Grid grid;
  uint32_t n_threads = 1;     // of a block
  uint32_t shared_bytes = 0;  // of a block, beside the kernel's static shared memory: RF_DYNAMIC_SHARED (gpu/runtime.h)
  // The kernel may start before the previous one has ended, on devices with that feature. It must wait for its inputs
  // itself (gpu/runtime.h): never set this for a device that cannot execute that wait.
  bool overlaps = false;
};

struct GpuApi {
  uint32_t version;
  const char* module;   // "cuda", "hip", "emu"
  const char* targets;  // AMD's targets that the module has code for, separated by spaces; empty in other modules

  const char* (*last_error)();
  // Finds the driver; without one, 0 devices and a status other than ok.
  GpuStatus (*count)(uint32_t* n_devices);
  GpuStatus (*info)(uint32_t index, GpuDeviceInfo* out);
  GpuStatus (*open)(uint32_t index, GpuDevice** out);
  void (*close)(GpuDevice* device);

  GpuStatus (*memory)(GpuDevice* device, uint64_t* free_bytes, uint64_t* total_bytes);
  GpuStatus (*allocate)(GpuDevice* device, size_t n_bytes, void** out);  // 256-byte aligned
  GpuStatus (*release)(GpuDevice* device, void* memory);                 // waits for pending work
  // Pinned and page-aligned; kernels may use the same address.
  GpuStatus (*allocate_host)(GpuDevice* device, size_t n_bytes, void** out);
  GpuStatus (*release_host)(GpuDevice* device, void* memory);

  GpuStatus (*make_stream)(GpuDevice* device, GpuStream** out);
  void (*drop_stream)(GpuDevice* device, GpuStream* stream);
  GpuStatus (*finish_stream)(GpuDevice* device, GpuStream* stream);  // waits until all of its work is done

  // An event marks a position in a stream. Waiting for an event that was never recorded returns at once.
  GpuStatus (*make_event)(GpuDevice* device, GpuEvent** out);
  void (*drop_event)(GpuDevice* device, GpuEvent* event);
  GpuStatus (*record)(GpuDevice* device, GpuEvent* event, GpuStream* stream);
  GpuStatus (*wait)(GpuDevice* device, GpuStream* stream, GpuEvent* event);  // the stream waits
  GpuStatus (*finish_event)(GpuDevice* device, GpuEvent* event);             // the caller waits

  // Host memory must be pinned and stay valid until the stream has executed the copy.
  GpuStatus (*copy)(GpuDevice* device, void* to, const void* from, size_t n_bytes, CopyKind kind, GpuStream* stream);
  GpuStatus (*fill)(GpuDevice* device, void* to, uint8_t byte, size_t n_bytes, GpuStream* stream);

  // Finds a kernel by its source file and name. A kernel takes one struct by value.
  GpuStatus (*find)(GpuDevice* device, const char* file, const char* name, GpuKernel** out);
  GpuStatus (*launch)(GpuDevice* device, GpuKernel* kernel, LaunchShape shape, const void* args, size_t args_bytes,
                      GpuStream* stream);

  // Work put on the stream between begin and end is recorded, not executed.
  GpuStatus (*begin_capture)(GpuDevice* device, GpuStream* stream);
  GpuStatus (*end_capture)(GpuDevice* device, GpuStream* stream, GpuGraph** out);
  GpuStatus (*launch_graph)(GpuDevice* device, GpuGraph* graph, GpuStream* stream);
  void (*drop_graph)(GpuDevice* device, GpuGraph* graph);
};

// A module exports this as "rocmforge_gpu_api"; it returns null for a version other than the module's.
using GetApi = const GpuApi* (*)(uint32_t version);

}  // namespace rocmforge::gpu
