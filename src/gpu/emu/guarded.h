#pragma once
// Memory between two inaccessible pages: an access past either end stops the process at that access. The end is exact
// to 256 bytes, the alignment of device memory.

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <utility>

namespace rocmforge::gpu::emu {

class Guarded {
 public:
  explicit Guarded(size_t n_bytes) {
    constexpr size_t kPage = 4096, kAlignment = 256;
    const size_t used = (n_bytes + kAlignment - 1) / kAlignment * kAlignment;
    const size_t inner = (used + kPage - 1) / kPage * kPage;
    mapped_bytes_ = inner + 2 * kPage;
    void* mapped =
        mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    mapped_ = static_cast<std::byte*>(mapped);
    mprotect(mapped_, kPage, PROT_NONE);
    mprotect(mapped_ + kPage + inner, kPage, PROT_NONE);
    end_ = mapped_ + kPage + inner;
    begin_ = end_ - used;
  }
  ~Guarded() {
    if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
  }
  Guarded(Guarded&& other) noexcept
      : mapped_(std::exchange(other.mapped_, nullptr)),
        mapped_bytes_(other.mapped_bytes_),
        begin_(other.begin_),
        end_(other.end_) {}
  Guarded& operator=(Guarded&&) = delete;

  std::byte* begin() const { return begin_; }
  std::byte* end() const { return end_; }

 private:
  std::byte* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::byte* begin_ = nullptr;
  std::byte* end_ = nullptr;
};

}  // namespace rocmforge::gpu::emu
