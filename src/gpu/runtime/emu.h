#pragma once
// The kernel language (gpu/runtime.h) on a CPU: each thread of a block is a fiber (gpu/emu/block.h).
//
// Compiled once per wave size, and kernels that use fragments once per fragment kind; each copy is a namespace of its
// own:  -DRF_EMU_KERNELS=kernels_w32  -DRF_EMU_WAVE=32  -DRF_EMU_FILE="norm"  [-DRF_EMU_FRAGMENT=...]

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "gpu/emu/block.h"
#include "gpu/emu/registry.h"
#include "tensor/half.h"

#define RF_KERNELS RF_EMU_KERNELS
#define RF_DEVICE inline
#define RF_SHARED(T, name) \
  auto& name = *static_cast<std::type_identity_t<T>*>(::rocmforge::gpu::emu::shared_memory(sizeof(T)))
#define RF_DYNAMIC_SHARED(T, name) \
  auto* const name = static_cast<std::type_identity_t<T>*>(::rocmforge::gpu::emu::dynamic_shared_memory())
#define RF_UNROLL
#define RF_KERNEL_EARLY(name, Args, n_threads, ...)                         \
  static void name(const Args& args);                                       \
  static const ::rocmforge::gpu::emu::KernelEntry entry_of_##name(          \
      RF_EMU_FILE, #name, RF_EMU_VARIANT, n_threads, sizeof(Args),          \
      [](const void* bytes) { (name)(*static_cast<const Args*>(bytes)); }); \
  static void name([[maybe_unused]] const Args& args)

namespace rocmforge::gpu::RF_KERNELS {

inline constexpr uint32_t kWave = RF_EMU_WAVE;

RF_DEVICE uint32_t thread_index() {
  return emu::current->thread;
}
RF_DEVICE uint32_t block_x() {
  return emu::current->block.x;
}
RF_DEVICE uint32_t block_y() {
  return emu::current->block.y;
}
RF_DEVICE uint32_t block_z() {
  return emu::current->block.z;
}
RF_DEVICE void keep_order() {}
template <uint32_t kN>
RF_DEVICE void keep_here(float (&)[kN]) {}
RF_DEVICE void wait_for_inputs() {
  emu::wait_for_inputs();
}
RF_DEVICE void let_next_begin() {}
RF_DEVICE void sync_block(int line = __builtin_LINE()) {
  emu::wait_for_block(line);
}
RF_DEVICE void sync_shared(int line = __builtin_LINE()) {
  emu::wait_for_block(line);
}
template <class T>
RF_DEVICE T shuffle(T v, uint32_t from, int line = __builtin_LINE()) {
  static_assert(sizeof(T) == 4);
  return emu::exchange(v, from % kWave, line);
}
template <class T>
RF_DEVICE T shuffle_xor(T v, uint32_t mask, int line = __builtin_LINE()) {
  static_assert(sizeof(T) == 4);
  return emu::exchange(v, (emu::current->thread ^ mask) % kWave, line);
}
RF_DEVICE uint64_t ballot(bool p, int line = __builtin_LINE()) {
  return emu::ballot(p, line);
}
RF_DEVICE int dot4(int a, int b, int c) {
  for (int shift = 0; shift < 32; shift += 8) c += static_cast<int8_t>(a >> shift) * static_cast<int8_t>(b >> shift);
  return c;
}
RF_DEVICE uint32_t look_up_bytes(const uint32_t (&table)[4], uint32_t codes) {
  uint32_t out = 0;
  for (int shift = 0; shift < 32; shift += 8) {
    const uint32_t code = codes >> shift & 0xFu;
    out |= (table[code / 4] >> code % 4 * 8 & 0xFFu) << shift;
  }
  return out;
}
RF_DEVICE void load16_streaming(uint32_t* to, const void* from) {
  if (reinterpret_cast<uintptr_t>(from) % 16 != 0) emu::fail("a 16-byte load from memory that is not aligned so");
  std::memcpy(to, from, 16);
}
RF_DEVICE float widen(F16 h) {
  return to_float(h);
}
RF_DEVICE F16 narrow(float v) {
  return to_f16(v);
}
template <uint32_t kFirst>
RF_DEVICE uint32_t halves_of_bytes(uint32_t bytes) {
  const uint32_t two = bytes >> 8 * kFirst;
  return 0x64006400u | (two & 0xFFu) | (two & 0xFF00u) << 8;
}
RF_DEVICE uint32_t fma_halves(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t out = 0;
  for (uint32_t shift = 0; shift < 32; shift += 16) {
    const auto of = [&](uint32_t word) { return to_float(F16{static_cast<uint16_t>(word >> shift)}); };
    out |= static_cast<uint32_t>(to_f16(std::fma(of(a), of(b), of(c))).bits) << shift;
  }
  return out;
}
RF_DEVICE uint32_t add_halves(uint32_t a, uint32_t b) {
  return fma_halves(a, 0x3C003C00u, b);
}
RF_DEVICE float exp_f32(float v) {
  return std::exp(v);
}
RF_DEVICE float log_f32(float v) {
  return std::log(v);
}
RF_DEVICE float round_f32(float v) {
  return std::nearbyint(v);
}
RF_DEVICE float quotient_f32(float a, float b) {
  return a / b;
}
RF_DEVICE float fma_f32(float a, float b, float c) {
  return std::fma(a, b, c);
}
RF_DEVICE float sqrt_f32(float v) {
  return std::sqrt(v);
}
template <class T>
RF_DEVICE T atomic_add(T* to, T v) {
  T old, next;
  __atomic_load(to, &old, __ATOMIC_RELAXED);
  do next = old + v;
  while (!__atomic_compare_exchange(to, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}
RF_DEVICE bool is_last_to_arrive(uint32_t* counter, uint32_t n, uint32_t* shared) {
  sync_block();
  if (thread_index() == 0) *shared = __atomic_fetch_add(counter, 1u, __ATOMIC_ACQ_REL);
  sync_block();
  return *shared + 1 == n;
}

}  // namespace rocmforge::gpu::RF_KERNELS
