#include "gpu/emu/block.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "base/check.h"
#include "base/thread.h"
#include "gpu/emu/fiber.h"
#include "gpu/emu/guarded.h"

namespace rocmforge::gpu::emu {

thread_local Context* current = nullptr;

namespace {

// The odd 192 bytes keep the stacks' hot lines out of the same cache sets.
constexpr size_t kStackBytes = (96 << 10) + 192;

enum class State : uint8_t { ready, at_wave, at_block, done };

struct Thread {
  Context context;
  Fiber fiber;
  State state = State::done;
  uint8_t parity = 0;  // which of the wave's two exchanges is next
  int line = 0;        // of the operation it waits at
};

struct Wave {
  alignas(64) std::byte slots[2][kMaxWave][kExchangeBytes];
  uint64_t taking_part = 0;  // lanes in the last operation
};

// One block at a time; kept for the next launch.
class BlockRunner {
 public:
  BlockRunner()
      : stacks_(kStackBytes * kMaxThreads),
        shared_(kSharedBytes),
        dynamic_shared_(kSharedBytes),
        threads_(kMaxThreads),
        waves_(kMaxThreads / 32) {}

  void run(const Launch& launch, Grid block);

  Thread& self() { return threads_[static_cast<size_t>(current->thread)]; }
  Wave& wave() { return waves_[current->thread / launch_->wave]; }
  uint32_t lane() const { return current->thread % launch_->wave; }
  const Launch& launch() const { return *launch_; }

