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
#define RF_KERNEL_EARLY(name, Args, n_threads) \
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
RF_DEVICE void wait_for_inputs() {}
RF_DEVICE void let_next_begin() {}
RF_DEVICE void sync_block() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
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
RF_DEVICE void load16_streaming(uint32_t* to, const void* from) {
  typedef uint32_t Vector __attribute__((ext_vector_type(4)));
  const Vector v = __builtin_nontemporal_load(static_cast<const Vector*>(from));
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
RF_DEVICE float widen(F16 h) {
  return static_cast<float>(__builtin_bit_cast(_Float16, h.bits));
}
RF_DEVICE F16 narrow(float v) {
  return {__builtin_bit_cast(uint16_t, static_cast<_Float16>(v))};
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
RF_DEVICE uint32_t arrive(uint32_t* counter, uint32_t* shared) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
  sync_block();
  if (thread_index() == 0) *shared = atomic_add(counter, 1u);
  sync_block();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
  return *shared;
}

}  // namespace rocmforge::gpu::RF_KERNELS
