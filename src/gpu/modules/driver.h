#pragma once
// The functions that CUDA's driver and HIP's runtime share under different names, as pointers looked up in a library at
// run time. Nothing is linked, and no vendor header or struct is used.
//
// Handles are pointers; device addresses are pointers too (CUDA's are integers of that size, passed alike).

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/api.h"

namespace rocmforge::gpu::modules {

using Code = int;  // 0: no error, 2: out of memory, in both
inline constexpr Code kOutOfMemory = 2;
inline constexpr Code kNotSupported = 801;  // in both
inline constexpr Code kNotReady = 600;      // in both: what a query says of work under way

struct Driver {
  Code (*init)(unsigned flags);
  Code (*device_count)(int* n);
  Code (*device_name)(char* name, int n_bytes, int device);
  Code (*device_memory)(size_t* n_bytes, int device);
  Code (*memory_info)(size_t* free, size_t* total);

  Code (*allocate)(void** out, size_t n_bytes);
  Code (*release)(void* memory);
  Code (*allocate_host)(void** out, size_t n_bytes, unsigned flags);
  Code (*release_host)(void* memory);

  Code (*stream_create)(void** out, unsigned flags);
  Code (*stream_destroy)(void* stream);
  Code (*stream_synchronize)(void* stream);
  Code (*stream_wait_event)(void* stream, void* event, unsigned flags);
  Code (*event_create)(void** out, unsigned flags);
  Code (*event_destroy)(void* event);
  Code (*event_record)(void* event, void* stream);
  Code (*event_synchronize)(void* event);

  Code (*copy_to_device)(void* to, const void* from, size_t n_bytes, void* stream);
  Code (*copy_to_host)(void* to, const void* from, size_t n_bytes, void* stream);
  Code (*copy_on_device)(void* to, const void* from, size_t n_bytes, void* stream);
  Code (*fill)(void* to, unsigned char byte, size_t n_bytes, void* stream);

  Code (*module_load)(void** out, const void* image);
  Code (*module_unload)(void* module);
  Code (*module_function)(void** out, void* module, const char* name);

  Code (*capture_begin)(void* stream, int mode);
  Code (*capture_end)(void* stream, void** graph);
  Code (*graph_instantiate)(void** out, void* graph, unsigned long long flags);
  Code (*graph_destroy)(void* graph);
  Code (*graph_exec_destroy)(void* graph);
  Code (*graph_launch)(void* graph, void* stream);
};

// The names of Driver's functions, in order.
inline constexpr size_t kNumFunctions = sizeof(Driver) / sizeof(void*);
using FunctionNames = const char* [kNumFunctions];

// Flags that both share: streams independent of the default stream, events without timing, captures that ignore other
// threads.
inline constexpr unsigned kNonBlocking = 1;
inline constexpr unsigned kNoTiming = 2;
inline constexpr int kRelaxedCapture = 2;

// The code of a .cu file for every architecture it was compiled for.
struct KernelFile {
  const char* name;
  const void* image;
};

// The launch function, whose name differs.
using LaunchKernel = Code (*)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                              unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** params,
                              void** extra);

// The differences between CUDA and HIP.
struct Vendor {
  const char* module;                       // "cuda"
  const char* targets;                      // as GpuApi::targets
  std::vector<std::string> (*libraries)();  // names to try
  const char* library_variable;  // of the environment: the one library to try instead; null where there is none
  const FunctionNames* names;
  const char* version_name;  // of the function int (int* version)
  // Of the functions that say whether a stream's work is done, whether an event was reached.
  const char* stream_query_name;
  const char* event_query_name;
  // The longest wait for a device; 0: any. ROCMFORGE_GPU_WAIT_SECONDS replaces it.
  unsigned wait_seconds;
  // Looks up further functions in the library; false if one is missing.
  bool (*load_more)(void* library);
  // Launches with clusters and overlap where supported. Overlap that is not supported is ignored.
  Code (*launch)(void* function, const LaunchShape& shape, void* stream, void** params);
  // Called before a kernel is launched with this much dynamic shared memory; null if not needed.
  Code (*allow_shared)(void* function, unsigned n_bytes);
  unsigned max_shared_bytes;  // dynamic shared memory of a block, on the largest device
  unsigned pinned_flags;      // of memory that kernels and the host read while both run
  // Makes the device current for the calling thread.
  Code (*use)(int device);
  const char* (*describe)(Code code);
  // Fills in what the driver's shared functions do not tell.
  void (*look_at)(int device, GpuDeviceInfo* out);
  // What files say about a driver that shows no device; about a device that refuses the module's code; about memory
  // that a device does not have. Empty: nothing.
  std::string (*why_no_device)();
  std::string (*why_no_code)(const GpuDeviceInfo& device);
  std::string (*why_no_memory)(const GpuDeviceInfo& device);
  const KernelFile* files;  // null name at the end
};

}  // namespace rocmforge::gpu::modules
