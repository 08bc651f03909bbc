#include "gpu/isa/execute.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/thread.h"
#include "gpu/isa/block.h"

namespace rocmforge::gpu::isa {
namespace {

constexpr uint32_t kMaxThreads = 1024, kMaxSharedBytes = 64 << 10;

Result<void> check_launch(const Kernel& kernel, const Launch& launch, size_t n_args) {
  const auto bad = [&](const std::string& text) {
    return Error{ErrorCode::invalid_argument, kernel.name + ": " + text};
  };
  const Descriptor& d = kernel.descriptor;
  if (launch.n_threads == 0 || launch.n_threads > kMaxThreads) return bad("a block of no threads or of too many");
  if (launch.grid.x == 0 || launch.grid.y == 0 || launch.grid.z == 0) return bad("a grid without blocks");
  if (uint64_t{d.lds_bytes} + launch.shared_bytes > kMaxSharedBytes) return bad("more shared memory than a block has");
  if (n_args > d.kernarg_bytes) return bad("more arguments than it takes");
  for (uint32_t k = 0; k < 7; k++) {
    const bool is_given = k == 0 || k == 1 || k == 3 || k == 5;
    if ((d.properties >> k & 1) != 0 && !is_given) {
      return bad("it asks for more than its arguments, the dispatch packet and scratch memory");
    }
  }
  return {};
}

// What a launch's threads share.
struct Shared {
  explicit Shared(const MemoryMap& memory) : stores(memory) {}

  std::mutex mutex;
  Report report;
  std::string failure;
  bool is_unsupported = false;
  std::atomic<uint64_t> next_block{0};
  StoreLog stores;
};

// Blocks in an order that a seed gives: steps of a width that has no factor in common with their number.
uint64_t shuffled(uint64_t i, uint64_t n, uint64_t seed) {
  if (seed == 0) return i;
  uint64_t step = seed % n;
  while (std::gcd(step, n) != 1) step++;
  return (i * step + seed) % n;
}

void work(Shared& shared, const Kernel& kernel, const Launch& launch, std::span<const std::byte> kernarg,
          const MemoryMap& memory) {
  const Grid& grid = launch.grid;
  const uint64_t n_blocks = uint64_t{grid.x} * grid.y * grid.z;
  Block block(kernel, launch, kernarg, memory, shared.stores);
  for (uint64_t i = 0; (i = shared.next_block.fetch_add(1)) < n_blocks;) {
    const uint64_t b = shuffled(i, n_blocks, launch.seed);
    block.run({static_cast<uint32_t>(b % grid.x), static_cast<uint32_t>(b / grid.x % grid.y),
               static_cast<uint32_t>(b / grid.x / grid.y)});
    if (!block.failure().empty()) shared.next_block = n_blocks;
    if (!block.failure().empty()) break;
  }
  const std::lock_guard lock(shared.mutex);
  shared.report.add(block.report());
  if (shared.failure.empty()) {
    shared.failure = block.failure();
    shared.is_unsupported = block.is_unsupported();
  }
}

}  // namespace

uint64_t Report::n_instructions() const {
  return std::accumulate(n_executed.begin(), n_executed.end(), uint64_t{0});
}

void Report::add(const Report& other) {
  n_executed.resize(std::max(n_executed.size(), other.n_executed.size()));
  for (size_t k = 0; k < other.n_executed.size(); k++) n_executed[k] += other.n_executed[k];
  n_waves += other.n_waves;
  traffic += other.traffic;
}

Result<Report> run(const Kernel& kernel, const Launch& launch, std::span<const std::byte> args,
                   const MemoryMap& memory) {
  TRY(check_launch(kernel, launch, args.size()));
  if (launch.checks.hazards && !kernel.hazard.empty()) {
    return Error{ErrorCode::internal, "machine code: " + kernel.hazard};
  }
  std::vector<std::byte> kernarg(kernel.descriptor.kernarg_bytes);
  std::ranges::copy(args, kernarg.begin());

  const uint64_t n_blocks = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  const uint64_t n_waves = n_blocks * ((launch.n_threads + kernel.wave() - 1) / kernel.wave());
  constexpr uint64_t kWavesWorthAThread = 32;
  const uint64_t n_cores = launch.n_workers != 0 ? launch.n_workers : std::max(1u, std::thread::hardware_concurrency());
  const uint64_t n_workers = std::min({n_cores, n_blocks, 1 + n_waves / kWavesWorthAThread});
  Shared shared(memory);
  const auto part = [&](size_t) { work(shared, kernel, launch, kernarg, memory); };
  std::vector<std::thread> others = start_threads(n_workers - 1, part);
  part(0);
  for (std::thread& t : others) t.join();
  if (!shared.failure.empty()) {
    return Error{shared.is_unsupported ? ErrorCode::unsupported : ErrorCode::internal,
                 "machine code: " + shared.failure};
  }
  return std::move(shared.report);
}

}  // namespace rocmforge::gpu::isa
