#pragma once
// The border between the program and a GPU module: plain functions over opaque handles, so that nothing of CUDA, HIP or
// C++'s library crosses it. A module (librocmforge-cuda.so, -hip.so, -emu.so) exports one function that gives this
// table.
//
// Every function that can fail returns a GpuStatus; last_error() then says why, for the calling thread.
//
// Threads: everything may be called from any thread; one stream by one thread at a time.

#include <cstddef>
#include <cstdint>

namespace rocmforge::gpu {

inline constexpr uint32_t kApiVersion = 4;

enum class GpuStatus : int32_t {
  ok = 0,
  unavailable,  // no driver, no device, a driver that is too old
  out_of_memory,
  not_found,  // a kernel
  failed,
};

enum class CopyKind : int32_t { to_device, to_host, on_device };

// Handles. The module knows what they are.
struct GpuDevice;
struct GpuStream;
struct GpuEvent;
struct GpuKernel;
struct GpuGraph;

struct GpuDeviceInfo {
  char name[128];
  uint64_t memory_bytes;
  uint32_t is_integrated;  // 1: it shares the machine's memory
};

struct Grid {
  uint32_t x = 1, y = 1, z = 1;
  uint32_t cluster = 1;  // neighbours along z that see each other's shared memory, where a device has that (Target)
};

struct LaunchShape {
  Grid grid;
  uint32_t n_threads = 1;     // of a block
  uint32_t shared_bytes = 0;  // of a block, beside what the kernel declares: RF_DYNAMIC_SHARED (gpu/runtime.h)
  // The kernel may begin before the one ahead of it has ended, where a device can do that. It must wait for its inputs
  // itself (gpu/runtime.h): devices that cannot run that wait must not be asked.
  bool overlaps = false;
};

struct GpuApi {
  uint32_t version;
  const char* module;  // "cuda", "hip", "emu"

  const char* (*last_error)();
  // Finds the driver; 0 devices and a status other than ok when there is none.
  GpuStatus (*count)(uint32_t* n_devices);
  GpuStatus (*info)(uint32_t index, GpuDeviceInfo* out);
  GpuStatus (*open)(uint32_t index, GpuDevice** out);
  void (*close)(GpuDevice* device);

  GpuStatus (*memory)(GpuDevice* device, uint64_t* free_bytes, uint64_t* total_bytes);
  GpuStatus (*allocate)(GpuDevice* device, size_t n_bytes, void** out);  // 256-byte aligned
  GpuStatus (*release)(GpuDevice* device, void* memory);                 // waits for work under way
  // Pinned and page-aligned; kernels may use it under the same address.
  GpuStatus (*allocate_host)(GpuDevice* device, size_t n_bytes, void** out);
  GpuStatus (*release_host)(GpuDevice* device, void* memory);

  GpuStatus (*make_stream)(GpuDevice* device, GpuStream** out);
  void (*drop_stream)(GpuDevice* device, GpuStream* stream);
  GpuStatus (*finish_stream)(GpuDevice* device, GpuStream* stream);  // waits until all of it is done

  // An event marks a point of a stream. Waiting for one that was never recorded does not wait.
  GpuStatus (*make_event)(GpuDevice* device, GpuEvent** out);
  void (*drop_event)(GpuDevice* device, GpuEvent* event);
  GpuStatus (*record)(GpuDevice* device, GpuEvent* event, GpuStream* stream);
  GpuStatus (*wait)(GpuDevice* device, GpuStream* stream, GpuEvent* event);  // the stream waits
  GpuStatus (*finish_event)(GpuDevice* device, GpuEvent* event);             // the caller waits

  // Host memory must be pinned and stay until the stream has passed.
  GpuStatus (*copy)(GpuDevice* device, void* to, const void* from, size_t n_bytes, CopyKind kind, GpuStream* stream);
  GpuStatus (*fill)(GpuDevice* device, void* to, uint8_t byte, size_t n_bytes, GpuStream* stream);

  // A kernel by the file and the name it was written under. It takes one struct, by value.
  GpuStatus (*find)(GpuDevice* device, const char* file, const char* name, GpuKernel** out);
  GpuStatus (*launch)(GpuDevice* device, GpuKernel* kernel, LaunchShape shape, const void* args, size_t args_bytes,
                      GpuStream* stream);

  // Between begin and end what is put on the stream is recorded and not run.
  GpuStatus (*begin_capture)(GpuDevice* device, GpuStream* stream);
  GpuStatus (*end_capture)(GpuDevice* device, GpuStream* stream, GpuGraph** out);
  GpuStatus (*launch_graph)(GpuDevice* device, GpuGraph* graph, GpuStream* stream);
  void (*drop_graph)(GpuDevice* device, GpuGraph* graph);
};

// What a module exports, as "rocmforge_gpu_api": null when it was built for another version.
using GetApi = const GpuApi* (*)(uint32_t version);

}  // namespace rocmforge::gpu
