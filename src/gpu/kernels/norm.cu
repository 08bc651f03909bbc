// A block normalises a group of elements: a row, or a head of one.

#include "gpu/runtime.h"

#include "gpu/kernels/norm.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_DEVICE uint64_t first_element(const NormArgs& args) {
  return (static_cast<uint64_t>(block_x()) * args.n_groups + block_y()) * args.group;
}

RF_DEVICE void scale_group(const NormArgs& args, float mean, float scale) {
  const uint64_t first = first_element(args);
  const uint32_t first_weight = block_y() * args.weight_step;
  for (uint32_t i = thread_index(); i < args.group; i += kNormThreads) {
    const float v = (args.in[first + i] - mean) * scale * args.weight[first_weight + i];
    args.out[first + i] = v + (args.bias != nullptr ? args.bias[first_weight + i] : 0.0f);
  }
}

RF_KERNEL(rms_norm, NormArgs, kNormThreads) {
  RF_SHARED(float[kNormThreads / 32], partial);
  const float* in = args.in + first_element(args);
  float squares = 0;
  for (uint32_t i = thread_index(); i < args.group; i += kNormThreads) squares += in[i] * in[i];
  const float mean = block_sum<kNormThreads>(squares, partial) / static_cast<float>(args.group);
  scale_group(args, 0.0f, 1.0f / sqrt_f32(mean + args.epsilon));
}

RF_KERNEL(layer_norm, NormArgs, kNormThreads) {
  RF_SHARED(float[kNormThreads / 32], partial);
  const float* in = args.in + first_element(args);
  float sum = 0;
  for (uint32_t i = thread_index(); i < args.group; i += kNormThreads) sum += in[i];
  const float mean = block_sum<kNormThreads>(sum, partial) / static_cast<float>(args.group);
  float squares = 0;
  for (uint32_t i = thread_index(); i < args.group; i += kNormThreads) squares += (in[i] - mean) * (in[i] - mean);
  const float variance = block_sum<kNormThreads>(squares, partial) / static_cast<float>(args.group);
  scale_group(args, mean, 1.0f / sqrt_f32(variance + args.epsilon));
}

}  // namespace rocmforge::gpu::RF_KERNELS
