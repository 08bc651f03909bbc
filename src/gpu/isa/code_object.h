#pragma once
// A code object of clang's AMDGPU backend: its segments in memory, its kernels' descriptors and decoded instructions.
//
// Threads: kernel() may be called from any thread; what it gives stays as long as the code object.

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "gpu/isa/instruction.h"

namespace rocmforge::gpu::isa {

// What differs between the targets for those who run code.
struct Target {
  std::string name;               // gfx1100
  uint32_t generation = 0;        // 9: CDNA, 10, 11 and 12: RDNA
  bool flushes_products = false;  // matrix instructions take and give no denormals
  bool has_several_l2 = false;    // a part of the device each
};
const Target* find_target(const std::string& name);  // null: not known

// The 64 bytes at NAME.kd.
struct Descriptor {
  uint32_t lds_bytes = 0;      // without the dynamic part of a launch
  uint32_t private_bytes = 0;  // scratch of a lane
  uint32_t kernarg_bytes = 0;
  int64_t entry = 0;  // from the descriptor's own address
  uint32_t rsrc1 = 0, rsrc2 = 0, rsrc3 = 0;
  uint16_t properties = 0;  // which user SGPRs there are; waves of 32

  uint32_t n_user_scalars() const { return rsrc2 >> 1 & 31; }
  bool has_scratch_offset() const { return (rsrc2 & 1) != 0; }
  bool has_block_id(uint32_t axis) const { return (rsrc2 >> (7 + axis) & 1) != 0; }
  uint32_t last_thread_axis() const { return rsrc2 >> 11 & 3; }  // whose number the kernel asks for
  bool is_wave32() const { return (properties >> 10 & 1) != 0; }
  bool is_spread_over_units() const { return (rsrc1 >> 29 & 1) != 0; }  // of gfx10 and later: two with a cache each
  uint8_t mode() const { return static_cast<uint8_t>(rsrc1 >> 12); }    // see Wave::mode
};

struct Kernel {
  std::string name;
  Descriptor descriptor;
  Target target;
  const std::byte* image = nullptr;  // of the code object
  size_t image_bytes = 0;
  std::vector<Instruction> instructions;  // from the kernel's first; the last ones pad it
  std::string hazard;                     // the first that was found, see hazards.h; empty: none

  uint32_t wave() const { return descriptor.is_wave32() ? 32 : 64; }
  uint32_t n_vector_registers() const;  // that a wave is given; with accumulation registers
};

class CodeObject {
 public:
  // bytes: an ELF file, or clang's bundle of some, of which `target` ("gfx1100") is taken.
  static Result<std::unique_ptr<CodeObject>> load(std::span<const std::byte> bytes, const std::string& target);

  const Target& target() const { return target_; }
  std::vector<std::string> kernel_names() const;
  // Disassembled the first time it is asked for, by llvm-objdump (ROCMFORGE_OBJDUMP, or llvm-objdump-19).
  Result<const Kernel*> kernel(const std::string& name);
  // All of them at once.
  Result<std::vector<const Kernel*>> all_kernels();

 private:
  Result<void> load_elf();
  Result<Descriptor> descriptor(const std::string& name) const;
  Result<std::vector<const Kernel*>> decode(const std::vector<std::string>& names);

  Target target_;
  std::vector<std::byte> elf_;
  std::vector<std::byte> image_;  // segments at their addresses
  std::map<std::string, uint64_t> symbols_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Kernel>> kernels_;
};

// The part of a bundle that is for this target; the bytes themselves when they are no bundle.
Result<std::span<const std::byte>> part_of_bundle(std::span<const std::byte> bytes, const std::string& target);

// How many bytes a bundle whose start is known has.
Result<size_t> bundle_bytes(const std::byte* bundle);

bool has_disassembler();

}  // namespace rocmforge::gpu::isa
