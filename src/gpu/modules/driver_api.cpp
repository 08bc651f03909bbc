#include "gpu/modules/driver_api.h"

#include <dlfcn.h>
#include <sys/utsname.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace rocmforge::gpu {

struct GpuDevice {
  int index = 0;
  GpuDeviceInfo info{};
  unsigned wait_seconds = 0;  // 0: any
  std::mutex mutex;           // guards what follows
  std::map<std::string, void*> modules;
  std::map<const GpuKernel*, uint32_t> shared_allowed;  // bytes
};

namespace modules {
namespace {

thread_local std::string last_failure;

// The driver, opened once and kept: drivers do not like to be closed.
struct Library {
  Driver driver{};
  bool is_loaded = false;
  int version = 0;  // 0: not known
  Code (*stream_query)(void* stream) = nullptr;
  Code (*event_query)(void* event) = nullptr;
  std::string why_not;

  // The first that works: a machine may have several, and one that opens may still refuse the kernel's driver.
  Library() {
    const char* chosen = kVendor.library_variable != nullptr ? std::getenv(kVendor.library_variable) : nullptr;
    const bool is_chosen = chosen != nullptr && *chosen != 0;
    std::vector<void*> tried;
    for (const std::string& name : is_chosen ? std::vector<std::string>{chosen} : kVendor.libraries()) {
      void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle != nullptr && std::ranges::find(tried, handle) != tried.end()) continue;
      tried.push_back(handle);
      const std::string obstacle = handle == nullptr ? dlerror() : load(handle);
      is_loaded = obstacle.empty();
      if (is_loaded) return;
      why_not += (why_not.empty() ? "" : "; ") + (handle == nullptr ? obstacle : name + ": " + obstacle);
    }
    if (const std::string hint = kVendor.why_no_device(); !hint.empty()) why_not += "; " + hint;
  }

