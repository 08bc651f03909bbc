#pragma once
// Weights in device memory. File bytes go up as they are, from pinned buffers, and are repacked on the device:
//
//   reader -> staging (pinned) -> copy -> landing (device) -> repack -> planes at their final address
//
// Every loader has a stream, two staging buffers and a landing buffer for each; while one is on its way the other is
// filled. Formats of one plane are copied straight to their address.
//
// The compute stream waits for what was landed so far (make_visible): a weight that the store calls resident was put on
// its loaders' streams before, so it is among it. That also waits for a few pieces of later weights, 8 MiB a loader at
// most, and spares an event per weight.
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

  // What the stream does from here on sees every weight that is resident now.
  Result<void> make_visible(const gpu::Stream& stream);
  // The stream has read weights: one that is landed again must wait for it. Called after each pass.
  Result<void> mark_read(const gpu::Stream& stream);

  gpu::Planes planes(uint64_t address, const WeightShape& shape) const;

 private:
  static constexpr size_t kStagingBytes = 4 << 20;

  struct Loader {
    gpu::Stream stream;
    struct Buffer {
      std::byte* staging = nullptr;
      std::byte* landing = nullptr;
      gpu::Event consumed;  // the last piece in it was landed
    };
    Buffer buffers[2];
    int now = 0;           // the buffer that staging() gave last
    uint64_t n_reads = 0;  // the record of read_ that the stream has waited for
  };

  void note_landed(uint64_t address, const WeightShape& shape);
  Result<void> wait_for_range(Loader& self, uint64_t begin, uint64_t end);
  Result<void> put_on_stream(Loader& self, uint64_t address, const WeightShape& shape, uint64_t first_row,
                             std::span<const std::byte> rows);

  const gpu::Device* device_;
  gpu::GpuKernel* repack_ = nullptr;
  gpu::Memory arena_;
  gpu::Memory staging_, landing_;  // of all loaders
  gpu::Event read_;                // the last pass
  // Loaders hold streams and events; they go before the memory those use.
  std::vector<std::unique_ptr<Loader>> loaders_;
  std::atomic<uint64_t> n_landed_{0};  // pieces
  uint64_t n_visible_ = 0;             // of them, to the compute stream
  std::mutex mutex_;
  // Ranges of the arena where a weight has landed, by their beginning. A pass may be reading it when another one lands
  // there.
  struct Landed {
    uint64_t end = 0;
    uint64_t n_landed = 0;  // pieces, of all weights, when it had landed
  };
  std::map<uint64_t, Landed> landed_;
  uint64_t n_reads_ = 0;  // records of read_
  uint64_t n_read_ = 0;   // pieces that were visible to the last of these passes
};

}  // namespace rocmforge
