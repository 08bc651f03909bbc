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
  const float by = args.is_softplus == 0 ? sigmoid_of(x) : x > 20.0f ? x : log_f32(1.0f + exp_f32(x));
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
  args.out[i] = args.in[i / args.width * args.in_width + args.first + i % args.width];
}

RF_KERNEL(weigh, WeighArgs, kElementThreads) {
  const uint64_t i = element();
  if (i < args.n) args.x[i] *= args.routing[i / args.width * 2 + 1];
}

RF_KERNEL(forget_weights, WeighArgs, kElementThreads) {
  const uint64_t i = element();
  if (i < args.n) args.routing[i * 2 + 1] = 1.0f;
}

}  // namespace rocmforge::gpu::RF_KERNELS
