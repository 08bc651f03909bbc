#include "gpu/isa/block.h"

#include <algorithm>

namespace rocmforge::gpu::isa {
namespace {

// What registers hold that nobody has written: a NaN, and an address that cannot be.
constexpr uint32_t kVectorFill = 0x7FC0DEAD, kScalarFill = 0xDEADDEAD;
constexpr std::byte kScratchFill{0xCD};
constexpr uint64_t kMostInstructions = uint64_t{1} << 34;  // of a wave, before it is said to hang
// Of Descriptor::properties.
constexpr uint16_t kScratchBufferBit = 0, kPacketBit = 1, kKernargBit = 3, kFlatScratchBit = 5;

// Both halves of a dual instruction read before either writes.
void run_dual(Wave& w, const Instruction& i) {
  if (!i.second_reads_first) {
    run_one(w, i);
    run_one(w, *i.second);
    return;
  }
  Lanes& to = w.v[i.o[0].index];
  const Lanes before = to;
  run_one(w, i);
  const Lanes after = to;
  to = before;
  run_one(w, *i.second);
  to = after;
}

// Puts the result into a part of the destination.
void run_sdwa(Wave& w, const Instruction& i) {
  const Operand& to = i.o[0];
  if (i.n_outputs == 0 || to.kind != OperandKind::vector || to.part == Part::dword) return run_one(w, i);
  std::array<Lanes, 2> before;
  for (uint32_t h = 0; h < w.n_halves; h++) before[h] = w.v[h * w.n_registers + to.index];
  run_one(w, i);
  const bool is_word = to.part >= Part::word0;
  const uint32_t n_bits = is_word ? 16 : 8;
  const uint32_t which = static_cast<uint32_t>(to.part) - static_cast<uint32_t>(is_word ? Part::word0 : Part::byte0);
  const uint32_t shift = which * n_bits, low = (1u << n_bits) - 1;
  for (uint32_t lane = 0; lane < w.n_lanes(); lane++) {
    if (!w.is_active(lane)) continue;
    uint32_t& v = w.at(to.index, lane);
    const uint32_t result = v & low;
    v = result << shift;
    if (i.unused == Unused::preserve) v |= before[lane / kHalf][lane % kHalf] & ~(low << shift);
    if (i.unused == Unused::sext && (result >> (n_bits - 1)) != 0 && shift + n_bits < 32) v |= ~0u << (shift + n_bits);
  }
}

}  // namespace

Block::Block(const Kernel& kernel, const Launch& launch, std::span<const std::byte> kernarg, const MemoryMap& memory,
             StoreLog& stores)
    : kernel_(kernel),
      launch_(launch),
      kernarg_(kernarg),
      memory_(memory),
      stores_(launch.checks.visibility ? &stores : nullptr),
      lds_(kernel.descriptor.lds_bytes + launch.shared_bytes, launch.checks.races),
      waves_((launch.n_threads + kernel.wave() - 1) / kernel.wave()),
      written_(waves_.size()) {
  // The sizes of a block, and of the grid in threads.
  packet_[1] = launch.n_threads | 1u << 16;
  packet_[2] = 1;
  packet_[3] = launch.grid.x * launch.n_threads;
  packet_[4] = launch.grid.y;
  packet_[5] = launch.grid.z;
  memory_.allow(packet_.data(), sizeof packet_, false);
  memory_.allow(kernarg_.data(), kernarg_.size(), false);
  memory_.allow(kernel.image, kernel.image_bytes, false);
  report_.n_executed.resize(kernel.instructions.size());
  for (uint32_t k = 0; k < waves_.size(); k++) {
    Wave& w = waves_[k];
    w.kernel = &kernel_;
    w.memory = &memory_;
    w.lds = &lds_;
    w.number = k;
    w.n_halves = kernel.wave() / kHalf;
    w.n_registers = kernel.target.generation == 9 ? 2 * kAccumulators : kMoved + 1;
    w.v.resize(size_t{w.n_halves} * w.n_registers);
    w.counts_traffic = launch.checks.counts_traffic;
    visibilities_.push_back(&w.visibility);
  }
}

void Block::begin(Wave& w, Grid block) {
  for (Lanes& reg : w.v) reg.fill(kVectorFill);
  w.s.fill(kScalarFill);
  written_[w.number].begin();
  for (auto& queue : w.pending) queue.clear();
  w.scc = false;
  w.has_signalled = false;
  w.mode = kernel_.descriptor.mode();
  const auto n_waves = static_cast<uint32_t>(waves_.size());
  const uint32_t first_wave = 1 + n_waves * (block.x + launch_.grid.x * (block.y + launch_.grid.y * block.z));
  w.visibility.begin(stores_, kernel_, first_wave + w.number, first_wave, n_waves);
  w.state = State::running;
  w.pc = 0;
  w.scratch.assign(size_t{kernel_.descriptor.private_bytes} * w.n_lanes(), kScratchFill);

  const Descriptor& d = kernel_.descriptor;
  uint32_t next = 0;
  const auto put_word = [&](uint32_t word) {
    written_[w.number].set_scalar(next);
    w.s[next++] = word;
  };
  const auto put_address = [&](const void* address) {
    const auto bits = reinterpret_cast<uint64_t>(address);
    put_word(static_cast<uint32_t>(bits));
    put_word(static_cast<uint32_t>(bits >> 32));
  };
  const auto has = [&](uint16_t bit) { return (d.properties >> bit & 1) != 0; };
  if (has(kScratchBufferBit)) {
    for (const uint32_t word : {kScratchDescriptor, 0u, 0u, 0u}) put_word(word);
  }
  if (has(kPacketBit)) put_address(packet_.data());
  if (has(kKernargBit)) put_address(kernarg_.data());
  if (has(kFlatScratchBit)) put_address(nullptr);
  if (kernel_.target.generation >= 12) {
    w.s[kTtmp + 9] = block.x;
    w.s[kTtmp + 7] = d.has_block_id(2) ? block.y | block.z << 16 : block.y;
    written_[w.number].set_scalar(kTtmp + 9);
    written_[w.number].set_scalar(kTtmp + 7);
  } else {
    next = d.n_user_scalars();  // gfx11 leaves a gap
    const uint32_t ids[] = {block.x, block.y, block.z};
    for (uint32_t axis = 0; axis < 3; axis++) {
      if (d.has_block_id(axis)) put_word(ids[axis]);
    }
    if (has(kScratchBufferBit) && d.has_scratch_offset()) put_word(0);
  }
  uint64_t exec = 0;
  const uint32_t n_more_axes = kernel_.target.generation == 10 ? d.last_thread_axis() : 0;
  for (uint32_t axis = 1; axis <= n_more_axes; axis++) written_[w.number].set_vector(axis);
  const uint32_t first_thread = w.number * w.n_lanes();
  for (uint32_t l = 0; l < w.n_lanes(); l++) {
    w.at(0, l) = first_thread + l;  // y and z are 0: from bits 10 and 20 on, or in registers of their own
    for (uint32_t axis = 1; axis <= n_more_axes; axis++) w.at(axis, l) = 0;
    if (first_thread + l < launch_.n_threads) exec |= uint64_t{1} << l;
  }
  w.set_mask(kExec, exec);
}

void Block::step(Wave& w, const Instruction& i) {
  if (i.run == nullptr) {
    is_unsupported_ = true;
    return w.fail(i, "an instruction that is not modelled");
  }
  if (launch_.checks.waits) {
    bool waits = false;
    for (const auto& queue : w.pending) waits |= !queue.empty();
    if (waits) check_waits(w, i);
    if (w.state != State::running) return;
  }
  if (launch_.checks.registers && !written_[w.number].follow(i))
    return w.fail(i, "a register is read that nobody wrote");
  if (i.second)
    run_dual(w, i);
  else if (i.is_sdwa)
    run_sdwa(w, i);
  else
    run_one(w, i);
}

void Block::advance(Wave& w, uint64_t n_instructions) {
  const std::vector<Instruction>& code = kernel_.instructions;
  for (; n_instructions != 0 && w.state == State::running; n_instructions--) {
    const uint32_t at = w.pc++;
    if (at >= code.size()) return w.fail(code.back(), "code runs past the end of the kernel");
    report_.n_executed[at]++;
    step(w, code[at]);
  }
}

bool Block::all_at_barrier() {
  uint32_t n_waiting = 0;
  for (const Wave& w : waves_) n_waiting += w.state == State::at_barrier ? 1 : 0;
  if (n_waiting == waves_.size()) {
    for (Wave& w : waves_) w.state = State::running;
    lds_.barrier();
    if (stores_ != nullptr) Visibility::barrier(visibilities_);
    return true;
  }
  if (n_waiting != 0) failure_ = kernel_.name + ": a barrier that some waves of the block never reach";
  return false;
}

void Block::run(Grid block) {
  lds_.clear();
  for (Wave& w : waves_) begin(w, block);
  report_.n_waves += waves_.size();
  rng_.seed(launch_.seed ^ (uint64_t{block.z} << 40 | uint64_t{block.y} << 20 | block.x));
  do {
    for (std::vector<Wave*> running;;) {
      running.clear();
      for (Wave& w : waves_) {
        if (w.state == State::running) running.push_back(&w);
      }
      if (running.empty()) break;
      Wave& w = launch_.seed == 0 ? *running[0] : *running[rng_() % running.size()];
      advance(w, launch_.seed == 0 ? kMostInstructions : 1 + rng_() % 64);
      if (w.state == State::running && launch_.seed == 0) w.fail(kernel_.instructions[w.pc], "the wave does not end");
      if (w.state == State::failed) {
        failure_ = w.failure;
        return;
      }
    }
  } while (all_at_barrier());
  for (Wave& w : waves_) {
    report_.traffic += w.traffic;
    w.traffic = {};
  }
}

}  // namespace rocmforge::gpu::isa
