#pragma once
// The kernel language (gpu/runtime.h) on NVIDIA GPUs, by nvcc.

#include <cstdint>
#include <type_traits>

#include <cuda_fp16.h>

#include "tensor/half.h"

#define RF_KERNELS kernels
#define RF_DEVICE __device__ __forceinline__
#define RF_SHARED(T, name) __shared__ std::type_identity_t<T> name
#define RF_DYNAMIC_SHARED(T, name) \
  std::type_identity_t<T>* const name = reinterpret_cast<std::type_identity_t<T>*>(dynamic_shared)
#define RF_UNROLL _Pragma("unroll")
#define RF_KERNEL_EARLY(name, Args, ...) \
  extern "C" __global__ void __launch_bounds__(__VA_ARGS__) name(const __grid_constant__ Args args)

namespace rocmforge::gpu::RF_KERNELS {

inline constexpr uint32_t kWave = 32;

extern __shared__ __align__(128) unsigned char dynamic_shared[];

RF_DEVICE uint32_t thread_index() {
  return threadIdx.x;
}
RF_DEVICE uint32_t block_x() {
  return blockIdx.x;
}
RF_DEVICE uint32_t block_y() {
  return blockIdx.y;
}
RF_DEVICE uint32_t block_z() {
  return blockIdx.z;
}
RF_DEVICE void keep_order() {}
template <uint32_t kN>
RF_DEVICE void keep_here(float (&)[kN]) {}
RF_DEVICE void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
RF_DEVICE void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
RF_DEVICE void sync_block() {
  __syncthreads();
}
RF_DEVICE void sync_shared() {
  __syncthreads();
}
template <class T>
RF_DEVICE T shuffle(T v, uint32_t from) {
  return __shfl_sync(~0u, v, static_cast<int>(from));
}
template <class T>
RF_DEVICE T shuffle_xor(T v, uint32_t mask) {
  return __shfl_xor_sync(~0u, v, static_cast<int>(mask));
}
RF_DEVICE uint64_t ballot(bool p) {
  return __ballot_sync(~0u, p);
}
RF_DEVICE int dot4(int a, int b, int c) {
  return __dp4a(a, b, c);
}
// Of a selector of __byte_perm, three bits of a nibble number one of eight bytes; the fourth fills the result's byte
// with the numbered byte's sign.
RF_DEVICE uint32_t look_up_bytes(const uint32_t (&table)[4], uint32_t codes) {
  const uint32_t low_bits = codes & 0x07070707u, pairs = low_bits | low_bits >> 4;
  const uint32_t select = __byte_perm(pairs, 0, 0x4420);
  const uint32_t low = __byte_perm(table[0], table[1], select), high = __byte_perm(table[2], table[3], select);
  const uint32_t is_high = __byte_perm(codes << 4, 0, 0xBA98);
  return low ^ ((low ^ high) & is_high);
}
RF_DEVICE void load16_streaming(uint32_t* to, const void* from) {
  const uint4 v = __ldcs(static_cast<const uint4*>(from));
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
RF_DEVICE float widen(F16 h) {
  return __half2float(__ushort_as_half(h.bits));
}
RF_DEVICE F16 narrow(float v) {
  return {__half_as_ushort(__float2half_rn(v))};
}
RF_DEVICE uint32_t two_halves_of(float first, float second) {
  const __half2 two = __floats2half2_rn(first, second);
  return *reinterpret_cast<const uint32_t*>(&two);
}
template <uint32_t kFirst>
RF_DEVICE uint32_t halves_of_bytes(uint32_t bytes) {
  return __byte_perm(bytes, 0x64646464u, kFirst == 0 ? 0x4140 : 0x4342);
}
RF_DEVICE uint32_t add_halves(uint32_t a, uint32_t b) {
  uint32_t sum;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
}
RF_DEVICE uint32_t fma_halves(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t sum;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}
RF_DEVICE float exp_f32(float v) {
  return expf(v);
}
RF_DEVICE float log_f32(float v) {
  return logf(v);
}
RF_DEVICE float round_f32(float v) {
  return rintf(v);
}
RF_DEVICE float quotient_f32(float a, float b) {
  return __fdividef(a, b);
}
RF_DEVICE float fma_f32(float a, float b, float c) {
  return fmaf(a, b, c);
}
RF_DEVICE float sqrt_f32(float v) {
  return sqrtf(v);
}
inline constexpr uint32_t kCopyBuffers = 3;
template <uint32_t kWords>
struct CopyAhead {
  RF_DEVICE void begin(uint32_t, void* to, const void* from) {
    const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  }
  RF_DEVICE void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  RF_DEVICE void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(kCopyBuffers - 2) : "memory"); }
  RF_DEVICE void land(uint32_t, void*) {}
};
template <class T>
RF_DEVICE T atomic_add(T* to, T v) {
  return atomicAdd(to, v);
}
RF_DEVICE bool is_last_to_arrive(uint32_t* counter, uint32_t n, uint32_t* shared) {
  sync_block();
  if (thread_index() == 0) {
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(*shared) : "l"(counter) : "memory");
  }
  sync_block();
  return *shared + 1 == n;
}

}  // namespace rocmforge::gpu::RF_KERNELS
