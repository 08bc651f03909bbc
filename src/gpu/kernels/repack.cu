// Moves the fields of blocks to their planes, byte by byte: neighbouring threads write neighbouring bytes of a plane.

#include "gpu/runtime.h"

#include "gpu/kernels/repack.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_KERNEL(repack, RepackArgs, kRepackThreads) {
  const uint64_t first = static_cast<uint64_t>(block_x()) * kRepackBlocks;
  const uint64_t left = args.n_blocks - first;
  const uint32_t n = left < kRepackBlocks ? static_cast<uint32_t>(left) : kRepackBlocks;
  const uint8_t* from = args.blocks + first * args.table.block_bytes;
  for (uint32_t p = 0; p < args.table.n_planes; p++) {
    const PlaneField field = args.table.fields[p];
    uint8_t* to = args.planes[p] + first * field.n_bytes;
    for (uint32_t i = thread_index(); i < n * field.n_bytes; i += kRepackThreads) {
      to[i] = from[i / field.n_bytes * args.table.block_bytes + field.offset + i % field.n_bytes];
    }
  }
}

}  // namespace rocmforge::gpu::RF_KERNELS
