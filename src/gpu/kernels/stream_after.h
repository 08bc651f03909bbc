#pragma once
// The epilogue of streamed products for one output (StreamArgs, kernels/stream_hopper.h).

#include "gpu/kernels/activation.h"
#include "gpu/kernels/stream_hopper.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

// Calls with_it with the activation function, if there is one.
template <class WithIt>
RF_DEVICE void with_activation(StreamAfter after, const WithIt& with_it) {
  switch (after) {
    case StreamAfter::silu:
      return with_it([](float gate, float up) { return silu_times(gate, up); });
    case StreamAfter::gelu:
      return with_it([](float gate, float up) { return gelu_times(gate, up); });
    case StreamAfter::clamped_swish:
      return with_it([](float gate, float up) { return clamped_swish_times(gate, up); });
    case StreamAfter::store:
      return;
  }
}
RF_DEVICE float activated(StreamAfter after, float gate, float up) {
  float value = gate;
  with_activation(after, [&](const auto& activate) { value = activate(gate, up); });
  return value;
}

// An output: its address, and the other inputs of its epilogue, which are loaded ahead of their use.
struct StreamedOutput {
  uint64_t place;
  float before, bias, partners_bias;

  StreamedOutput() = default;
  // Output `at` of a part, for a row.
  template <class Args>
  RF_DEVICE StreamedOutput(const Args& args, const MatvecPart& part, uint32_t row, uint32_t at)
      : place(static_cast<uint64_t>(row) * part.n_out + at),
        before(args.sum != nullptr ? args.sum[place] : 0.0f),
        bias(part.bias != nullptr ? part.bias[at] : 0.0f),
        partners_bias(args.after != StreamAfter::store && args.parts[1].bias != nullptr ? args.parts[1].bias[at]
                                                                                        : 0.0f) {}
  // sum_of(0) is the output's sum; sum_of(1) that of the matching output of the second part (up, for a gate), if there
  // is an activation.
  template <class Args, class SumOf>
  RF_DEVICE void put(const Args& args, const MatvecPart& part, const SumOf& sum_of) const {
    const float value = sum_of(0) + bias;
    part.out[place] = value;
    if (args.sum != nullptr) args.sum[place] = before + args.sum_scale * value;
    if (args.after == StreamAfter::store) return;
    const float up = sum_of(1) + partners_bias;
    args.parts[1].out[place] = up;
    args.activated[place] = activated(args.after, value, up);
  }
};

template <class Args, class SumOf>
RF_DEVICE void put_output(const Args& args, const MatvecPart& part, uint32_t row, uint32_t at, const SumOf& sum_of) {
  StreamedOutput(args, part, row, at).put(args, part, sum_of);
}

}  // namespace rocmforge::gpu::RF_KERNELS
