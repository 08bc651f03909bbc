#pragma once
// Weights in device memory. File bytes are copied unchanged from pinned buffers and repacked on the device:
//
//   reader -> staging (pinned) -> copy -> landing (device) -> repack -> planes at their final address
//
// Every loader has two staging buffers, a landing buffer for each, and a stream; while one buffer is copied, the other
// is filled. Formats with a single plane are copied straight to their address. On HIP loaders share two streams: HIP
// puts all streams on four hardware queues, and a pass may not queue behind copies.
//
// No event per weight: before a pass, the compute stream waits for everything that the loaders have put on their
// streams (make_visible). A weight is resident only after its copies were put on those streams, so the wait covers it.
// It also covers a few pieces of later weights, at most 8 MiB per loader.
//
// Threads: as weights/placement.h says.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/device.h"
#include "gpu/packed/planes.h"
#include "weights/placement.h"

namespace rocmforge {

class GpuPlacement final : public Placement {
 public:
  explicit GpuPlacement(const gpu::Device& device);

  uint64_t packed_bytes(const WeightShape& shape) const override;
  uint64_t rows_per_unit(const WeightShape&) const override { return 1; }
  size_t staging_bytes() const override { return kStagingBytes; }
  uint64_t available_bytes() const override;
  uint64_t overhead_bytes(size_t n_loaders) const override { return 2 * n_loaders * kStagingBytes; }

  Result<void> reserve(uint64_t arena_bytes, size_t n_loaders) override;
  void release() override;
  bool is_reserved() const override { return arena_.data() != nullptr; }

  Result<std::span<std::byte>> staging(size_t loader) override;
  Result<void> land(uint64_t address, const WeightShape& shape, uint64_t first_row, std::span<const std::byte> rows,
                    size_t loader) override;
  Result<void> finish(uint64_t address, const WeightShape& shape, size_t loader) override;
  void give_up(uint64_t address, const WeightShape& shape) override;
  std::byte* base() const override { return arena_.data(); }

  // Makes every weight that is resident now visible to later work on the stream.
  Result<void> make_visible(const gpu::Stream& stream);
  // Records that the stream has read weights: reusing their memory must wait for that. Called after each pass.
  Result<void> mark_read(const gpu::Stream& stream);

  gpu::Planes planes(uint64_t address, const WeightShape& shape) const;

 private:
  static constexpr size_t kStagingBytes = 4 << 20;

  // Of one loader, or of several, one at a time under the mutex.
  struct LoaderStream {
    std::mutex mutex;
    gpu::Stream stream;
    uint64_t n_reads = 0;  // the value of n_reads_ that the stream has waited for
  };
  struct Loader {
    LoaderStream* on = nullptr;
    struct Buffer {
      std::byte* staging = nullptr;
      std::byte* landing = nullptr;
      gpu::Event consumed;  // the last copy out of this buffer
    };
    Buffer buffers[2];
    int now = 0;  // the buffer that staging() returned last
  };

  void note_landed(uint64_t address, const WeightShape& shape);
  Result<void> wait_for_range(LoaderStream& on, uint64_t begin, uint64_t end);
  Result<void> put_on_stream(Loader& self, uint64_t address, const WeightShape& shape, uint64_t first_row,
                             std::span<const std::byte> rows);

  const gpu::Device* device_;
  gpu::GpuKernel* repack_ = nullptr;
  gpu::Memory arena_;
  gpu::Memory staging_, landing_;  // of all loaders
  gpu::Event read_;                // records the end of the last pass
  // Streams and events are destroyed before the memory that they use.
  std::vector<std::unique_ptr<LoaderStream>> streams_;
  std::vector<std::unique_ptr<Loader>> loaders_;
  std::atomic<uint64_t> n_landed_{0};  // pieces copied so far
  uint64_t n_visible_ = 0;             // of these, visible to the compute stream
  std::mutex mutex_;
  // Address ranges of the arena that hold a weight, by their beginning. A pass may still be reading one when another
  // weight is to be copied there.
  struct Landed {
    uint64_t end = 0;
    uint64_t n_landed = 0;  // pieces of all weights copied by the time this one was complete
  };
  std::map<uint64_t, Landed> landed_;
  uint64_t n_reads_ = 0;  // how often read_ was recorded
  uint64_t n_read_ = 0;   // pieces visible to the last of these passes
};

}  // namespace rocmforge
