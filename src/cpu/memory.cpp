#include "cpu/memory.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "base/checked.h"
#include "base/units.h"

namespace rocmforge::cpu {
namespace {

constexpr uint64_t kHugePageBytes = 2 << 20;

// The number after `key` in a file of the system's "key number" lines; the first line's when the key is empty.
std::optional<uint64_t> read_number(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t at = line.find_first_not_of(": \t", key.size());
    if (at == std::string::npos) return std::nullopt;
    uint64_t value = 0;
    const auto parsed = std::from_chars(line.data() + at, line.data() + line.size(), value);
    return parsed.ec == std::errc() ? std::optional(value) : std::nullopt;
  }
  return std::nullopt;
}

// What a limited control group leaves; the pages of files it counts are given back when memory is needed.
std::optional<uint64_t> control_group_left() {
  const std::string group = "/sys/fs/cgroup/";
  const auto limit = read_number(group + "memory.max", "");
  const auto used = read_number(group + "memory.current", "");
  if (!limit || !used) return std::nullopt;
  const uint64_t reclaimable = read_number(group + "memory.stat", "file ").value_or(0);
  const uint64_t held = *used - std::min(*used, reclaimable);
  return *limit - std::min(*limit, held);
}

}  // namespace

uint64_t available_memory() {
  uint64_t available = std::numeric_limits<uint64_t>::max();
  if (const auto kib = read_number("/proc/meminfo", "MemAvailable")) available = *kib << 10;
  if (const auto left = control_group_left()) available = std::min(available, *left);
  return available;
}

uint64_t held_memory() {
  return read_number("/proc/self/status", "VmRSS").value_or(0) << 10;
}

Memory& Memory::operator=(Memory&& other) noexcept {
  release();
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

Result<Memory> Memory::allocate(uint64_t n_bytes, uint64_t available_bytes, std::string_view what) {
  const auto refused = [&] {
    return Error{ErrorCode::out_of_memory,
                 fmt::format("cpu: {}: {} needed, {} available; choose a smaller model, context or batch", what,
                             format_bytes(n_bytes), format_bytes(available_bytes))};
  };
  if (n_bytes == 0) return Memory();
  const CheckedU64 size = CheckedU64(n_bytes).rounded_up(4096);
  // A huge page more, of which the ends that do not fit are given back.
  const CheckedU64 mapped = size + kHugePageBytes;
  if (n_bytes > available_bytes || !mapped.fits(std::numeric_limits<ptrdiff_t>::max())) return refused();
  void* raw = mmap(nullptr, mapped.value(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return refused();

  const auto begin = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = (begin + kHugePageBytes - 1) & ~uintptr_t{kHugePageBytes - 1};
  if (aligned > begin) munmap(raw, aligned - begin);
  const uintptr_t end = aligned + size.value();
  if (const uintptr_t mapped_end = begin + mapped.value(); mapped_end > end) {
    munmap(reinterpret_cast<void*>(end), mapped_end - end);
  }
  Memory memory;
  memory.data_ = reinterpret_cast<std::byte*>(aligned);
  memory.size_ = size.value();
  madvise(memory.data_, memory.size_, MADV_HUGEPAGE);  // a wish: without huge pages it is only slower
  return memory;
}

void Memory::release() {
  if (data_ != nullptr) munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace rocmforge::cpu
