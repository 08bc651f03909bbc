// A block normalises a group of elements: a row, or one head. A thread issues all loads of a sweep before it uses the
// first, and a group that fits one sweep is read once.

#include "gpu/runtime.h"

#include "gpu/kernels/norm.h"
#include "gpu/kernels/quantize_lane.h"

namespace rocmforge::gpu::RF_KERNELS {

constexpr uint32_t kSweep = kNormThreads * kNormPerThread;

struct NormGroup {
  const NormArgs& args;
  uint64_t first;
  uint32_t first_weight;
  float v[kNormPerThread];  // of this sweep; zeros past the end

  RF_DEVICE explicit NormGroup(const NormArgs& a)
      : args(a),
        first((static_cast<uint64_t>(block_x()) * a.n_groups + block_y()) * a.group),
        first_weight(block_y() * a.weight_step) {}

  RF_DEVICE static uint32_t index(uint32_t base, uint32_t e) { return base + e * kNormThreads + thread_index(); }

  // On the first read of an element, adds the residual and stores the sum in `in`.
  RF_DEVICE void load(uint32_t base, bool again) {
    const bool adds = args.added != nullptr && !again;
    RF_UNROLL
    for (uint32_t e = 0; e < kNormPerThread; e++) {
      const uint32_t i = index(base, e);
      v[e] = i < args.group ? args.in[first + i] : 0.0f;
    }
    if (!adds) return;
    RF_UNROLL
    for (uint32_t e = 0; e < kNormPerThread; e++) {
      const uint32_t i = index(base, e);
      if (i < args.group) v[e] += args.added_scale * args.added[first + i];
    }
    RF_UNROLL
    for (uint32_t e = 0; e < kNormPerThread; e++) {
      const uint32_t i = index(base, e);
      if (i < args.group) const_cast<float*>(args.in)[first + i] = v[e];
    }
  }

  template <class F>
  RF_DEVICE float sum(float* partial, bool first_time, F f) {
    float total = 0;
    for (uint32_t base = 0; base < args.group; base += kSweep) {
      if (first_time || args.group > kSweep) load(base, !first_time);
      RF_UNROLL
      for (uint32_t e = 0; e < kNormPerThread; e++) {
        if (index(base, e) < args.group) total += f(v[e]);
      }
    }
    return block_sum<kNormThreads>(total, partial);
  }

  RF_DEVICE void store(float mean, float scale) {
    for (uint32_t base = 0; base < args.group; base += kSweep) {
      if (args.group > kSweep) load(base, true);
      float weights[kNormPerThread];
      RF_UNROLL
      for (uint32_t e = 0; e < kNormPerThread; e++) {
        const uint32_t i = index(base, e);
        weights[e] = args.weight == nullptr ? 1.0f : i < args.group ? args.weight[first_weight + i] : 0.0f;
      }
      RF_UNROLL
      for (uint32_t e = 0; e < kNormPerThread; e++) {
        const uint32_t i = index(base, e);
        const bool inside = i < args.group;
        float value = (v[e] - mean) * scale * weights[e];
        if (inside) {
          if (args.bias != nullptr) value += args.bias[first_weight + i];
          args.out[first + i] = value;
        }
        if (args.q != nullptr && base + e * kNormThreads < args.group) {
          quantize_lane(args.q, args.scales, first + i, inside ? value : 0.0f, inside);
        }
      }
    }
  }
};

RF_KERNEL(rms_norm, NormArgs, kNormThreads) {
  RF_SHARED(float[kNormThreads / 32], partial);
  NormGroup group(args);
  const float squares = group.sum(partial, true, [](float v) { return v * v; });
  group.store(0.0f, 1.0f / sqrt_f32(squares / static_cast<float>(args.group) + args.epsilon));
}

RF_KERNEL(layer_norm, NormArgs, kNormThreads) {
  RF_SHARED(float[kNormThreads / 32], partial);
  NormGroup group(args);
  const auto n = static_cast<float>(args.group);
  const float mean = group.sum(partial, true, [](float v) { return v; }) / n;
  const float variance = group.sum(partial, false, [=](float v) { return (v - mean) * (v - mean); }) / n;
  group.store(mean, 1.0f / sqrt_f32(variance + args.epsilon));
}

}  // namespace rocmforge::gpu::RF_KERNELS