 private:
  // Empty, or the reason why the library is of no use.
  std::string load(void* handle) {
    void* functions[kNumFunctions];
    for (size_t i = 0; i < kNumFunctions; i++) {
      functions[i] = dlsym(handle, (*kVendor.names)[i]);
      if (functions[i] == nullptr) return std::string("the driver has no ") + (*kVendor.names)[i];
    }
    std::memcpy(&driver, functions, sizeof driver);
    if (!kVendor.load_more(handle)) return "the driver lacks functions that are needed";
    const Code code = driver.init(0);
    if (code == 0) take_optional(handle);
    if (code == 0) return "";
    const char* text = kVendor.describe(code);
    return text != nullptr ? text : "error " + std::to_string(code);
  }
  // What the module does without where the driver has it not.
  void take_optional(void* handle) {
    const auto take = [&](auto& function, const char* name) {
      void* found = dlsym(handle, name);
      std::memcpy(&function, &found, sizeof found);
    };
    take(stream_query, kVendor.stream_query_name);
    take(event_query, kVendor.event_query_name);
    Code (*get_version)(int*) = nullptr;
    take(get_version, kVendor.version_name);
    if (get_version == nullptr || get_version(&version) != 0) version = 0;
  }
};

const Library& library() {
  static const Library instance;
  return instance;
}

const Driver& driver() {
  return library().driver;
}

GpuStatus result(Code code) {
  if (code == 0) return GpuStatus::ok;
  const char* text = kVendor.describe(code);
  last_failure = std::string(text != nullptr ? text : "unknown error") + " (" + std::to_string(code) + ")";
  return code == kOutOfMemory ? GpuStatus::out_of_memory : GpuStatus::failed;
}

GpuStatus unavailable(std::string why) {
  last_failure = std::move(why);
  return GpuStatus::unavailable;
}

void add_to_failure(const std::string& hint) {
  if (!hint.empty()) last_failure += "; " + hint;
}

// Devices that did not end their work in time. A driver may wait for such a device in any call, so that none is made
// any more: what the device holds stays where it is until the process ends.
std::atomic<uint64_t>& hung_devices() {
  static std::atomic<uint64_t> by_index{0};
  return by_index;
}
uint64_t bit_of(int device) {
  return uint64_t{1} << (static_cast<unsigned>(device) % 64);
}
bool is_hung(int device) {
  if ((hung_devices() & bit_of(device)) == 0) return false;
  last_failure = "device " + std::to_string(device) + " did not end its work in time; restart the process";
  return true;
}

// Calls `function` with the device as the thread's own.
template <class... Args>
GpuStatus call(const GpuDevice* device, Code (*function)(Args...), std::type_identity_t<Args>... args) {
  if (is_hung(device->index)) return GpuStatus::failed;
  if (const Code code = kVendor.use(device->index); code != 0) return result(code);
  return result(function(args...));
}

template <class Handle>
void** out_of(Handle** handle) {
  return reinterpret_cast<void**>(handle);
}

const char* last_error() {
  return last_failure.c_str();
}

GpuStatus count(uint32_t* n_devices) {
  *n_devices = 0;
  if (!library().is_loaded) return unavailable(library().why_not);
  int n = 0;
  const Code code = driver().device_count(&n);
  if (code == 0 && n > 0) {
    *n_devices = static_cast<uint32_t>(n);
    return GpuStatus::ok;
  }
  if (code != 0) static_cast<void>(result(code));
  const std::string fact = code != 0 ? last_failure : "no device", hint = kVendor.why_no_device();
  return unavailable(hint.empty() ? fact : fact + "; " + hint);
}

GpuStatus info(uint32_t index, GpuDeviceInfo* out) {
  uint32_t n = 0;
  if (const GpuStatus status = count(&n); status != GpuStatus::ok) return status;
  if (index >= n) return unavailable("there are " + std::to_string(n) + " devices");
  const int device = static_cast<int>(index);
  if (is_hung(device)) return GpuStatus::unavailable;
  if (const Code code = kVendor.use(device); code != 0) return result(code);
  size_t n_bytes = 0;
  if (const Code code = driver().device_name(out->name, sizeof out->name, device); code != 0) return result(code);
  if (const Code code = driver().device_memory(&n_bytes, device); code != 0) return result(code);
  out->memory_bytes = n_bytes;
  kVendor.look_at(device, out);
  return GpuStatus::ok;
}

unsigned wait_seconds() {
  const char* set = std::getenv("ROCMFORGE_GPU_WAIT_SECONDS");
  unsigned out = kVendor.wait_seconds;
  if (set != nullptr) std::from_chars(set, set + std::strlen(set), out);
  return out;
}

GpuStatus open(uint32_t index, GpuDevice** out) {
  GpuDeviceInfo found{};
  if (const GpuStatus status = info(index, &found); status != GpuStatus::ok) return status;
  *out = new GpuDevice{};
  (*out)->index = static_cast<int>(index);
  (*out)->info = found;
  (*out)->wait_seconds = wait_seconds();
  return GpuStatus::ok;
}

void close(GpuDevice* device) {
  for (const auto& [name, module] : device->modules) static_cast<void>(call(device, driver().module_unload, module));
  delete device;
}

GpuStatus memory(GpuDevice* device, uint64_t* free_bytes, uint64_t* total_bytes) {
  size_t free = 0, total = 0;
  const GpuStatus status = call(device, driver().memory_info, &free, &total);
  *free_bytes = free;
  *total_bytes = total;
  return status;
}

GpuStatus allocate(GpuDevice* device, size_t n_bytes, void** out) {
  const GpuStatus status = call(device, driver().allocate, out, n_bytes);
  if (status != GpuStatus::ok) add_to_failure(kVendor.why_no_memory(device->info));
  return status;
}
GpuStatus release(GpuDevice* device, void* address) {
  return call(device, driver().release, address);
}
GpuStatus allocate_host(GpuDevice* device, size_t n_bytes, void** out) {
  return call(device, driver().allocate_host, out, n_bytes, kVendor.pinned_flags);
}
GpuStatus release_host(GpuDevice* device, void* address) {
  return call(device, driver().release_host, address);
}

GpuStatus make_stream(GpuDevice* device, GpuStream** out) {
  return call(device, driver().stream_create, out_of(out), kNonBlocking);
}
void drop_stream(GpuDevice* device, GpuStream* stream) {
  static_cast<void>(call(device, driver().stream_destroy, stream));
}

// Waits by `block`, or where there is a limit by asking: without a pause while it may be a token that is waited for.
GpuStatus wait_on_host(const GpuDevice* device, Code (*query)(void*), Code (*block)(void*), void* handle) {
  using std::chrono::steady_clock;
  constexpr std::chrono::microseconds kOften(20'000), kPause(50);
  if (device->wait_seconds == 0 || query == nullptr) return call(device, block, handle);
  const auto begin = steady_clock::now();
  const auto limit = begin + std::chrono::seconds(device->wait_seconds);
  if (is_hung(device->index)) return GpuStatus::failed;
  if (const Code code = kVendor.use(device->index); code != 0) return result(code);
  for (;;) {
    const Code code = query(handle);
    if (code != kNotReady) return result(code);
    const auto now = steady_clock::now();
    if (now >= limit) break;
    if (now - begin < kOften) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
  hung_devices() |= bit_of(device->index);
  last_failure = "device " + std::to_string(device->index) + ", " + device->info.name +
                 ", did not end its work within " + std::to_string(device->wait_seconds) +
                 " s (ROCMFORGE_GPU_WAIT_SECONDS)";
  return GpuStatus::failed;
}

GpuStatus finish_stream(GpuDevice* device, GpuStream* stream) {
  return wait_on_host(device, library().stream_query, driver().stream_synchronize, stream);
}

GpuStatus make_event(GpuDevice* device, GpuEvent** out) {
  return call(device, driver().event_create, out_of(out), kNoTiming);
}
void drop_event(GpuDevice* device, GpuEvent* event) {
  static_cast<void>(call(device, driver().event_destroy, event));
}
GpuStatus record(GpuDevice* device, GpuEvent* event, GpuStream* stream) {
  return call(device, driver().event_record, event, stream);
}
GpuStatus wait(GpuDevice* device, GpuStream* stream, GpuEvent* event) {
  return call(device, driver().stream_wait_event, stream, event, 0);
}
GpuStatus finish_event(GpuDevice* device, GpuEvent* event) {
  return wait_on_host(device, library().event_query, driver().event_synchronize, event);
}

GpuStatus copy(GpuDevice* device, void* to, const void* from, size_t n_bytes, CopyKind kind, GpuStream* stream) {
  switch (kind) {
    case CopyKind::to_device:
      return call(device, driver().copy_to_device, to, from, n_bytes, stream);
    case CopyKind::to_host:
      return call(device, driver().copy_to_host, to, from, n_bytes, stream);
    case CopyKind::on_device:
      return call(device, driver().copy_on_device, to, from, n_bytes, stream);
  }
  return unavailable("a copy of no kind");
}
GpuStatus fill(GpuDevice* device, void* to, uint8_t byte, size_t n_bytes, GpuStream* stream) {
  return call(device, driver().fill, to, byte, n_bytes, stream);
}

GpuStatus find(GpuDevice* device, const char* file, const char* name, GpuKernel** out) {
  const std::lock_guard lock(device->mutex);
  void*& module = device->modules[file];
  if (module == nullptr) {
    const KernelFile* at = kVendor.files;
    while (at->name != nullptr && std::strcmp(at->name, file) != 0) at++;
    if (at->name == nullptr) {
      last_failure = std::string("no kernels from ") + file;
      return GpuStatus::not_found;
    }
    if (const GpuStatus status = call(device, driver().module_load, &module, at->image); status != GpuStatus::ok) {
      module = nullptr;
      last_failure = std::string("kernels of ") + file + " do not run on this device: " + last_failure;
      add_to_failure(kVendor.why_no_code(device->info));
      return status;
    }
  }
  const GpuStatus status = call(device, driver().module_function, out_of(out), module, name);
  if (status != GpuStatus::ok) last_failure = std::string("kernel ") + file + "/" + name + ": " + last_failure;
  return status;
}

GpuStatus allow_shared(GpuDevice* device, GpuKernel* kernel, uint32_t n_bytes) {
  if (n_bytes > kVendor.max_shared_bytes) {
    last_failure = std::to_string(n_bytes) + " bytes of dynamic shared memory for a block, at most " +
                   std::to_string(kVendor.max_shared_bytes) + " here";
    return GpuStatus::failed;
  }
  if (n_bytes == 0 || kVendor.allow_shared == nullptr) return GpuStatus::ok;
  const std::lock_guard lock(device->mutex);
  uint32_t& allowed = device->shared_allowed[kernel];
  if (n_bytes <= allowed) return GpuStatus::ok;
  const GpuStatus status = call(device, kVendor.allow_shared, kernel, n_bytes);
  if (status == GpuStatus::ok) allowed = n_bytes;
  return status;
}

GpuStatus launch(GpuDevice* device, GpuKernel* kernel, LaunchShape shape, const void* args, size_t, GpuStream* stream) {
  if (const GpuStatus status = allow_shared(device, kernel, shape.shared_bytes); status != GpuStatus::ok) return status;
  void* params[] = {const_cast<void*>(args)};
  return call(device, kVendor.launch, kernel, shape, stream, params);
}

GpuStatus begin_capture(GpuDevice* device, GpuStream* stream) {
  return call(device, driver().capture_begin, stream, kRelaxedCapture);
}
GpuStatus end_capture(GpuDevice* device, GpuStream* stream, GpuGraph** out) {
  void* graph = nullptr;
  if (const GpuStatus status = call(device, driver().capture_end, stream, &graph); status != GpuStatus::ok)
    return status;
  const GpuStatus status = call(device, driver().graph_instantiate, out_of(out), graph, 0);
  static_cast<void>(driver().graph_destroy(graph));
  return status;
}
GpuStatus launch_graph(GpuDevice* device, GpuGraph* graph, GpuStream* stream) {
  return call(device, driver().graph_launch, graph, stream);
}
void drop_graph(GpuDevice* device, GpuGraph* graph) {
  static_cast<void>(call(device, driver().graph_exec_destroy, graph));
}

}  // namespace

const GpuApi* driver_api() {
  static const GpuApi api = {
      kApiVersion,  kVendor.module, kVendor.targets, last_error,    count,      info,
      open,         close,          memory,          allocate,      release,    allocate_host,
      release_host, make_stream,    drop_stream,     finish_stream, make_event, drop_event,
      record,       wait,           finish_event,    copy,          fill,       find,
      launch,       begin_capture,  end_capture,     launch_graph,  drop_graph,
  };
  return &api;
}

}  // namespace modules
}  // namespace rocmforge::gpu

// The kernel's driver comes with the kernel, or is a module that is built for it.
extern "C" __attribute__((visibility("default"))) const char* rocmforge_gpu_driver_version() {
  static const std::string version = [] {
    const auto& library = rocmforge::gpu::modules::library();
    utsname system{};
    if (!library.is_loaded || uname(&system) != 0) return std::string();
    return std::to_string(library.version) + ", " + system.sysname + " " + system.release;
  }();
  return version.c_str();
}

extern "C" __attribute__((visibility("default"))) const rocmforge::gpu::GpuApi* rocmforge_gpu_api(uint32_t version) {
  return version == rocmforge::gpu::kApiVersion ? rocmforge::gpu::modules::driver_api() : nullptr;
}
