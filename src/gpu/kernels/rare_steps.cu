// What few families compute, element by element: one element a thread.

#include "gpu/runtime.h"

#include "gpu/kernels/rare_steps.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_DEVICE uint64_t element() {
  return static_cast<uint64_t>(block_x()) * kElementThreads + thread_index();
}

template <class F>
RF_DEVICE void activate(const RareActivateArgs& args, F f) {
  const uint64_t i = element();
  if (i < args.n) args.out[i] = f(args.a[i]) * (args.b != nullptr ? args.b[i] : 1.0f);
}

RF_DEVICE float clamped(float x, float limit) {
  return x > limit ? limit : x < -limit ? -limit : x;
}

RF_DEVICE float sigmoid_of(float x) {
  return quotient_f32(1.0f, 1.0f + exp_f32(-x));
}

RF_KERNEL(relu_multiply, RareActivateArgs, kElementThreads) {
  activate(args, [](float x) { return x > 0.0f ? x : 0.0f; });
}

RF_KERNEL(relu_squared_multiply, RareActivateArgs, kElementThreads) {
  activate(args, [](float x) { return x > 0.0f ? x * x : 0.0f; });
}

RF_KERNEL(xielu_multiply, RareActivateArgs, kElementThreads) {
  activate(args, [&](float x) {
    const float alpha_n = args.xielu[0], alpha_p = args.xielu[1], beta = args.xielu[2], epsilon = args.xielu[3];
    if (x > 0.0f) return alpha_p * x * x + beta * x;
    return alpha_n * (exp_f32(x < epsilon ? x : epsilon) - 1.0f - x) + beta * x;
  });
}

RF_KERNEL(clamped_silu_multiply, RareActivateArgs, kElementThreads) {
  const uint64_t i = element();
  if (i >= args.n) return;
  const float silu = args.a[i] * sigmoid_of(args.a[i]);
  args.out[i] = (silu > args.clamp ? args.clamp : silu) * clamped(args.b[i], args.clamp);
}

RF_KERNEL(clamp, ClampArgs, kElementThreads) {
  const uint64_t i = element();
  if (i < args.n) args.x[i] = clamped(args.x[i], args.limit);
}

RF_KERNEL(gate, GateArgs, kElementThreads) {
  const uint64_t i = element();
  if (i >= args.n) return;
  const float x = args.gate[i / args.group];
  const float by = args.kind == GateKind::plain     ? x
                   : args.kind == GateKind::sigmoid ? sigmoid_of(x)
                   : x > 20.0f                      ? x
                                                    : log_f32(1.0f + exp_f32(x));
  args.out[i] = args.in[i] * by;
}

RF_KERNEL(temper, TemperArgs, kElementThreads) {
  const uint64_t i = element();
  if (i >= args.n) return;
  const uint32_t n_blocks = (args.positions[i / args.width] + args.offset) / args.length;
  args.x[i] *= 1.0f + args.scale * log_f32(static_cast<float>(n_blocks) + 1.0f);
}

RF_KERNEL(scale_by, ScaleByArgs, kElementThreads) {
  const uint64_t i = element();
  if (i < args.n) args.x[i] *= args.by[0];
}

RF_KERNEL(take_columns, TakeColumnsArgs, kElementThreads) {
  const uint64_t i = element();
  if (i >= args.n) return;
  const uint64_t row = i / args.width;
  const auto at = static_cast<uint32_t>(i % args.width);
  args.out[row * args.out_width + args.out_first + at] =
      args.in[row * args.in_width + args.first + at / args.each * args.period + at % args.each];
}

RF_KERNEL(weigh, WeighArgs, kElementThreads) {
  const uint64_t i = element();
  if (i < args.n) args.x[i] *= args.routing[i / args.width * 2 + 1];
}

RF_KERNEL(scale_columns, ScaleColumnsArgs, kElementThreads) {
  const uint64_t i = element();
  if (i < args.n) args.x[i] *= args.by[i % args.width];
}

RF_KERNEL(mix_streams, MixStreamsArgs, kElementThreads) {
  const uint64_t i = element();
  if (i >= args.n) return;
  const uint32_t of_row = args.n_out * args.width;
  const uint64_t row = i / of_row;
  const auto at = static_cast<uint32_t>(i % of_row);
  const uint32_t j = at / args.width;
  const float* in = args.in + row * args.n_in * args.width + at % args.width;
  float sum = 0.0f;
  for (uint32_t k = 0; j >= args.first && k < args.n_in; k++) {
    const float by =
        args.coefficients == nullptr ? 1.0f : args.coefficients[(row * args.n_out + j) * args.n_in + k] + args.offset;
    sum += by * in[static_cast<uint64_t>(k) * args.width];
  }
  args.out[i] = sum * args.scale;
}

// The sum of f over the elements of a row, for every thread.
template <class F>
RF_DEVICE float sum_of(const float* x, uint32_t width, float* partial, F f) {
  float sum = 0.0f;
  for (uint32_t i = thread_index(); i < width; i += kElementThreads) sum += f(x[i]);
  return block_sum<kElementThreads>(sum, partial);
}

RF_KERNEL(match_length, MatchLengthArgs, kElementThreads) {
  RF_SHARED(float[kElementThreads / 32], partial);
  float* x = args.x + static_cast<uint64_t>(block_x()) * args.width;
  const float* like = args.like + static_cast<uint64_t>(block_x() / args.n_groups) * args.width;
  const float is = sum_of(x, args.width, partial, [](float v) { return v * v; });
  const float wanted = sum_of(like, args.width, partial, [](float v) { return v * v; });
  if (is == 0.0f) return;
  const float by = sqrt_f32(quotient_f32(wanted, is));
  for (uint32_t i = thread_index(); i < args.width; i += kElementThreads) x[i] *= by;
}

RF_KERNEL(cut_row, CutRowArgs, kElementThreads) {
  RF_SHARED(float[kElementThreads / 32], partial);
  float* x = args.x + static_cast<uint64_t>(block_x()) * args.width;
  const float mean =
      quotient_f32(sum_of(x, args.width, partial, [](float v) { return v; }), static_cast<float>(args.width));
  const float squares = sum_of(x, args.width, partial, [=](float v) { return (v - mean) * (v - mean); });
  const float deviation = args.width > 1 ? sqrt_f32(quotient_f32(squares, static_cast<float>(args.width - 1))) : 0.0f;
  const float cut = mean + args.factor * deviation;
  for (uint32_t i = thread_index(); i < args.width; i += kElementThreads) x[i] = x[i] > cut ? x[i] - cut : 0.0f;
}

RF_KERNEL(forget_weights, WeighArgs, kElementThreads) {
  const uint64_t i = element();
  if (i < args.n) args.routing[i * 2 + 1] = 1.0f;
}

}  // namespace rocmforge::gpu::RF_KERNELS
