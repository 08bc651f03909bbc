#pragma once
// The kernels compiled into the emulation, found as in a device's code object: by file and name.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gpu/emu/block.h"

namespace rocmforge::gpu::emu {

// What a copy of a kernel was compiled for. Files that use no fragments have `any`.
enum class FragmentKind : uint8_t { any, mma, gfx11, gfx12, mfma, none };

struct Variant {
  uint32_t wave = 32;
  FragmentKind fragment = FragmentKind::any;
  friend bool operator==(const Variant&, const Variant&) = default;
};

// One per kernel and variant, made before main by RF_KERNEL; they form a list.
struct KernelEntry {
  KernelEntry(std::string_view file, std::string_view name, Variant variant, uint32_t n_threads, size_t args_bytes,
              KernelBody body);

  std::string_view file;
  std::string_view name;
  Variant variant;
  uint32_t n_threads;
  size_t args_bytes;
  KernelBody body;
  const KernelEntry* next;
};

// The kernel as compiled for a device of this kind; null if there is none. An empty file name matches any file.
const KernelEntry* find_kernel(std::string_view file, std::string_view name, Variant device);
const KernelEntry* first_kernel();

}  // namespace rocmforge::gpu::emu

#if defined(RF_EMU_WAVE)
#define RF_EMU_VARIANT                                                \
  ::rocmforge::gpu::emu::Variant {                                    \
    RF_EMU_WAVE, ::rocmforge::gpu::emu::FragmentKind::RF_EMU_FRAGMENT \
  }
#endif
