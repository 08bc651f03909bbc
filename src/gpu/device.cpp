#include "gpu/device.h"

#include <fmt/core.h>

#include <cstdlib>
#include <string_view>

#include "base/log.h"
#include "base/units.h"
#include "gpu/kernels/target.h"

namespace rocmforge::gpu {

Result<std::unique_ptr<Device>> Device::open(const GpuApi& api, uint32_t index) {
  const auto failed = [&](GpuStatus status) {
    const ErrorCode code =
        status == GpuStatus::out_of_memory ? ErrorCode::out_of_memory : ErrorCode::device_unavailable;
    return Error{code, fmt::format("gpu: {} device {}: {}", api.module, index, api.last_error())};
  };
  GpuDevice* handle = nullptr;
  GpuDeviceInfo info{};
  if (const GpuStatus status = api.info(index, &info); status != GpuStatus::ok) return failed(status);
  if (const GpuStatus status = api.open(index, &handle); status != GpuStatus::ok) return failed(status);
  std::unique_ptr<Device> device(new Device(api, handle));
  device->name_ = info.name;
  device->target_ = info.target;
  device->memory_bytes_ = info.memory_bytes;
  TRY(device->ask_target());
  device->restrict_to(std::getenv("ROCMFORGE_GPU"));
  return device;
}

Device::~Device() {
  api_->close(handle_);
}

// The code that was chosen for this device says how wide its waves are.
Result<void> Device::ask_target() {
  GpuKernel* kernel = TRY(find("target", "describe_target"));
  const Memory on_device = TRY(Memory::allocate(*this, Memory::Kind::device, sizeof(Target)));
  const Memory on_host = TRY(Memory::allocate(*this, Memory::Kind::pinned, sizeof(Target)));
  const Stream stream = TRY(Stream::make(*this));
  TRY(stream.launch(kernel, {}, kTargetThreads, TargetArgs{reinterpret_cast<Target*>(on_device.data())}));
  TRY(stream.copy(on_host.data(), on_device.data(), sizeof(Target), CopyKind::to_host));
  TRY(stream.finish());
  const auto* target = reinterpret_cast<const Target*>(on_host.data());
  wave_ = target->wave;
  has_hopper_ = target->has_hopper != 0;
  has_mma_ = target->has_mma != 0;
  has_matrix_unit_ = target->has_matrix_unit != 0;
  tile_order_ = target->tile_order;
  if (wave_ != 32 && wave_ != 64) {
    return Error{ErrorCode::unsupported, fmt::format("gpu: {}: waves of {} lanes", name_, wave_)};
  }
  return {};
}

void Device::restrict_to(const char* wanted) {
  if (wanted == nullptr || *wanted == 0) return;
  if (std::string_view(wanted) != "portable") {
    return log(LogLevel::warn, "gpu: ROCMFORGE_GPU={} is unknown, it can be 'portable'; {} is used as it is", wanted,
               name_);
  }
  has_hopper_ = has_mma_ = false;
}

Result<void> Device::check(GpuStatus status, const char* doing) const {
  switch (status) {
    case GpuStatus::ok:
      return {};
    case GpuStatus::out_of_memory:
      return Error{ErrorCode::out_of_memory, fmt::format("gpu: {}: {}", doing, api_->last_error())};
    case GpuStatus::unavailable:
    case GpuStatus::not_found:
    case GpuStatus::failed:
      return Error{ErrorCode::device_failed, fmt::format("gpu: {}: {}", doing, api_->last_error())};
  }
  RF_UNREACHABLE("a GpuStatus outside its enum");
}

Result<uint64_t> Device::free_bytes() const {
  uint64_t free = 0, total = 0;
  TRY(check(api_->memory(handle_, &free, &total), "asking for free memory"));
  return free;
}

Result<GpuKernel*> Device::find(const char* file, const char* name) const {
  GpuKernel* kernel = nullptr;
  TRY(check(api_->find(handle_, file, name, &kernel), "looking for a kernel"));
  return kernel;
}

Result<Memory> Memory::allocate(const Device& device, Kind kind, size_t n_bytes) {
  Memory out;
  void* data = nullptr;
  const bool on_device = kind == Kind::device;
  const GpuStatus status = on_device ? device.api().allocate(device.handle(), n_bytes, &data)
                                     : device.api().allocate_host(device.handle(), n_bytes, &data);
  if (status == GpuStatus::out_of_memory) {
    const Result<uint64_t> free = device.free_bytes();
    return Error{ErrorCode::out_of_memory,
                 fmt::format("gpu: {} of {} memory needed, {} available", format_bytes(n_bytes),
                             on_device ? "device" : "pinned", free.ok() ? format_bytes(*free) : "an unknown amount")};
  }
  TRY(device.check(status, "allocating memory"));
  out.device_ = &device;
  out.kind_ = kind;
  out.data_ = static_cast<std::byte*>(data);
  out.n_bytes_ = n_bytes;
  if (kind == Kind::pinned) device.pinned_bytes_ += n_bytes;
  return out;
}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(kind_, other.kind_);
  std::swap(data_, other.data_);
  std::swap(n_bytes_, other.n_bytes_);
  return *this;
}

