#include "gpu/expert_tables.h"

#include <cstring>

#include "base/check.h"

namespace rocmforge::gpu {

Result<ExpertTables> ExpertTables::make(const Device& device) {
  ExpertTables out;
  out.pinned_ = TRY(Memory::allocate(device, Memory::Kind::pinned, kTables * kTableBytes));
  out.device_ = TRY(Memory::allocate(device, Memory::Kind::device, kTables * kTableBytes));
  for (Event& event : out.copied_) event = TRY(Event::make(device));
  return out;
}

Result<const uint64_t*> ExpertTables::put(std::span<const uint64_t> addresses, const Stream& stream) {
  CHECK(addresses.size_bytes() <= kTableBytes);
  const size_t table = next_++ % kTables;
  std::byte* const pinned = pinned_.data() + table * kTableBytes;
  std::byte* const to = device_.data() + table * kTableBytes;
  TRY(copied_[table].finish());
  std::memcpy(pinned, addresses.data(), addresses.size_bytes());
  TRY(stream.copy(to, pinned, addresses.size_bytes(), CopyKind::to_device));
  TRY(stream.record(copied_[table]));
  return reinterpret_cast<const uint64_t*>(to);
}

}  // namespace rocmforge::gpu
