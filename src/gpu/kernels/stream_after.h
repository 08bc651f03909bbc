#pragma once
// What streamed products do with an output once its sum is there (StreamArgs, kernels/stream_hopper.h).

#include "gpu/kernels/activation.h"
#include "gpu/kernels/stream_hopper.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_DEVICE float activated(StreamAfter after, float gate, float up) {
  switch (after) {
    case StreamAfter::silu:
      return silu_times(gate, up);
    case StreamAfter::gelu:
      return gelu_times(gate, up);
    case StreamAfter::clamped_swish:
      return clamped_swish_times(gate, up);
    case StreamAfter::store:
      break;
  }
  return gate;
}

// Output `at` of a part and a row. sum_of(0) is its sum, sum_of(1) that of its partner where there is an activation.
template <class Args, class SumOf>
RF_DEVICE void put_output(const Args& args, const MatvecPart& part, uint32_t row, uint32_t at, const SumOf& sum_of) {
  const uint64_t place = static_cast<uint64_t>(row) * part.n_out + at;
  const float before = args.sum != nullptr ? args.sum[place] : 0.0f;  // asked for ahead of its use
  const float value = sum_of(0) + (part.bias != nullptr ? part.bias[at] : 0.0f);
  part.out[place] = value;
  if (args.sum != nullptr) args.sum[place] = before + args.sum_scale * value;
  if (args.after == StreamAfter::store) return;
  const MatvecPart& other = args.parts[1];
  const float up = sum_of(1) + (other.bias != nullptr ? other.bias[at] : 0.0f);
  other.out[place] = up;
  args.activated[place] = activated(args.after, value, up);
}

}  // namespace rocmforge::gpu::RF_KERNELS
