// A libamdhip64.so.7 without a GPU: HIP's functions over the emulation, for tests that run the shipped HIP module.
// Code objects are only recognised, not executed; a kernel's name selects its emulated counterpart.
// With ROCMFORGE_MACHINE_CODE (machine_code.h) devices are AMD's, and kernels run by their own machine code.

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "gpu/emu/device.h"
#include "gpu/emu/registry.h"
#include "gpu/modules/machine_code.h"

namespace {

using namespace rocmforge::gpu;

// The emulation's first device has NVIDIA's fragments, and kernels that the HIP module has not.
constexpr int kFirst = 1, kNumDevices = emu::kNumDevices - kFirst;

// HIP's: what a launch that failed leaves behind, for all calls that follow.
constexpr int kLaunchFailure = 719;
constexpr int kNotReady = 600;

thread_local int current_device = 0;

int n_devices() {
  return machine_code::is_asked_for() ? machine_code::n_devices() : kNumDevices;
}

// Of machine code only memory and streams are emulated, by any device.
uint32_t emulated(int index) {
  return static_cast<uint32_t>(kFirst + (machine_code::is_asked_for() ? 0 : index));
}

GpuDevice* device() {
  static std::mutex mutex;
  static std::map<int, GpuDevice*> devices;
  const std::lock_guard lock(mutex);
  GpuDevice*& known = devices[current_device];
  if (known == nullptr && emu::api().open(emulated(current_device), &known) != GpuStatus::ok) return nullptr;
  return known;
}

int code(GpuStatus status) {
  if (machine_code::is_asked_for() && !machine_code::failure().empty()) return kLaunchFailure;
  switch (status) {
    case GpuStatus::ok:
      return 0;
    case GpuStatus::out_of_memory:
      return 2;
    case GpuStatus::unavailable:
      return 100;
    case GpuStatus::not_found:
      return 500;
    case GpuStatus::failed:
      return 999;
  }
  return 999;
}

template <class Handle>
Handle* as(void* handle) {
  return static_cast<Handle*>(handle);
}
template <class Handle>
Handle** out_as(void** handle) {
  return reinterpret_cast<Handle**>(handle);
}

}  // namespace

#define RF_HIP extern "C" __attribute__((visibility("default")))

RF_HIP int hipInit(unsigned) {
  return 0;
}
RF_HIP int hipRuntimeGetVersion(int* version) {
  *version = 70012345;
  return 0;
}
RF_HIP int hipGetDeviceCount(int* n) {
  *n = n_devices();
  return 0;
}
RF_HIP int hipSetDevice(int index) {
  if (index < 0 || index >= n_devices()) return 101;
  current_device = index;
  return 0;
}
RF_HIP int hipDeviceGetName(char* name, int n_bytes, int index) {
  GpuDeviceInfo info{};
  const GpuStatus status = emu::api().info(emulated(index), &info);
  const std::string shown = machine_code::is_asked_for() ? machine_code::device_name(index) : info.name;
  std::strncpy(name, shown.c_str(), static_cast<size_t>(n_bytes) - 1);
  name[n_bytes - 1] = 0;
  return code(status);
}
RF_HIP int hipDeviceTotalMem(size_t* n_bytes, int index) {
  GpuDeviceInfo info{};
  const GpuStatus status = emu::api().info(emulated(index), &info);
  *n_bytes = info.memory_bytes;
  return code(status);
}
// Of all attributes only whether the device is integrated: the first one is, so that ranking shows.
RF_HIP int hipDeviceGetAttribute(int* out, int attribute, int index) {
  if (attribute != 16) return 1;
  *out = index == 0 ? 1 : 0;
  return 0;
}
RF_HIP int hipMemGetInfo(size_t* free, size_t* total) {
  uint64_t free_bytes = 0, total_bytes = 0;
  const GpuStatus status = emu::api().memory(device(), &free_bytes, &total_bytes);
  *free = free_bytes;
  *total = total_bytes;
  return code(status);
}
RF_HIP const char* hipGetErrorString(int error) {
  if (error == 0) return "hipSuccess";
  if (machine_code::is_asked_for() && !machine_code::failure().empty()) return machine_code::failure().c_str();
  return emu::api().last_error();
}

RF_HIP int hipMalloc(void** out, size_t n_bytes) {
  return code(emu::api().allocate(device(), n_bytes, out));
}
RF_HIP int hipFree(void* memory) {
  return code(emu::api().release(device(), memory));
}
// Only memory that is coherent by name: what an environment variable or a later default makes of 0 is not known.
RF_HIP int hipHostMalloc(void** out, size_t n_bytes, unsigned flags) {
  if (flags != 0x40000000) return 1;
  return code(emu::api().allocate_host(device(), n_bytes, out));
}
RF_HIP int hipHostFree(void* memory) {
  return code(emu::api().release_host(device(), memory));
}

