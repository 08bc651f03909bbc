// A block normalises a group of elements: a row, or one head. A thread issues all loads of a sweep before it uses the
// first, and a group that fits one sweep is read once.

#include "gpu/runtime.h"

#include "gpu/kernels/activation.h"
#include "gpu/kernels/norm.h"
#include "gpu/kernels/quantize_lane.h"

namespace rocmforge::gpu::RF_KERNELS {

template <uint32_t kThreads, uint32_t kPerThread>
struct NormGroup {
  static constexpr uint32_t kSweep = kThreads * kPerThread;
  const NormArgs& args;
  uint64_t first;
  uint32_t first_weight;
  float v[kPerThread];  // of this sweep; zeros past the end

  RF_DEVICE explicit NormGroup(const NormArgs& a)
      : args(a),
        first((static_cast<uint64_t>(block_x()) * a.n_groups + block_y()) * a.group),
        first_weight(block_y() * a.weight_step) {}

  RF_DEVICE static uint32_t index(uint32_t base, uint32_t e) { return base + e * kThreads + thread_index(); }

  RF_DEVICE void multiply_by_gate(uint32_t base) {
    RF_UNROLL
    for (uint32_t e = 0; e < kPerThread; e++) {
      const uint32_t i = index(base, e);
      if (i < args.group) v[e] = silu_times(args.gate[first + i], v[e]);
    }
  }

  // On the first read of an element, adds the residual and stores the sum in `in`.
  RF_DEVICE void load(uint32_t base, bool again) {
    const bool adds = args.added != nullptr && !again;
    RF_UNROLL
    for (uint32_t e = 0; e < kPerThread; e++) {
      const uint32_t i = index(base, e);
      v[e] = i < args.group ? args.in[first + i] : 0.0f;
    }
    if (args.gate != nullptr && args.gate_comes_first != 0) multiply_by_gate(base);
    if (!adds) return;
    RF_UNROLL
    for (uint32_t e = 0; e < kPerThread; e++) {
      const uint32_t i = index(base, e);
      if (i < args.group) v[e] += args.added_scale * args.added[first + i];
    }
    RF_UNROLL
    for (uint32_t e = 0; e < kPerThread; e++) {
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
      for (uint32_t e = 0; e < kPerThread; e++) {
        if (index(base, e) < args.group) total += f(v[e]);
      }
    }
    return block_sum<kThreads>(total, partial);
  }

  RF_DEVICE void store(float mean, float scale) {
    for (uint32_t base = 0; base < args.group; base += kSweep) {
      if (args.group > kSweep) load(base, true);
      float weights[kPerThread];
      RF_UNROLL
      for (uint32_t e = 0; e < kPerThread; e++) {
        const uint32_t i = index(base, e);
        weights[e] = args.weight == nullptr ? 1.0f : i < args.group ? args.weight[first_weight + i] : 0.0f;
      }
      RF_UNROLL
      for (uint32_t e = 0; e < kPerThread; e++) {
        const uint32_t i = index(base, e);
        const bool inside = i < args.group;
        float value = (v[e] - mean) * scale * weights[e];
        if (inside) {
          if (args.bias != nullptr) value += args.bias[first_weight + i];
          if (args.gate != nullptr && args.gate_comes_first == 0) value = silu_times(args.gate[first + i], value);
          args.out[first + i] = value;
        }
        if (args.q != nullptr && base + e * kThreads < args.group) {
          quantize_lane(args.q, args.scales, first + i, inside ? value : 0.0f, inside);
        }
      }
    }
  }
};

template <uint32_t kThreads, uint32_t kPerThread>
RF_DEVICE void rms_norm_of(const NormArgs& args) {
  RF_SHARED(float[kThreads / 32], partial);
  NormGroup<kThreads, kPerThread> group(args);
  const float squares = group.sum(partial, true, [](float v) { return v * v; });
  group.store(0.0f, 1.0f / sqrt_f32(squares / static_cast<float>(args.group) + args.epsilon));
}

template <uint32_t kThreads, uint32_t kPerThread>
RF_DEVICE void layer_norm_of(const NormArgs& args) {
  RF_SHARED(float[kThreads / 32], partial);
  NormGroup<kThreads, kPerThread> group(args);
  const auto n = static_cast<float>(args.group);
  const float mean = group.sum(partial, true, [](float v) { return v; }) / n;
  const float variance = group.sum(partial, false, [=](float v) { return (v - mean) * (v - mean); }) / n;
  group.store(mean, 1.0f / sqrt_f32(variance + args.epsilon));
}

constexpr uint32_t kWidePerThread = 4;

RF_KERNEL(rms_norm, NormArgs, kNormThreads) {
  rms_norm_of<kNormThreads, kNormPerThread>(args);
}
RF_KERNEL(rms_norm_wide, NormArgs, kWideNormThreads) {
  rms_norm_of<kWideNormThreads, kWidePerThread>(args);
}
RF_KERNEL(layer_norm, NormArgs, kNormThreads) {
  layer_norm_of<kNormThreads, kNormPerThread>(args);
}
RF_KERNEL(layer_norm_wide, NormArgs, kWideNormThreads) {
  layer_norm_of<kWideNormThreads, kWidePerThread>(args);
}

// A group of at most kMaxNormedHead elements, normalised by one wave.
struct HeadNorm {
  static constexpr uint32_t kPerLane = kMaxNormedHead / kWave;
  const NormArgs& args;
  uint64_t group = static_cast<uint64_t>(block_x()) * (kNormThreads / kWave) + wave();
  uint32_t first_weight = static_cast<uint32_t>(group % args.n_groups) * args.weight_step;
  float v[kPerLane] = {};

