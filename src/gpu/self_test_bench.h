#pragma once
// What the families of the self-test are written with: memory on the device, launches, results on the host, and the
// comparison with the CPU's numbers.
//
// Threads: one at a time.

#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu/device.h"

namespace rocmforge::gpu {

// Device memory and as much pinned memory, in a few large pieces: a driver takes long to give out many.
class SelfTestArena {
 public:
  explicit SelfTestArena(const Device& device) : device_(&device) {}

  struct Space {
    std::byte* on_device;
    std::byte* pinned;
  };
  Result<Space> take(size_t n_bytes);
  // Everything is free again. REQUIRES: no work that uses it is under way
  void clear() {
    n_full_ = 0;
    n_used_ = 0;
  }

 private:
  static constexpr size_t kPieceBytes = 4 << 20;
  struct Piece {
    Memory on_device, pinned;
  };
  const Device* device_;
  std::vector<Piece> pieces_;
  size_t n_full_ = 0, n_used_ = 0;  // whole pieces; bytes of the next
};

class SelfTestBench {
 public:
  static Result<SelfTestBench> make(const Device& device, SelfTestArena& arena) {
    return SelfTestBench(device, arena, TRY(Stream::make(device)));
  }

  template <class T>
  Result<T*> put(std::span<const T> values) {
    const auto [on_device, pinned] = TRY(arena_->take(values.size_bytes()));
    std::memcpy(pinned, values.data(), values.size_bytes());
    TRY(stream_.copy(on_device, pinned, values.size_bytes(), CopyKind::to_device));
    return reinterpret_cast<T*>(on_device);
  }
  template <class T>
  Result<T*> put(const std::vector<T>& values) {
    return put(std::span<const T>(values));
  }
  template <class T>
  Result<T*> zeros(size_t n) {
    const auto [on_device, pinned] = TRY(arena_->take(n * sizeof(T)));
    TRY(stream_.fill(on_device, 0, n * sizeof(T)));
    return reinterpret_cast<T*>(on_device);
  }
  template <class T>
  Result<std::vector<T>> read(const T* from, size_t n) {
    const auto [on_device, pinned] = TRY(arena_->take(n * sizeof(T)));
    TRY(stream_.copy(pinned, from, n * sizeof(T), CopyKind::to_host));
    TRY(stream_.finish());
    const auto* first = reinterpret_cast<const T*>(pinned);
    return std::vector<T>(first, first + n);
  }
  template <class Args>
  Result<void> run(const char* file, const char* kernel, Grid grid, uint32_t n_threads, const Args& args) {
    return stream_.launch(TRY(device_->find(file, kernel)), grid, n_threads, args);
  }
  const Device& device() const { return *device_; }
  const Stream& stream() const { return stream_; }

  // The fault of numbers that are not the CPU's; other errors are the driver's.
  Error wrong(std::string fact) {
    was_wrong_ = true;
    return {ErrorCode::device_failed, std::move(fact)};
  }
  bool was_wrong() const { return was_wrong_; }
  // Within `tolerance` of the largest magnitude expected; rows of `width` for the message.
  Result<void> compare(std::span<const float> got, std::span<const float> expected, float tolerance, size_t width);

 private:
  SelfTestBench(const Device& device, SelfTestArena& arena, Stream stream)
      : device_(&device), arena_(&arena), stream_(std::move(stream)) {}

  const Device* device_;
  SelfTestArena* arena_;
  bool was_wrong_ = false;
  Stream stream_;
};

// Families with a file of their own (self_test_attention.cpp).
Result<void> try_attention_by_row(SelfTestBench& bench);
Result<void> try_attention_by_matrix(SelfTestBench& bench);

}  // namespace rocmforge::gpu
