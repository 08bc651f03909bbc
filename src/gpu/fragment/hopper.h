#pragma once
// What NVIDIA's Hopper has beyond mma.sync: matrix instructions of four warps, bulk copies into shared memory that
// report to a barrier, and clusters of blocks that read each other's shared memory. For kernels of the CUDA module
// alone; code for other targets compiles to nothing.

#include <cuda_fp16.h>

#include "gpu/fragment/hopper_wgmma.h"
#include "gpu/runtime.h"

// A kernel that waits for its inputs itself, as RF_KERNEL_EARLY, with two blocks of n_threads per multiprocessor.
#define RF_HOPPER_KERNEL_EARLY(name, Args, n_threads) \
  extern "C" __global__ void __launch_bounds__(n_threads, 2) name(const __grid_constant__ Args args)
// The same with one block per multiprocessor.
#define RF_HOPPER_ALONE_EARLY(name, Args, n_threads) \
  extern "C" __global__ void __launch_bounds__(n_threads, 1) name(const __grid_constant__ Args args)

namespace rocmforge::gpu::RF_KERNELS {

RF_DEVICE uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// A barrier in shared memory, by address: a phase ends when the given number of threads have arrived and the announced
// bytes have been written.
namespace barrier {
RF_DEVICE void make(uint32_t at, uint32_t n_arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(n_arrivals));
}
RF_DEVICE void publish() {  // after the last make(), before a sync_block()
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}
RF_DEVICE void arrive(uint32_t at) {
  asm volatile("{.reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0];}" ::"r"(at) : "memory");
}
RF_DEVICE void arrive_expecting(uint32_t at, uint32_t n_bytes) {
  asm volatile("{.reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1;}" ::"r"(at), "r"(n_bytes)
               : "memory");
}
RF_DEVICE void wait(uint32_t at, uint32_t phase_parity) {
  asm volatile(
      "{.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;}" ::"r"(at),
      "r"(phase_parity)
      : "memory");
}
// An arrival counter beside a barrier: tells whether the caller is the last one, and then restarts.
RF_DEVICE void clear(uint32_t at) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(0) : "memory");
}
RF_DEVICE bool is_last(uint32_t at, uint32_t n) {
  uint32_t before;
  asm volatile("atom.acq_rel.cta.shared::cta.inc.u32 %0, [%1], %2;" : "=r"(before) : "r"(at), "r"(n - 1) : "memory");
  return before == n - 1;
}
}  // namespace barrier

RF_DEVICE uint32_t address_in(uint32_t at, uint32_t block) {  // the same address in another block of the cluster
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(block));
  return there;
}
namespace barrier {
RF_DEVICE void arrive_at(uint32_t at, uint32_t block) {  // arrives at another block's barrier
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address_in(at, block)) : "memory");
}
}  // namespace barrier

// Kernel arguments are fetched from memory in cache lines: each warp of a block prefetches some, so that all arrive at
// once.
template <uint32_t kWarps, class Args>
RF_DEVICE void touch(const Args& args) {
  constexpr uint32_t kLineBytes = 128;
  const auto* words = reinterpret_cast<const uint32_t*>(&args);
  RF_UNROLL
  for (uint32_t line = 0; line < (sizeof(Args) + kLineBytes - 1) / kLineBytes; line++) {
    if (wave() == line % kWarps) asm volatile("" ::"r"(words[line * (kLineBytes / 4)]));
  }
}

// Copies n_bytes (a multiple of 16) into this block's shared memory and reports them to the barrier.
RF_DEVICE void bulk_copy(uint32_t to, const void* from, uint32_t n_bytes, uint32_t barrier_at) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(n_bytes), "r"(barrier_at)
               : "memory");
}

// The same into every block of the cluster in the mask `blocks`, at the same address, reported to the same barrier of
// each.
RF_DEVICE void bulk_copy_to_all(uint32_t to, const void* from, uint32_t n_bytes, uint32_t barrier_at, uint32_t blocks) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], "
      "%4;" ::"r"(to),
      "l"(from), "r"(n_bytes), "r"(barrier_at), "h"(static_cast<uint16_t>(blocks))
      : "memory");
}

