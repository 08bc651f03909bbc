#pragma once

#include <cstdint>

namespace rocmforge::gpu {

struct RulesArgs {
  float* out;
  const float* in;
};
inline constexpr uint32_t kRulesThreads = 256;

}  // namespace rocmforge::gpu
