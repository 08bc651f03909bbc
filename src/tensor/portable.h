#pragma once
// Macros that let one header serve the host compiler, nvcc and HIP's clang.

#include <cstdint>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define RF_HOST_DEVICE __host__ __device__
#else
#define RF_HOST_DEVICE
#endif
