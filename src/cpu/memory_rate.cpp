#include "cpu/memory_rate.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "cpu/memory.h"

namespace rocmforge::cpu {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 20;
constexpr int kRounds = 5;

template <class Work>
double best_rate(Work&& work) {
  double best = 0;
  for (int round = 0; round < kRounds; round++) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::max(best, static_cast<double>(kBufferBytes) / seconds(std::chrono::steady_clock::now() - start));
  }
  return best;
}

}  // namespace

double measure_read_rate(size_t n_threads) {
  ThreadPool pool(n_threads);
  // Huge pages, as weights have them.
  auto memory = Memory::allocate(kBufferBytes, available_memory(), "a buffer to measure with");
  if (!memory.ok()) return 0;
  const std::span<uint64_t> buffer(reinterpret_cast<uint64_t*>(memory->data()), kBufferBytes / sizeof(uint64_t));
  uint64_t seed = 1;
  for (uint64_t& word : buffer) word = seed = seed * 6364136223846793005u + 1442695040888963407u;
  const size_t n_parts = pool.n_threads();
  std::vector<uint64_t> sums(n_parts * 8);
  return best_rate([&] {
    pool.run(n_parts, [&](size_t part) {
      const size_t n = buffer.size() / n_parts;
      const uint64_t* from = buffer.data() + part * n;
      // Four independent sums, or the additions would be the limit.
      uint64_t a = 0, b = 0, c = 0, d = 0;
      for (size_t i = 0; i + 4 <= n; i += 4) a += from[i], b += from[i + 1], c += from[i + 2], d += from[i + 3];
      sums[part * 8] += a + b + c + d;
    });
  });
}

double measure_fill_rate(size_t n_threads) {
  ThreadPool pool(n_threads);
  return best_rate([&] {
    void* memory = ::mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    ::madvise(memory, kBufferBytes, MADV_HUGEPAGE);
    const size_t n_parts = pool.n_threads();
    pool.run(n_parts, [&](size_t part) {
      std::memset(static_cast<char*>(memory) + part * (kBufferBytes / n_parts), 0x5A, kBufferBytes / n_parts);
    });
    ::munmap(memory, kBufferBytes);
  });
}

}  // namespace rocmforge::cpu
