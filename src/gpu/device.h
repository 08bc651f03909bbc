#pragma once
// A GPU as the rest of this room uses it: the module's functions (gpu/api.h) with owning types and error values.
//
// Threads: as gpu/api.h says. The device outlives everything made from it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"
#include "gpu/api.h"
#include "gpu/fragment/packed_tile.h"

namespace rocmforge::gpu {

class Device {
 public:
  // As the environment variable ROCMFORGE_GPU asks: `portable` leaves only what every card has, so that kernels for one
  // kind of card are not chosen.
  static Result<std::unique_ptr<Device>> open(const GpuApi& api, uint32_t index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }
  const std::string& target() const { return target_; }      // "gfx1100"; empty: not known, or no AMD GPU
  uint32_t wave() const { return wave_; }                    // lanes
  bool has_hopper() const { return has_hopper_; }            // kernels/matmul_hopper.h
  bool has_mma() const { return has_mma_; }                  // kernels/attend_matrix.h
  bool has_matrix_unit() const { return has_matrix_unit_; }  // gpu/fragment
  bool has_fragments() const { return has_fragments_; }      // kernels that use them are right
  bool records() const { return records_; }                  // graphs
  TileOrder tile_order() const { return tile_order_; }
  uint64_t memory_bytes() const { return memory_bytes_; }
  Result<uint64_t> free_bytes() const;

  // For what does not compute rightly here (gpu/self_test_policy.h). Without fragments a device has no other kernels of
  // matrix instructions either. REQUIRES: no backend uses the device yet
  void do_without_fragments() { has_hopper_ = has_mma_ = has_matrix_unit_ = has_fragments_ = false; }
  void do_without_graphs() { records_ = false; }

  const GpuApi& api() const { return *api_; }
  GpuDevice* handle() const { return handle_; }
  uint64_t pinned_bytes() const { return pinned_bytes_; }  // currently allocated

  // The Error for a status other than ok.
  Result<void> check(GpuStatus status, const char* doing) const;

  // A kernel by its file and name (gpu/kernels).
  Result<GpuKernel*> find(const char* file, const char* name) const;

 private:
  Device(const GpuApi& api, GpuDevice* handle) : api_(&api), handle_(handle) {}
  Result<void> ask_target();
  void restrict_to(const char* wanted);

  const GpuApi* api_;
  GpuDevice* handle_;
  std::string name_, target_;
  uint32_t wave_ = 0;
  bool has_hopper_ = false;
  bool has_mma_ = false;
  bool has_matrix_unit_ = false;
  bool has_fragments_ = true;
  bool records_ = true;
  TileOrder tile_order_ = TileOrder::by_row;
  uint64_t memory_bytes_ = 0;
  friend class Memory;
  mutable std::atomic<uint64_t> pinned_bytes_{0};
};

// Device memory, or pinned host memory.
class Memory {
 public:
  enum class Kind : uint8_t { device, pinned };
  Memory() = default;
  static Result<Memory> allocate(const Device& device, Kind kind, size_t n_bytes);
  ~Memory() { reset(); }
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t size() const { return n_bytes_; }
  void reset();

 private:
  const Device* device_ = nullptr;
  Kind kind_ = Kind::device;
  std::byte* data_ = nullptr;
  size_t n_bytes_ = 0;
};

class Event {
 public:
  Event() = default;
  static Result<Event> make(const Device& device);
  ~Event();
  Event(Event&& other) noexcept { *this = std::move(other); }
  Event& operator=(Event&& other) noexcept;

  Result<void> finish() const;  // waits on the host; returns at once for an empty event
  GpuEvent* handle() const { return handle_; }

 private:
  Event(const Device& device, GpuEvent* handle) : device_(&device), handle_(handle) {}

  const Device* device_ = nullptr;
  GpuEvent* handle_ = nullptr;
};

class Graph {
 public:
  Graph() = default;
  Graph(const Device& device, GpuGraph* handle) : device_(&device), handle_(handle) {}
  ~Graph();
  Graph(Graph&& other) noexcept { *this = std::move(other); }
  Graph& operator=(Graph&& other) noexcept;
  GpuGraph* handle() const { return handle_; }

 private:
  const Device* device_ = nullptr;
  GpuGraph* handle_ = nullptr;
};

// Work executed in order. Host memory in copies must be pinned and stay valid until the copy has executed.
class Stream {
 public:
  Stream() = default;
  static Result<Stream> make(const Device& device);
  ~Stream();
  Stream(Stream&& other) noexcept { *this = std::move(other); }
  Stream& operator=(Stream&& other) noexcept;

  Result<void> finish() const;  // waits on the host; returns at once for an empty stream
  Result<void> record(const Event& event) const;
  Result<void> wait(const Event& event) const;
  Result<void> copy(void* to, const void* from, size_t n_bytes, CopyKind kind) const;
  Result<void> fill(void* to, uint8_t byte, size_t n_bytes) const;

  // Launches overlap where the device supports it: every kernel waits for its inputs (gpu/runtime.h).
  template <class Args>
  Result<void> launch(GpuKernel* kernel, LaunchShape shape, const Args& args) const {
    return launch_bytes(kernel, shape, &args, sizeof args);
  }
  template <class Args>
  Result<void> launch(GpuKernel* kernel, Grid grid, uint32_t n_threads, const Args& args) const {
    return launch(kernel, {grid, n_threads}, args);
  }

  Result<void> begin_capture() const;
  Result<Graph> end_capture() const;
  Result<void> launch(const Graph& graph) const;

 private:
  Stream(const Device& device, GpuStream* handle) : device_(&device), handle_(handle) {}
  Result<void> launch_bytes(GpuKernel* kernel, LaunchShape shape, const void* args, size_t n_bytes) const;

  const Device* device_ = nullptr;
  GpuStream* handle_ = nullptr;
};

}  // namespace rocmforge::gpu
