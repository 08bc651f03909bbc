#pragma once
// The kernel language (gpu/runtime.h) on AMD GPUs. It needs only clang's builtins: neither HIP's headers nor its device
// libraries are needed to compile, and any ROCm from 5 on can load the result.
//
//   clang++ -x hip --offload-device-only -nogpuinc -nogpulib --offload-arch=gfx1100 ...

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))

#include <cstdint>
#include <type_traits>

#include "tensor/half.h"

#define RF_KERNELS kernels
#define RF_DEVICE __device__ inline __attribute__((always_inline))
#define RF_SHARED(T, name) __attribute__((shared)) std::type_identity_t<T> name
#define RF_DYNAMIC_SHARED(T, name) \
  std::type_identity_t<T>* const name = reinterpret_cast<std::type_identity_t<T>*>(dynamic_shared)
#define RF_UNROLL _Pragma("unroll")
#define RF_KERNEL_EARLY(name, Args, n_threads, ...) \
  extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size(n_threads, n_threads))) name(const Args args)

namespace rocmforge::gpu::RF_KERNELS {

#if defined(__GFX9__)
inline constexpr uint32_t kWave = 64;
#else
inline constexpr uint32_t kWave = 32;
#endif

extern __attribute__((shared, aligned(128))) unsigned char dynamic_shared[];

RF_DEVICE uint32_t thread_index() {
  return __builtin_amdgcn_workitem_id_x();
}
RF_DEVICE uint32_t block_x() {
  return __builtin_amdgcn_workgroup_id_x();
}
RF_DEVICE uint32_t block_y() {
  return __builtin_amdgcn_workgroup_id_y();
}
RF_DEVICE uint32_t block_z() {
  return __builtin_amdgcn_workgroup_id_z();
}
RF_DEVICE void keep_order() {
  __builtin_amdgcn_sched_barrier(0);
}
// Without it, values that are used after a branch are computed there, and what they are made of takes registers.
template <uint32_t kN>
RF_DEVICE void keep_here(float (&v)[kN]) {
  typedef float Vector __attribute__((ext_vector_type(kN)));
  Vector all;
  for (uint32_t i = 0; i < kN; i++) all[i] = v[i];
  asm volatile("" : "+v"(all));
  for (uint32_t i = 0; i < kN; i++) v[i] = all[i];
}
RF_DEVICE void wait_for_inputs() {}
RF_DEVICE void let_next_begin() {}
RF_DEVICE void sync_block() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
// With fences of shared memory alone the block's vector cache keeps its lines, and stores to global memory stay under
// way.
RF_DEVICE void sync_shared() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}
RF_DEVICE uint32_t lane_of_wave() {
  const uint32_t low = __builtin_amdgcn_mbcnt_lo(~0u, 0u);
  return kWave == 32 ? low : __builtin_amdgcn_mbcnt_hi(~0u, low);
}
template <class T>
RF_DEVICE T shuffle(T v, uint32_t from) {
  static_assert(sizeof(T) == 4);
  const int bits = __builtin_amdgcn_ds_bpermute(static_cast<int>(from * 4), __builtin_bit_cast(int, v));
  return __builtin_bit_cast(T, bits);
}
template <class T>
RF_DEVICE T shuffle_xor(T v, uint32_t mask) {
  return shuffle(v, lane_of_wave() ^ mask);
}
RF_DEVICE uint64_t ballot(bool p) {
#if defined(__GFX9__)
  return __builtin_amdgcn_ballot_w64(p);
#else
  return __builtin_amdgcn_ballot_w32(p);
#endif
}
RF_DEVICE int dot4(int a, int b, int c) {
#if defined(__GFX11__) || defined(__GFX12__)
  return __builtin_amdgcn_sudot4(true, a, true, b, c, false);
#else
  return __builtin_amdgcn_sdot4(a, b, c, false);
#endif
}
// v_perm_b32 selects four of eight bytes by the bytes of its last operand: 0 .. 3 of the second operand, 4 .. 7 of the
// first.
RF_DEVICE uint32_t look_up_bytes(const uint32_t (&table)[4], uint32_t codes) {
  const uint32_t select = codes & 0x07070707u;
  const uint32_t low = __builtin_amdgcn_perm(table[1], table[0], select);
  const uint32_t high = __builtin_amdgcn_perm(table[3], table[2], select);
  return __builtin_amdgcn_perm(high, low, (codes >> 1 & 0x04040404u) | 0x03020100u);
}
// Only a card can tell which is faster: loads that keep no line in the cache, or plain ones (docs/amd.md).
#if !defined(RF_STREAMED_LOADS)
#define RF_STREAMED_LOADS 1
#endif
RF_DEVICE void load16_streaming(uint32_t* to, const void* from) {
  typedef uint32_t Vector __attribute__((ext_vector_type(4)));
  const auto* vector = static_cast<const Vector*>(from);
  const Vector v = RF_STREAMED_LOADS ? __builtin_nontemporal_load(vector) : *vector;
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
RF_DEVICE float widen(F16 h) {
  return static_cast<float>(__builtin_bit_cast(_Float16, h.bits));
}
RF_DEVICE F16 narrow(float v) {
  return {__builtin_bit_cast(uint16_t, static_cast<_Float16>(v))};
}
typedef _Float16 TwoHalves __attribute__((ext_vector_type(2)));
// Of v_perm_b32's selector, 0 .. 3 are bytes of the second operand, 4 .. 7 of the first.
template <uint32_t kFirst>
RF_DEVICE uint32_t halves_of_bytes(uint32_t bytes) {
  return __builtin_amdgcn_perm(0x64646464u, bytes, kFirst == 0 ? 0x04010400u : 0x04030402u);
}
RF_DEVICE uint32_t add_halves(uint32_t a, uint32_t b) {
  return __builtin_bit_cast(uint32_t, __builtin_bit_cast(TwoHalves, a) + __builtin_bit_cast(TwoHalves, b));
}
RF_DEVICE uint32_t fma_halves(uint32_t a, uint32_t b, uint32_t c) {
  return __builtin_bit_cast(
      uint32_t, __builtin_elementwise_fma(__builtin_bit_cast(TwoHalves, a), __builtin_bit_cast(TwoHalves, b),
                                          __builtin_bit_cast(TwoHalves, c)));
}
RF_DEVICE float exp_f32(float v) {
  return __builtin_expf(v);
}
RF_DEVICE float log_f32(float v) {
  return __builtin_logf(v);
}
RF_DEVICE float round_f32(float v) {
  return __builtin_rintf(v);
}
RF_DEVICE float quotient_f32(float a, float b) {
  return a * __builtin_amdgcn_rcpf(b);
}
RF_DEVICE float fma_f32(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
RF_DEVICE float sqrt_f32(float v) {
  return __builtin_sqrtf(v);
}
template <class T>
RF_DEVICE T atomic_add(T* to, T v) {
  return __hip_atomic_fetch_add(to, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
// Until the wave's stores have reached the L2 cache. A release of the workgroup does not wait for them on gfx9, whose
// blocks have one vector cache.
RF_DEVICE void finish_stores() {
#if defined(__GFX12__)
  asm volatile("s_wait_storecnt 0x0" ::: "memory");
#elif defined(__GFX9__)
  asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
#else
  asm volatile("s_waitcnt_vscnt null, 0x0" ::: "memory");
#endif
}
// L2 is written back by one wave of the block, after the stores of all; the last block alone invalidates its caches.
// The write-back is waited for by name: clang 19 leaves the wait of a release out where it believes nothing to be under
// way (attend_any_f32_512 on gfx942).
RF_DEVICE bool is_last_to_arrive(uint32_t* counter, uint32_t n, uint32_t* shared) {
  finish_stores();
  sync_block();
  if (thread_index() == 0) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
    finish_stores();
    *shared = atomic_add(counter, 1u);
  }
  sync_shared();
  if (*shared + 1 != n) return false;
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
  return true;
}

}  // namespace rocmforge::gpu::RF_KERNELS