  void park(State state, int line) {
    Thread& t = self();
    t.state = state;
    t.line = line;
    switch_fiber(t.fiber, scheduler_);
  }
  void* shared(size_t n_bytes) {
    if (n_bytes + launch_->shape.shared_bytes > kSharedBytes) fail("more shared memory than a block has");
    return shared_.end() - (n_bytes + 15) / 16 * 16;
  }
  std::byte* dynamic_shared() {
    constexpr size_t kAlignment = 128;
    return dynamic_shared_.end() - (launch_->shape.shared_bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  static BlockRunner*& here();

 private:
  static void body();
  void run_wave(uint32_t first, uint32_t n_lanes);
  void resume(Thread& thread);

  Guarded stacks_;
  Guarded shared_, dynamic_shared_;
  std::vector<Thread> threads_;
  std::vector<Wave> waves_;
  Fiber scheduler_{};
  const Launch* launch_ = nullptr;
  uint32_t n_live_ = 0;
  uint32_t n_at_block_ = 0;
  int barrier_line_ = 0;
};

BlockRunner*& BlockRunner::here() {
  static thread_local BlockRunner* runner = nullptr;
  return runner;
}

void BlockRunner::body() {
  for (;;) {
    here()->launch_->body(here()->launch_->args);
    if (!current->has_waited) fail("a thread that ends without wait_for_inputs");
    here()->park(State::done, 0);
  }
}

void BlockRunner::resume(Thread& thread) {
  current = &thread.context;
  switch_fiber(scheduler_, thread.fiber);
  if (thread.state == State::done) n_live_--;
}

// All lanes of one wave to their next barrier or their end.
void BlockRunner::run_wave(uint32_t first, uint32_t n_lanes) {
  for (;;) {
    uint32_t n_at_wave = 0, n_at_block = 0;
    int line = 0;
    for (uint32_t i = 0; i < n_lanes; i++) {
      Thread& t = threads_[first + (launch_->order == Order::forward ? i : n_lanes - 1 - i)];
      if (t.state == State::ready) resume(t);
      current = &t.context;
      if (t.state == State::at_block) {
        if (n_at_block_ + n_at_block++ > 0 && barrier_line_ != t.line) fail("threads at different barriers", t.line);
        barrier_line_ = t.line;
      }
      if (t.state != State::at_wave) continue;
      if (n_at_wave++ > 0 && line != t.line) fail("lanes of one wave are at different operations", t.line);
      line = t.line;
    }
    if (n_at_wave == 0) {
      n_at_block_ += n_at_block;
      return;
    }
    if (n_at_block > 0) fail("some lanes of a wave are at a wave operation, others at a barrier", line);
    Wave& wave = waves_[first / launch_->wave];
    wave.taking_part = 0;
    for (uint32_t i = 0; i < n_lanes; i++) {
      if (threads_[first + i].state != State::at_wave) continue;
      threads_[first + i].state = State::ready;
      wave.taking_part |= uint64_t{1} << i;
    }
  }
}

void BlockRunner::run(const Launch& launch, Grid block) {
  launch_ = &launch;
  here() = this;
  std::fill(shared_.begin(), shared_.end(), std::byte{0xFF});  // NaN as f32, f16 and bf16
  std::fill(dynamic_shared(), dynamic_shared_.end(), std::byte{0xFF});
  const uint32_t n = launch.shape.n_threads;
  for (uint32_t i = 0; i < n; i++) {
    Thread& t = threads_[i];
    t.context = {i, block};
    t.fiber = make_fiber(stacks_.begin() + i * kStackBytes, kStackBytes, body);
    t.state = State::ready;
    t.parity = 0;
  }
  n_live_ = n;
  const uint32_t n_waves = (n + launch.wave - 1) / launch.wave;
  while (n_live_ > 0) {
    n_at_block_ = 0;
    for (uint32_t i = 0; i < n_waves; i++) {
      const uint32_t w = launch.order == Order::forward ? i : n_waves - 1 - i;
      run_wave(w * launch.wave, std::min(launch.wave, n - w * launch.wave));
    }
    if (n_live_ > 0 && n_at_block_ != n_live_) fail("a barrier that some threads of the block do not reach");
    for (uint32_t i = 0; i < n; i++) {
      if (threads_[i].state == State::at_block) threads_[i].state = State::ready;
    }
  }
  current = nullptr;
  here() = nullptr;
}

// Runners wait here between launches: making one maps a hundred megabytes of stacks.
class RunnerPool {
 public:
  std::unique_ptr<BlockRunner> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<BlockRunner>();
    auto runner = std::move(idle_.back());
    idle_.pop_back();
    return runner;
  }
  void give(std::unique_ptr<BlockRunner> runner) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(runner));
  }
  static RunnerPool& all() {
    static RunnerPool pool;
    return pool;
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<BlockRunner>> idle_;
};

}  // namespace

void fail(const char* fact, int line) {
  std::string where = "gpu emulation: " + std::string(fact);
  if (current != nullptr) {
    const Grid b = current->block;
    where += fmt::format(" (block {} {} {}, thread {}, line {})", b.x, b.y, b.z, current->thread, line);
  }
  fail_check("kernel", line, where.c_str());
}

void wait_for_block(int line) {
  BlockRunner::here()->park(State::at_block, line);
}

void* shared_memory(size_t n_bytes) {
  return BlockRunner::here()->shared(n_bytes);
}

void* dynamic_shared_memory() {
  if (BlockRunner::here()->launch().shape.shared_bytes == 0) fail("a launch without dynamic shared memory");
  return BlockRunner::here()->dynamic_shared();
}

void wait_for_inputs() {
  current->has_waited = true;
}

const std::byte* exchange_bytes(const void* mine, size_t n_bytes, int line) {
  BlockRunner& runner = *BlockRunner::here();
  const uint8_t parity = runner.self().parity ^= 1;
  Wave& wave = runner.wave();
  std::memcpy(wave.slots[parity][runner.lane()], mine, n_bytes);
  runner.park(State::at_wave, line);
  return &wave.slots[parity][0][0];
}

bool takes_part(uint32_t lane) {
  return (BlockRunner::here()->wave().taking_part >> lane & 1) != 0;
}

uint64_t ballot(bool p, int line) {
  const std::byte* all = exchange_bytes(&p, sizeof p, line);
  uint64_t out = 0;
  for (uint32_t lane = 0; lane < BlockRunner::here()->launch().wave; lane++) {
    if (takes_part(lane) && all[lane * kExchangeBytes] != std::byte{0}) out |= uint64_t{1} << lane;
  }
  return out;
}

void run(const Launch& launch) {
  const Grid& grid = launch.shape.grid;
  if (launch.shape.n_threads == 0 || launch.shape.n_threads > kMaxThreads) fail("a block of no threads or too many");
  const uint64_t n_blocks = uint64_t{grid.x} * grid.y * grid.z;
  std::atomic<uint64_t> next{0};
  const auto work = [&] {
    auto runner = RunnerPool::all().take();
    for (uint64_t i; (i = next.fetch_add(1)) < n_blocks;) {
      const uint64_t b = launch.order == Order::forward ? i : n_blocks - 1 - i;
      runner->run(launch, {static_cast<uint32_t>(b % grid.x), static_cast<uint32_t>(b / grid.x % grid.y),
                           static_cast<uint32_t>(b / grid.x / grid.y)});
    }
    RunnerPool::all().give(std::move(runner));
  };
  constexpr uint64_t kBlocksWorthAThread = 16;
  const uint64_t n_workers =
      std::min<uint64_t>(std::max(1u, std::thread::hardware_concurrency()), 1 + n_blocks / kBlocksWorthAThread);
  std::vector<std::thread> others;
  others.reserve(n_workers - 1);
  while (others.size() < n_workers - 1) {
    auto thread = start_thread(work);
    if (!thread.ok()) break;  // fewer do the same
    others.push_back(std::move(*thread));
  }
  work();
  for (std::thread& t : others) t.join();
}

}  // namespace rocmforge::gpu::emu
