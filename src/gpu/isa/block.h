#pragma once
// The waves of a block: how they begin, and how they run until all have ended.

#include <random>
#include <string>

#include "gpu/isa/execute.h"
#include "gpu/isa/written.h"

namespace rocmforge::gpu::isa {

class Block {
 public:
  // All of it outlives the block.
  Block(const Kernel& kernel, const Launch& launch, std::span<const std::byte> kernarg, const MemoryMap& memory,
        StoreLog& stores);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void run(Grid block);  // the one with this place in the grid

  const std::string& failure() const { return failure_; }  // empty: none
  bool is_unsupported() const { return is_unsupported_; }
  const Report& report() const { return report_; }

 private:
  void begin(Wave& w, Grid block);
  void advance(Wave& w, uint64_t n_instructions);
  void step(Wave& w, const Instruction& i);
  bool all_at_barrier();  // false, with a failure: some have ended

  const Kernel& kernel_;
  const Launch& launch_;
  std::span<const std::byte> kernarg_;
  std::array<uint32_t, 16> packet_{};  // of the launch, as far as kernels may read it
  MemoryMap memory_;
  StoreLog* stores_;  // null: not followed
  Lds lds_;
  std::vector<Wave> waves_;
  std::vector<Written> written_;           // by wave
  std::vector<Visibility*> visibilities_;  // of the waves
  std::mt19937_64 rng_;
  Report report_;
  std::string failure_;
  bool is_unsupported_ = false;
};

}  // namespace rocmforge::gpu::isa
