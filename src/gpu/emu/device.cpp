#include "gpu/emu/device.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "base/check.h"
#include "gpu/emu/guarded.h"

namespace rocmforge::gpu {

// One entry of a stream.
struct EmuWork {
  std::function<void()> run;      // empty: a wait
  GpuStream* wait_for = nullptr;  // until that stream has done
  uint64_t until = 0;             // so many entries
};

struct GpuStream {
  uint64_t number = 0;  // never given to another: addresses are
  std::deque<EmuWork> queue;
  uint64_t n_put = 0;
  uint64_t n_done = 0;
  bool capturing = false;
  std::vector<std::function<void()>> captured;
};

struct GpuEvent {
  uint64_t stream = 0;  // its number; 0: never recorded
  uint64_t at = 0;
};

struct GpuGraph {
  std::vector<std::function<void()>> work;
};

struct GpuDevice {
  emu::Variant variant;
  std::mutex mutex;  // guards everything; held while work is done
  std::map<void*, std::pair<emu::Guarded, size_t>> memory;
  uint64_t used_bytes = 0;
  std::list<GpuStream> streams;
  uint64_t n_streams = 0;  // made so far
};

namespace emu {
namespace {

thread_local std::string last_failure;

GpuStatus failure(GpuStatus status, std::string text) {
  last_failure = std::move(text);
  return status;
}

bool is_lost() {
  const uint64_t from = controls().lost_from;
  if (from == 0 || controls().n_calls < from) return false;
  last_failure = "the device is lost";
  return true;
}

// Counts a call that may fail, and says whether it is one that was told to.
bool told_to_fail() {
  const uint64_t number = ++controls().n_calls;
  if (is_lost()) return true;
  if (number != controls().fail_at) return false;
  last_failure = "told to fail";
  return true;
}

// What a call that fails leaves in its output is nobody's to use.
template <class Handle>
bool told_to_fail(Handle** out) {
  if (!told_to_fail()) return false;
  *out = reinterpret_cast<Handle*>(uintptr_t{0xDEAD} << 48);
  return true;
}

void do_until(GpuStream& stream, uint64_t until) {
  while (stream.n_done < until) {
    const EmuWork work = std::move(stream.queue.front());
    stream.queue.pop_front();
    if (work.wait_for != nullptr) do_until(*work.wait_for, work.until);
    if (work.run) work.run();
    stream.n_done++;
  }
}

// Before memory or a stream goes: what was put on streams is done, or never will be.
void settle(GpuDevice& device) {
  const bool lost = is_lost();
  for (GpuStream& stream : device.streams) {
    if (lost) {
      stream.queue.clear();
      stream.n_done = stream.n_put;
    }
  }
  for (GpuStream& stream : device.streams) do_until(stream, stream.n_put);
}

GpuStatus put(GpuDevice* device, GpuStream* stream, EmuWork work) {
  if (told_to_fail()) return GpuStatus::failed;
  const std::lock_guard lock(device->mutex);
  if (stream->capturing) {
    if (work.wait_for != nullptr) return failure(GpuStatus::failed, "a wait inside a capture");
    stream->captured.push_back(std::move(work.run));
    return GpuStatus::ok;
  }
  stream->queue.push_back(std::move(work));
  stream->n_put++;
  if (controls().immediate) do_until(*stream, stream->n_put);
  return GpuStatus::ok;
}

const char* last_error() {
  return last_failure.c_str();
}

GpuStatus count(uint32_t* n_devices) {
  *n_devices = kNumDevices;
  return GpuStatus::ok;
}

GpuStatus info(uint32_t index, GpuDeviceInfo* out) {
  if (is_lost()) return GpuStatus::failed;
  if (index >= kNumDevices) return failure(GpuStatus::unavailable, "no such device");
  static constexpr const char* kNames[] = {"", "mma", "gfx11", "gfx12", "mfma", "none"};
  std::snprintf(out->name, sizeof out->name, "emulation, wave %u, %s", kDevices[index].wave,
                kNames[static_cast<int>(kDevices[index].fragment)]);
  out->memory_bytes = controls().memory_bytes;
  out->is_integrated = 0;
  out->n_units = 0;
  out->target[0] = 0;
  return GpuStatus::ok;
}

GpuStatus open(uint32_t index, GpuDevice** out) {
  if (told_to_fail(out)) return GpuStatus::failed;
  if (index >= kNumDevices) return failure(GpuStatus::unavailable, "no such device");
  *out = new GpuDevice{};
  (*out)->variant = kDevices[index];
  return GpuStatus::ok;
}

void close(GpuDevice* device) {
  CHECK(device->memory.empty() && device->streams.empty());
  delete device;
}

GpuStatus memory(GpuDevice* device, uint64_t* free_bytes, uint64_t* total_bytes) {
  if (is_lost()) return GpuStatus::failed;
  const std::lock_guard lock(device->mutex);
  *total_bytes = controls().memory_bytes;
  *free_bytes = *total_bytes - std::min(*total_bytes, device->used_bytes);
  return GpuStatus::ok;
}

GpuStatus allocate_as(GpuDevice* device, size_t n_bytes, void** out, bool on_device) {
  if (told_to_fail(out)) return is_lost() ? GpuStatus::failed : GpuStatus::out_of_memory;
  const std::lock_guard lock(device->mutex);
  if (on_device && device->used_bytes + n_bytes > controls().memory_bytes) {
    return failure(GpuStatus::out_of_memory, "out of memory");
  }
  Guarded memory_of(n_bytes);
  std::fill(memory_of.begin(), memory_of.end(), std::byte{0xFF});  // NaN as f32, f16 and bf16
  const int64_t held = memory_of.end() - memory_of.begin();
  *out = memory_of.begin();
  device->memory.emplace(*out, std::pair(std::move(memory_of), on_device ? n_bytes : 0));
  if (on_device) device->used_bytes += n_bytes;
  controls().n_allocations++;
  controls().held_bytes += held;
  return GpuStatus::ok;
}

GpuStatus allocate(GpuDevice* device, size_t n_bytes, void** out) {
  return allocate_as(device, n_bytes, out, true);
}

GpuStatus allocate_host(GpuDevice* device, size_t n_bytes, void** out) {
  return allocate_as(device, (n_bytes + 4095) / 4096 * 4096, out, false);
}

GpuStatus release(GpuDevice* device, void* address) {
  const std::lock_guard lock(device->mutex);
  settle(*device);
  const auto at = device->memory.find(address);
  CHECK(at != device->memory.end());
  device->used_bytes -= at->second.second;
  controls().held_bytes -= at->second.first.end() - at->second.first.begin();
  device->memory.erase(at);
  return is_lost() ? GpuStatus::failed : GpuStatus::ok;
}

GpuStatus make_stream(GpuDevice* device, GpuStream** out) {
  if (told_to_fail(out)) return GpuStatus::failed;
  const std::lock_guard lock(device->mutex);
  *out = &device->streams.emplace_back();
  (*out)->number = ++device->n_streams;
  return GpuStatus::ok;
}

void drop_stream(GpuDevice* device, GpuStream* stream) {
  const std::lock_guard lock(device->mutex);
  // Others may wait for what this one was to do.
  settle(*device);
  device->streams.remove_if([&](const GpuStream& s) { return &s == stream; });
}

GpuStatus finish_stream(GpuDevice* device, GpuStream* stream) {
  if (told_to_fail()) return GpuStatus::failed;
  const std::lock_guard lock(device->mutex);
  do_until(*stream, stream->n_put);
  return GpuStatus::ok;
}

GpuStatus make_event(GpuDevice*, GpuEvent** out) {
  if (told_to_fail(out)) return GpuStatus::failed;
  *out = new GpuEvent{};
  return GpuStatus::ok;
}

void drop_event(GpuDevice*, GpuEvent* event) {
  delete event;
}

GpuStatus record(GpuDevice* device, GpuEvent* event, GpuStream* stream) {
  if (told_to_fail()) return GpuStatus::failed;
  const std::lock_guard lock(device->mutex);
  *event = {stream->number, stream->n_put};
  return GpuStatus::ok;
}

// The stream an event marks a point of. None when it was never recorded, or when the stream was dropped: what it had
// to do was done then.
GpuStream* stream_of(GpuDevice& device, const GpuEvent& event) {
  for (GpuStream& stream : device.streams) {
    if (stream.number == event.stream) return &stream;
  }
  return nullptr;
}

GpuStatus wait(GpuDevice* device, GpuStream* stream, GpuEvent* event) {
  GpuStream* awaited = nullptr;
  uint64_t at = 0;
  {
    const std::lock_guard lock(device->mutex);
    awaited = stream_of(*device, *event);
    at = event->at;
  }
  if (awaited == nullptr || awaited == stream) return is_lost() ? GpuStatus::failed : GpuStatus::ok;
  return put(device, stream, {nullptr, awaited, at});
}

GpuStatus finish_event(GpuDevice* device, GpuEvent* event) {
  if (told_to_fail()) return GpuStatus::failed;
  const std::lock_guard lock(device->mutex);
  if (GpuStream* stream = stream_of(*device, *event); stream != nullptr) do_until(*stream, event->at);
  return GpuStatus::ok;
}

GpuStatus copy(GpuDevice* device, void* to, const void* from, size_t n_bytes, CopyKind, GpuStream* stream) {
  return put(device, stream, {[=] { std::memcpy(to, from, n_bytes); }});
}

GpuStatus fill(GpuDevice* device, void* to, uint8_t byte, size_t n_bytes, GpuStream* stream) {
  return put(device, stream, {[=] { std::memset(to, byte, n_bytes); }});
}

GpuStatus find(GpuDevice* device, const char* file, const char* name, GpuKernel** out) {
  if (told_to_fail(out)) return GpuStatus::failed;
  const KernelEntry* entry = find_kernel(file, name, device->variant);
  if (entry == nullptr) return failure(GpuStatus::not_found, std::string("no kernel ") + file + "/" + name);
  *out = reinterpret_cast<GpuKernel*>(const_cast<KernelEntry*>(entry));
  return GpuStatus::ok;
}

GpuStatus launch(GpuDevice* device, GpuKernel* kernel, LaunchShape shape, const void* args, size_t args_bytes,
                 GpuStream* stream) {
  const auto* entry = reinterpret_cast<const KernelEntry*>(kernel);
  const Grid& grid = shape.grid;
  if (shape.n_threads != entry->n_threads || args_bytes != entry->args_bytes) {
    return failure(GpuStatus::failed, "launched with other threads or arguments than it was written for");
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535) {
    return failure(GpuStatus::failed, "a grid outside what devices take");
  }
  if (shape.shared_bytes > kSharedBytes) return failure(GpuStatus::failed, "more shared memory than a block has");
  controls().n_launches++;
  // Arguments are taken now, as a device does.
  std::vector<uint64_t> taken((args_bytes + 7) / 8);
  std::memcpy(taken.data(), args, args_bytes);
  const uint32_t wave = device->variant.wave;
  return put(device, stream, {[=] { run({entry->body, taken.data(), shape, wave, controls().order}); }});
}

GpuStatus begin_capture(GpuDevice* device, GpuStream* stream) {
  if (told_to_fail()) return GpuStatus::failed;
  if (controls().refuse_capture) return failure(GpuStatus::failed, "no captures");
  const std::lock_guard lock(device->mutex);
  stream->capturing = true;
  stream->captured.clear();
  return GpuStatus::ok;
}

GpuStatus end_capture(GpuDevice* device, GpuStream* stream, GpuGraph** out) {
  const bool fails = told_to_fail(out);
  const std::lock_guard lock(device->mutex);
  stream->capturing = false;
  if (fails) return GpuStatus::failed;
  *out = new GpuGraph{std::move(stream->captured)};
  return GpuStatus::ok;
}

GpuStatus launch_graph(GpuDevice* device, GpuGraph* graph, GpuStream* stream) {
  controls().n_graph_launches++;
  return put(device, stream, {[work = graph->work] {
               for (const auto& step : work) step();
             }});
}

void drop_graph(GpuDevice*, GpuGraph* graph) {
  delete graph;
}

}  // namespace

GpuStatus put_work(GpuDevice* device, GpuStream* stream, std::function<void()> work) {
  controls().n_launches++;
  return put(device, stream, {std::move(work)});
}

std::vector<Allocation> allocations(const GpuDevice& device) {
  std::vector<Allocation> out;
  for (const auto& [address, memory_of] : device.memory) {
    const Guarded& guarded = memory_of.first;
    out.push_back({guarded.begin(), static_cast<size_t>(guarded.end() - guarded.begin())});
  }
  return out;
}

Controls& controls() {
  static Controls all;
  return all;
}

const GpuApi& api() {
  static constexpr GpuApi kApi = {
      kApiVersion, "emu",         "",          last_error,    count,        info,        open,        close,
      memory,      allocate,      release,     allocate_host, release,      make_stream, drop_stream, finish_stream,
      make_event,  drop_event,    record,      wait,          finish_event, copy,        fill,        find,
      launch,      begin_capture, end_capture, launch_graph,  drop_graph,
  };
  return kApi;
}

}  // namespace emu
}  // namespace rocmforge::gpu