// Asynchronous copies of 16 bytes by single threads, grouped in commits.
RF_DEVICE void copy16_or_zeros(uint32_t to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
RF_DEVICE void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kLeft = 0>
RF_DEVICE void wait_for_copies() {  // until at most kLeft commits are pending
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}
RF_DEVICE void store_shared(uint32_t to, const Word4& words) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words.v[0]), "r"(words.v[1]), "r"(words.v[2]),
               "r"(words.v[3])
               : "memory");
}
RF_DEVICE void store_shared(uint32_t to, float v) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(v) : "memory");
}
RF_DEVICE float load_shared(uint32_t from) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(from) : "memory");
  return v;
}
// A barrier of a block's first kThreads threads. Returns whether any of them passed true.
template <uint32_t kThreads>
RF_DEVICE bool any_of_threads(bool says) {
  uint32_t any;
  asm volatile(
      "{.reg .pred mine, all; setp.ne.u32 mine, %1, 0;\n"
      "barrier.cta.red.or.pred all, 1, %2, mine;\n"
      "selp.u32 %0, 1, 0, all;}"
      : "=r"(any)
      : "r"(says ? 1 : 0), "n"(kThreads)
      : "memory");
  return any != 0;
}
// Makes this thread's writes to shared memory visible to the matrix unit, after a barrier.
RF_DEVICE void publish_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Two floats, given by their bits, rounded to halves and clamped to the largest finite half.
RF_DEVICE uint32_t halves_within(uint32_t first, uint32_t second) {
  uint32_t pair;
  asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;"
      : "=r"(pair)
      : "f"(__uint_as_float(second)), "f"(__uint_as_float(first)));
  return pair;
}

RF_DEVICE float power_of_two(float v) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(v));
  return out;
}

namespace wgmma {
RF_DEVICE void fence() {  // orders register writes before the next multiply
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
RF_DEVICE void commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kLeft>
RF_DEVICE void wait() {  // until at most kLeft commits are pending
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
// Matrix descriptor for sixteen columns of a panel: rows of 128 bytes, swizzled within 1024.
RF_DEVICE uint64_t panel(uint32_t at) {
  constexpr uint64_t kEightRows = 1024, kTurned128 = 1;
  return (at & 0x3FFFFu) >> 4 | uint64_t{1} << 16 | (kEightRows >> 4) << 32 | kTurned128 << 62;
}
// Descriptor for sixteen rows of such panels as a transposed operand, whose columns run along the rows; each further 64
// columns are a panel, panel_bytes after the last.
RF_DEVICE uint64_t turned_panel(uint32_t at, uint32_t panel_bytes) {
  constexpr uint64_t kEightRows = 1024, kTurned128 = 1;
  return (at & 0x3FFFFu) >> 4 | uint64_t{panel_bytes >> 4} << 16 | (kEightRows >> 4) << 32 | kTurned128 << 62;
}
// The same operand, n_bytes further on.
RF_DEVICE uint64_t further(uint64_t operand, uint32_t n_bytes) {
  const uint32_t low = static_cast<uint32_t>(operand) + (n_bytes >> 4);
  return operand >> 32 << 32 | low;
}
// Sixteen columns of rows of 32 bytes, unswizzled: eight rows' first halves, their second halves, then the next eight
// rows.
RF_DEVICE uint64_t plain(uint32_t at) {
  constexpr uint64_t kHalf = 128, kEightRows = 256;
  return (at & 0x3FFFFu) >> 4 | (kHalf >> 4) << 16 | (kEightRows >> 4) << 32;
}
// Sixteen columns of a tile as in kernels/tiles.h: rows of 64 bytes, swizzled within 512.
RF_DEVICE uint64_t tile(uint32_t at) {
  constexpr uint64_t kEightRows = 512, kTurned64 = 2;
  return (at & 0x3FFFFu) >> 4 | uint64_t{1} << 16 | (kEightRows >> 4) << 32 | kTurned64 << 62;
}
}  // namespace wgmma

namespace cluster {
RF_DEVICE void sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Reads this address in another block's shared memory.
RF_DEVICE float read(uint32_t at, uint32_t block) {
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address_in(at, block)) : "memory");
  return value;
}
}  // namespace cluster

}  // namespace rocmforge::gpu::RF_KERNELS