RF_HIP int hipStreamCreateWithFlags(void** out, unsigned) {
  return code(emu::api().make_stream(device(), out_as<GpuStream>(out)));
}
RF_HIP int hipStreamDestroy(void* stream) {
  emu::api().drop_stream(device(), as<GpuStream>(stream));
  return 0;
}
RF_HIP int hipStreamSynchronize(void* stream) {
  return code(emu::api().finish_stream(device(), as<GpuStream>(stream)));
}
// A device that never ends its work, where the environment asks for one.
RF_HIP int hipStreamQuery(void* stream) {
  return std::getenv("ROCMFORGE_STAND_IN_HANGS") != nullptr ? kNotReady : hipStreamSynchronize(stream);
}
RF_HIP int hipStreamWaitEvent(void* stream, void* event, unsigned) {
  return code(emu::api().wait(device(), as<GpuStream>(stream), as<GpuEvent>(event)));
}
RF_HIP int hipEventCreateWithFlags(void** out, unsigned) {
  return code(emu::api().make_event(device(), out_as<GpuEvent>(out)));
}
RF_HIP int hipEventDestroy(void* event) {
  emu::api().drop_event(device(), as<GpuEvent>(event));
  return 0;
}
RF_HIP int hipEventRecord(void* event, void* stream) {
  return code(emu::api().record(device(), as<GpuEvent>(event), as<GpuStream>(stream)));
}
RF_HIP int hipEventSynchronize(void* event) {
  return code(emu::api().finish_event(device(), as<GpuEvent>(event)));
}
RF_HIP int hipEventQuery(void* event) {
  return std::getenv("ROCMFORGE_STAND_IN_HANGS") != nullptr ? kNotReady : hipEventSynchronize(event);
}

RF_HIP int hipMemcpyHtoDAsync(void* to, const void* from, size_t n_bytes, void* stream) {
  return code(emu::api().copy(device(), to, from, n_bytes, CopyKind::to_device, as<GpuStream>(stream)));
}
RF_HIP int hipMemcpyDtoHAsync(void* to, const void* from, size_t n_bytes, void* stream) {
  return code(emu::api().copy(device(), to, from, n_bytes, CopyKind::to_host, as<GpuStream>(stream)));
}
RF_HIP int hipMemcpyDtoDAsync(void* to, const void* from, size_t n_bytes, void* stream) {
  return code(emu::api().copy(device(), to, from, n_bytes, CopyKind::on_device, as<GpuStream>(stream)));
}
RF_HIP int hipMemsetD8Async(void* to, unsigned char byte, size_t n_bytes, void* stream) {
  return code(emu::api().fill(device(), to, byte, n_bytes, as<GpuStream>(stream)));
}

// A bundle of code objects says so in its first bytes.
RF_HIP int hipModuleLoadData(void** out, const void* image) {
  constexpr char kMagic[] = "__CLANG_OFFLOAD_BUNDLE__";
  if (std::memcmp(image, kMagic, sizeof kMagic - 1) != 0) return 200;
  if (machine_code::is_asked_for()) return machine_code::load(current_device, image, out) ? 0 : 209;
  *out = new std::string("module");
  return 0;
}
RF_HIP int hipModuleUnload(void* module) {
  if (machine_code::is_asked_for())
    machine_code::unload(module);
  else
    delete as<std::string>(module);
  return 0;
}
RF_HIP int hipModuleGetFunction(void** out, void* module, const char* name) {
  if (machine_code::is_asked_for()) return machine_code::find(module, name, out) ? 0 : 500;
  return code(emu::api().find(device(), "", name, out_as<GpuKernel>(out)));
}
RF_HIP int hipModuleLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned n_threads, unsigned,
                                 unsigned, unsigned shared_bytes, void* stream, void** params, void**) {
  if (machine_code::is_asked_for()) {
    return code(machine_code::launch(device(), as<GpuStream>(stream), function, {{x, y, z}, n_threads, shared_bytes},
                                     params[0]));
  }
  const auto* entry = static_cast<const emu::KernelEntry*>(function);
  return code(emu::api().launch(device(), as<GpuKernel>(function), {{x, y, z}, n_threads, shared_bytes}, params[0],
                                entry->args_bytes, as<GpuStream>(stream)));
}

RF_HIP int hipStreamBeginCapture(void* stream, int) {
  return code(emu::api().begin_capture(device(), as<GpuStream>(stream)));
}
RF_HIP int hipStreamEndCapture(void* stream, void** graph) {
  return code(emu::api().end_capture(device(), as<GpuStream>(stream), out_as<GpuGraph>(graph)));
}
// The emulation's graphs can be run as they are.
RF_HIP int hipGraphInstantiateWithFlags(void** out, void* graph, unsigned long long) {
  *out = graph;
  return 0;
}
RF_HIP int hipGraphDestroy(void*) {
  return 0;
}
RF_HIP int hipGraphExecDestroy(void* graph) {
  emu::api().drop_graph(device(), as<GpuGraph>(graph));
  return 0;
}
RF_HIP int hipGraphLaunch(void* graph, void* stream) {
  return code(emu::api().launch_graph(device(), as<GpuGraph>(graph), as<GpuStream>(stream)));
}
