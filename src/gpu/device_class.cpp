#include "gpu/device_class.h"

#include <algorithm>

namespace rocmforge::gpu {
namespace {

constexpr uint32_t kKiB = 1024;
constexpr TileOrder kByRow = TileOrder::by_row, kByColumn = TileOrder::by_column;

// Target: wave, kernels of Hopper, mma.sync, matrix instructions, order of packed tiles. The emulation is `emu`: its
// fragments are those of mma.sync.
constexpr DeviceClass kClasses[] = {
    {"hopper", "NVIDIA H200", {32, 1, 1, 1, kByRow}, 132, 227 * kKiB},
    {"ampere", "NVIDIA A100", {32, 0, 1, 1, kByRow}, 108, 163 * kKiB},
    {"ada", "NVIDIA L40S", {32, 0, 1, 1, kByRow}, 142, 99 * kKiB},
    {"cdna2", "AMD Instinct MI210", {64, 0, 0, 1, kByColumn}, 104, 64 * kKiB},
    {"cdna3", "AMD Instinct MI300X", {64, 0, 0, 1, kByColumn}, 304, 64 * kKiB},
    {"rdna2", "AMD Radeon RX 6900 XT", {32, 0, 0, 0, kByColumn}, 80, 64 * kKiB},
    {"rdna3", "AMD Radeon RX 7900 XTX", {32, 0, 0, 1, kByColumn}, 96, 64 * kKiB},
    {"rdna4", "AMD Radeon RX 9070 XT", {32, 0, 0, 1, kByColumn}, 64, 64 * kKiB},
    {"emulation", "emulated GPU", {32, 0, 1, 1, kByRow}, 0, 64 * kKiB},
};

}  // namespace

std::span<const DeviceClass> device_classes() {
  return kClasses;
}

const DeviceClass* find_device_class(std::string_view name) {
  const auto* const at =
      std::ranges::find(kClasses, name, [](const DeviceClass& c) { return std::string_view(c.name); });
  return at != std::end(kClasses) ? at : nullptr;
}

}  // namespace rocmforge::gpu