  RF_DEVICE explicit HeadNorm(const NormArgs& a) : args(a) {
    each([&](uint32_t e, uint32_t i) { v[e] = args.in[group * args.group + i]; });
    if (args.gate == nullptr || args.gate_comes_first == 0) return;
    each([&](uint32_t e, uint32_t i) { v[e] = silu_times(args.gate[group * args.group + i], v[e]); });
  }
  RF_DEVICE static bool is_there(const NormArgs& args) {
    const uint64_t n_groups = static_cast<uint64_t>(args.n_rows) * args.n_groups;
    return static_cast<uint64_t>(block_x()) * (kNormThreads / kWave) + wave() < n_groups;
  }
  // f(e, i) for this lane's elements: v[e] is element i of the group.
  template <class F>
  RF_DEVICE void each(const F& f) const {
    RF_UNROLL
    for (uint32_t e = 0; e < kPerLane; e++) {
      if (const uint32_t i = e * kWave + lane(); i < args.group) f(e, i);
    }
  }
  template <class F>
  RF_DEVICE float mean_of(const F& f) const {
    float total = 0;
    each([&](uint32_t e, uint32_t) { total += f(v[e]); });
    return wave_sum(total) / static_cast<float>(args.group);
  }
  RF_DEVICE void store(float mean, float scale) const {
    each([&](uint32_t e, uint32_t i) {
      float value = (v[e] - mean) * scale;
      if (args.weight != nullptr) value *= args.weight[first_weight + i];
      if (args.bias != nullptr) value += args.bias[first_weight + i];
      if (args.gate != nullptr && args.gate_comes_first == 0) {
        value = silu_times(args.gate[group * args.group + i], value);
      }
      args.out[group * args.group + i] = value;
    });
  }
};

RF_KERNEL(rms_norm_heads, NormArgs, kNormThreads) {
  if (!HeadNorm::is_there(args)) return;
  const HeadNorm head(args);
  head.store(0.0f, 1.0f / sqrt_f32(head.mean_of([](float v) { return v * v; }) + args.epsilon));
}

RF_KERNEL(layer_norm_heads, NormArgs, kNormThreads) {
  if (!HeadNorm::is_there(args)) return;
  const HeadNorm head(args);
  const float mean = head.mean_of([](float v) { return v; });
  head.store(mean, 1.0f / sqrt_f32(head.mean_of([=](float v) { return (v - mean) * (v - mean); }) + args.epsilon));
}

}  // namespace rocmforge::gpu::RF_KERNELS