void Memory::reset() {
  if (data_ == nullptr) return;
  const auto free = kind_ == Kind::device ? device_->api().release : device_->api().release_host;
  static_cast<void>(free(device_->handle(), data_));
  if (kind_ == Kind::pinned) device_->pinned_bytes_ -= n_bytes_;
  data_ = nullptr;
  n_bytes_ = 0;
}

Result<Event> Event::make(const Device& device) {
  GpuEvent* handle = nullptr;  // a driver may write there and fail
  TRY(device.check(device.api().make_event(device.handle(), &handle), "making an event"));
  return Event(device, handle);
}

Event::~Event() {
  if (handle_ != nullptr) device_->api().drop_event(device_->handle(), handle_);
}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  return *this;
}

Result<void> Event::finish() const {
  if (handle_ == nullptr) return {};
  return device_->check(device_->api().finish_event(device_->handle(), handle_), "waiting for an event");
}

Graph::~Graph() {
  if (handle_ != nullptr) device_->api().drop_graph(device_->handle(), handle_);
}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  return *this;
}

Result<Stream> Stream::make(const Device& device) {
  GpuStream* handle = nullptr;  // a driver may write there and fail
  TRY(device.check(device.api().make_stream(device.handle(), &handle), "making a stream"));
  return Stream(device, handle);
}

Stream::~Stream() {
  if (handle_ != nullptr) device_->api().drop_stream(device_->handle(), handle_);
}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  return *this;
}

Result<void> Stream::finish() const {
  if (handle_ == nullptr) return {};
  return device_->check(device_->api().finish_stream(device_->handle(), handle_), "waiting for a stream");
}

Result<void> Stream::record(const Event& event) const {
  return device_->check(device_->api().record(device_->handle(), event.handle(), handle_), "recording an event");
}

Result<void> Stream::wait(const Event& event) const {
  return device_->check(device_->api().wait(device_->handle(), handle_, event.handle()), "waiting between streams");
}

Result<void> Stream::copy(void* to, const void* from, size_t n_bytes, CopyKind kind) const {
  return device_->check(device_->api().copy(device_->handle(), to, from, n_bytes, kind, handle_), "copying");
}

Result<void> Stream::fill(void* to, uint8_t byte, size_t n_bytes) const {
  return device_->check(device_->api().fill(device_->handle(), to, byte, n_bytes, handle_), "filling memory");
}

Result<void> Stream::launch_bytes(GpuKernel* kernel, LaunchShape shape, const void* args, size_t n_bytes) const {
  shape.overlaps = device_->has_hopper();
  return device_->check(device_->api().launch(device_->handle(), kernel, shape, args, n_bytes, handle_),
                        "launching a kernel");
}

Result<void> Stream::begin_capture() const {
  return device_->check(device_->api().begin_capture(device_->handle(), handle_), "beginning a capture");
}

Result<Graph> Stream::end_capture() const {
  GpuGraph* graph = nullptr;
  TRY(device_->check(device_->api().end_capture(device_->handle(), handle_, &graph), "ending a capture"));
  return Graph(*device_, graph);
}

Result<void> Stream::launch(const Graph& graph) const {
  return device_->check(device_->api().launch_graph(device_->handle(), graph.handle(), handle_), "launching a graph");
}

}  // namespace rocmforge::gpu
