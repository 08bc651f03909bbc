#include "gpu/placement.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "gpu/kernels/repack.h"

namespace rocmforge {
namespace {

uint64_t n_blocks(const WeightShape& shape, uint64_t n_rows) {
  return n_rows * (shape.row_elements / dtype_info(shape.dtype).block_elements);
}

}  // namespace

GpuPlacement::GpuPlacement(const gpu::Device& device) : device_(&device) {}

uint64_t GpuPlacement::packed_bytes(const WeightShape& shape) const {
  return gpu::plane_offsets(gpu::plane_table(shape.dtype), n_blocks(shape, shape.n_rows)).total_bytes;
}

// A device that cannot say how much is free says so again, as an error, when memory is asked for.
uint64_t GpuPlacement::available_bytes() const {
  const auto free = device_->free_bytes();
  return free.ok() ? *free : device_->memory_bytes();
}

gpu::Planes GpuPlacement::planes(uint64_t address, const WeightShape& shape) const {
  const gpu::PlaneTable table = gpu::plane_table(shape.dtype);
  const gpu::PlaneOffsets offsets = gpu::plane_offsets(table, n_blocks(shape, shape.n_rows));
  gpu::Planes out{};
  for (uint32_t p = 0; p < table.n_planes; p++) {
    out.at[p] = reinterpret_cast<const uint8_t*>(arena_.data() + address + offsets.at[p]);
  }
  return out;
}

Result<void> GpuPlacement::reserve(uint64_t arena_bytes, size_t n_loaders) {
  release();
  const auto allocate_all = [&]() -> Result<void> {
    using Kind = gpu::Memory::Kind;
    repack_ = TRY(device_->find("repack", "repack"));
    read_ = TRY(gpu::Event::make(*device_));
    const size_t n_buffers = 2 * n_loaders;
    constexpr size_t kStreamsOnHip = 2;
    const bool is_hip = std::string_view(device_->api().module) == "hip";
    const size_t n_streams = is_hip ? std::min(n_loaders, kStreamsOnHip) : n_loaders;
    for (size_t i = 0; i < n_streams; i++) {
      streams_.push_back(std::make_unique<LoaderStream>());
      streams_.back()->stream = TRY(gpu::Stream::make(*device_));
    }
    staging_ = TRY(gpu::Memory::allocate(*device_, Kind::pinned, n_buffers * kStagingBytes));
    landing_ = TRY(gpu::Memory::allocate(*device_, Kind::device, n_buffers * kStagingBytes));
    for (size_t i = 0; i < n_buffers; i++) {
      if (i % 2 == 0) {
        loaders_.push_back(std::make_unique<Loader>());
        loaders_.back()->on = streams_[i / 2 % n_streams].get();
      }
      loaders_.back()->buffers[i % 2] = {staging_.data() + i * kStagingBytes, landing_.data() + i * kStagingBytes,
                                         TRY(gpu::Event::make(*device_))};
    }
    arena_ = TRY(gpu::Memory::allocate(*device_, Kind::device, std::max<uint64_t>(arena_bytes, 1)));
    return {};
  };
  auto done = allocate_all();
  if (!done.ok()) release();
  return done;
}

void GpuPlacement::release() {
  // What is still under way must not find its memory gone. A device that fails here has nothing under way.
  for (const auto& on : streams_) static_cast<void>(on->stream.finish().ok());
  if (is_reserved()) static_cast<void>(read_.finish().ok());
  loaders_.clear();
  streams_.clear();
  read_ = {};
  arena_.reset();
  landing_.reset();
  staging_.reset();
  landed_.clear();
  n_landed_ = n_visible_ = 0;
  n_reads_ = n_read_ = 0;
}

Result<std::span<std::byte>> GpuPlacement::staging(size_t loader) {
  CHECK(loader < loaders_.size());
  Loader& self = *loaders_[loader];
  self.now ^= 1;
  const Loader::Buffer& buffer = self.buffers[self.now];
  TRY(buffer.consumed.finish());
  return std::span(buffer.staging, kStagingBytes);
}

Result<void> GpuPlacement::land(uint64_t address, const WeightShape& shape, uint64_t first_row,
                                std::span<const std::byte> rows, size_t loader) {
  CHECK(loader < loaders_.size());
  LoaderStream& on = *loaders_[loader]->on;
  const std::lock_guard lock(on.mutex);
  auto done = put_on_stream(*loaders_[loader], address, shape, first_row, rows);
  // Copies under way must end before their buffer is filled again.
  if (!done.ok()) static_cast<void>(on.stream.finish().ok());
  return done;
}

Result<void> GpuPlacement::put_on_stream(Loader& self, uint64_t address, const WeightShape& shape, uint64_t first_row,
                                         std::span<const std::byte> rows) {
  const Loader::Buffer& buffer = self.buffers[self.now];
  CHECK(rows.data() >= buffer.staging && rows.data() + rows.size() <= buffer.staging + kStagingBytes);
  LoaderStream& on = *self.on;
  TRY(wait_for_range(on, address, address + packed_bytes(shape)));
  const gpu::PlaneTable table = gpu::plane_table(shape.dtype);
  if (table.n_planes == 1) {
    std::byte* to = arena_.data() + address + first_row * shape.row_bytes();
    TRY(on.stream.copy(to, rows.data(), rows.size(), gpu::CopyKind::to_device));
  } else {
    TRY(on.stream.copy(buffer.landing, rows.data(), rows.size(), gpu::CopyKind::to_device));
    gpu::RepackArgs args{};
    args.blocks = reinterpret_cast<const uint8_t*>(buffer.landing);
    args.table = table;
    args.n_blocks = rows.size() / table.block_bytes;
    const gpu::PlaneOffsets offsets = gpu::plane_offsets(table, n_blocks(shape, shape.n_rows));
    const uint64_t first_block = n_blocks(shape, first_row);
    for (uint32_t p = 0; p < table.n_planes; p++) {
      std::byte* plane = arena_.data() + address + offsets.at[p];
      args.planes[p] = reinterpret_cast<uint8_t*>(plane + first_block * table.fields[p].n_bytes);
    }
    TRY(on.stream.launch(repack_, gpu::repack_grid(args.n_blocks), gpu::kRepackThreads, args));
  }
  TRY(on.stream.record(buffer.consumed));
  n_landed_++;
  return {};
}

// Copies to addresses that were used before must wait for the passes that read there, and for the previous copies
// there. A pass has waited for those already, unless the weight was given up unused.
Result<void> GpuPlacement::wait_for_range(LoaderStream& on, uint64_t begin, uint64_t end) {
  const std::lock_guard lock(mutex_);
  auto at = landed_.lower_bound(end);
  bool was_used = false, was_seen = true;
  while (at != landed_.begin() && (--at)->second.end > begin) {
    was_used = true;
    was_seen = was_seen && at->second.n_landed <= n_read_;
  }
  if (!was_used) return {};
  if (on.n_reads != n_reads_) {
    TRY(on.stream.wait(read_));
    on.n_reads = n_reads_;
  }
  if (was_seen) return {};
  for (const auto& loader : loaders_) {
    for (const Loader::Buffer& last : loader->buffers) TRY(on.stream.wait(last.consumed));
  }
  return {};
}

Result<void> GpuPlacement::finish(uint64_t address, const WeightShape& shape, size_t) {
  note_landed(address, shape);
  return {};
}

void GpuPlacement::give_up(uint64_t address, const WeightShape& shape) {
  note_landed(address, shape);
}

void GpuPlacement::note_landed(uint64_t address, const WeightShape& shape) {
  const std::lock_guard lock(mutex_);
  const uint64_t end = address + packed_bytes(shape);
  // Keeps the parts of the old ranges on either side.
  auto at = landed_.lower_bound(end);
  while (at != landed_.begin() && (--at)->second.end > address) {
    const auto [begin, before] = *at;
    at = landed_.erase(at);
    if (before.end > end) at = landed_.emplace(end, before).first;
    if (begin < address) at = landed_.emplace(begin, Landed{address, before.n_landed}).first;
  }
  landed_.emplace(address, Landed{end, n_landed_});
}

Result<void> GpuPlacement::make_visible(const gpu::Stream& stream) {
  const uint64_t n_landed = n_landed_;
  if (n_landed == n_visible_) return {};
  for (const auto& loader : loaders_) {
    for (const Loader::Buffer& buffer : loader->buffers) TRY(stream.wait(buffer.consumed));
  }
  n_visible_ = n_landed;
  return {};
}

Result<void> GpuPlacement::mark_read(const gpu::Stream& stream) {
  const std::lock_guard lock(mutex_);
  if (!is_reserved()) return {};
  TRY(stream.record(read_));
  n_reads_++;
  n_read_ = n_visible_;
  return {};
}

}  // namespace rocmforge
