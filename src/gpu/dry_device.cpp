#include "gpu/dry_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

namespace rocmforge::gpu {
namespace {

constexpr uint64_t kDeviceBytes = uint64_t{1} << 40;
constexpr size_t kPageBytes = 4096;

struct DryKernel {
  std::string file, name;
};
struct DryDevice {
  DryOptions options;
  uint64_t next_address = uint64_t{1} << 44;
  uint64_t target_at = 0;  // where describe_target wrote
  std::map<std::string, DryKernel> kernels = {};
};

// gpu/api.h leaves its handles to each module. They are casts here: another module's definitions may be linked, too.
DryDevice& device_of(GpuDevice* handle) {
  return *reinterpret_cast<DryDevice*>(handle);
}

thread_local DryOptions next_options;

GpuStatus ok() {
  return GpuStatus::ok;
}

GpuStatus info(uint32_t, GpuDeviceInfo* out) {
  *out = {};
  next_options.name.copy(out->name, sizeof out->name - 1);
  out->memory_bytes = kDeviceBytes;
  return ok();
}

GpuStatus open(uint32_t, GpuDevice** out) {
  *out = reinterpret_cast<GpuDevice*>(new DryDevice{next_options});
  return ok();
}

GpuStatus memory(GpuDevice*, uint64_t* n_free, uint64_t* n_all) {
  *n_free = *n_all = kDeviceBytes;
  return ok();
}

GpuStatus allocate(GpuDevice* device, size_t n_bytes, void** out) {
  uint64_t& next = device_of(device).next_address;
  *out = reinterpret_cast<void*>(next);  // NOLINT(performance-no-int-to-ptr)
  next += (n_bytes + kPageBytes - 1) / kPageBytes * kPageBytes + kPageBytes;
  return ok();
}

GpuStatus allocate_host(GpuDevice*, size_t n_bytes, void** out) {
  *out = std::aligned_alloc(kPageBytes, std::max<size_t>(1, (n_bytes + kPageBytes - 1) / kPageBytes) * kPageBytes);
  return *out != nullptr ? GpuStatus::ok : GpuStatus::out_of_memory;
}

GpuStatus release_host(GpuDevice*, void* at) {
  std::free(at);
  return ok();
}

// Only the device's own description is ever there to be read.
GpuStatus copy(GpuDevice* device, void* to, const void* from, size_t n_bytes, CopyKind kind, GpuStream*) {
  if (kind != CopyKind::to_host) return ok();
  const DryDevice& self = device_of(device);
  std::memset(to, 0, n_bytes);
  if (reinterpret_cast<uint64_t>(from) == self.target_at) std::memcpy(to, &self.options.target, sizeof(Target));
  return ok();
}

GpuStatus find(GpuDevice* device, const char* file, const char* name, GpuKernel** out) {
  DryKernel& kernel = device_of(device).kernels.try_emplace(name, DryKernel{file, name}).first->second;
  *out = reinterpret_cast<GpuKernel*>(&kernel);
  return ok();
}

GpuStatus launch(GpuDevice* device, GpuKernel* handle, LaunchShape shape, const void* args, size_t n_bytes,
                 GpuStream*) {
  DryDevice& self = device_of(device);
  const DryKernel& kernel = *reinterpret_cast<const DryKernel*>(handle);
  if (kernel.name == "describe_target") {
    TargetArgs to{};
    std::memcpy(&to, args, sizeof to);
    self.target_at = reinterpret_cast<uint64_t>(to.out);
    return ok();
  }
  self.options.launched({kernel.file, kernel.name, shape, {static_cast<const std::byte*>(args), n_bytes}});
  return ok();
}

// Streams, events and graphs have no state: the device's handle stands for each.
template <class Handle>
GpuStatus make(GpuDevice* device, Handle** out) {
  *out = reinterpret_cast<Handle*>(device);
  return ok();
}
template <class Handle>
void drop(GpuDevice*, Handle*) {}

constexpr GpuApi kApi = {
    .version = kApiVersion,
    .module = "dry",
    .targets = "",
    .last_error = [] { return "out of memory"; },
    .count = [](uint32_t* n) { return *n = 1, ok(); },
    .info = info,
    .open = open,
    .close = [](GpuDevice* device) { delete &device_of(device); },
    .memory = memory,
    .allocate = allocate,
    .release = [](GpuDevice*, void*) { return ok(); },
    .allocate_host = allocate_host,
    .release_host = release_host,
    .make_stream = make<GpuStream>,
    .drop_stream = drop<GpuStream>,
    .finish_stream = [](GpuDevice*, GpuStream*) { return ok(); },
    .make_event = make<GpuEvent>,
    .drop_event = drop<GpuEvent>,
    .record = [](GpuDevice*, GpuEvent*, GpuStream*) { return ok(); },
    .wait = [](GpuDevice*, GpuStream*, GpuEvent*) { return ok(); },
    .finish_event = [](GpuDevice*, GpuEvent*) { return ok(); },
    .copy = copy,
    .fill = [](GpuDevice*, void*, uint8_t, size_t, GpuStream*) { return ok(); },
    .find = find,
    .launch = launch,
    .begin_capture = [](GpuDevice*, GpuStream*) { return ok(); },
    .end_capture = [](GpuDevice* device, GpuStream*, GpuGraph** out) { return make(device, out); },
    .launch_graph = [](GpuDevice*, GpuGraph*, GpuStream*) { return ok(); },
    .drop_graph = drop<GpuGraph>,
};

}  // namespace

const GpuApi& dry_api(DryOptions options) {
  next_options = std::move(options);
  return kApi;
}

}  // namespace rocmforge::gpu
