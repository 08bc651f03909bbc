// A block normalises a row.

#include "gpu/runtime.h"

#include "gpu/kernels/norm.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_DEVICE void scale_row(const NormArgs& args, float mean, float scale) {
  const uint64_t row = static_cast<uint64_t>(block_x()) * args.width;
  for (uint32_t i = thread_index(); i < args.width; i += kNormThreads) {
    const float v = (args.in[row + i] - mean) * scale * args.weight[i];
    args.out[row + i] = v + (args.bias != nullptr ? args.bias[i] : 0.0f);
  }
}

RF_KERNEL(rms_norm, NormArgs, kNormThreads) {
  RF_SHARED(float[kNormThreads / 32], partial);
  const float* in = args.in + static_cast<uint64_t>(block_x()) * args.width;
  float squares = 0;
  for (uint32_t i = thread_index(); i < args.width; i += kNormThreads) squares += in[i] * in[i];
  const float mean = block_sum<kNormThreads>(squares, partial) / static_cast<float>(args.width);
  scale_row(args, 0.0f, 1.0f / sqrt_f32(mean + args.epsilon));
}

RF_KERNEL(layer_norm, NormArgs, kNormThreads) {
  RF_SHARED(float[kNormThreads / 32], partial);
  const float* in = args.in + static_cast<uint64_t>(block_x()) * args.width;
  float sum = 0;
  for (uint32_t i = thread_index(); i < args.width; i += kNormThreads) sum += in[i];
  const float mean = block_sum<kNormThreads>(sum, partial) / static_cast<float>(args.width);
  float squares = 0;
  for (uint32_t i = thread_index(); i < args.width; i += kNormThreads) squares += (in[i] - mean) * (in[i] - mean);
  const float variance = block_sum<kNormThreads>(squares, partial) / static_cast<float>(args.width);
  scale_row(args, mean, 1.0f / sqrt_f32(variance + args.epsilon));
}

}  // namespace rocmforge::gpu::RF_KERNELS
