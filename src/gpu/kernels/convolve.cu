// Short convolutions over the rows of runs: a thread has one channel. The first block of a run alone reads and writes
// the run's state; the inputs that later blocks need are rows of the run.

#include "gpu/runtime.h"

#include "gpu/kernels/activation.h"
#include "gpu/kernels/recurrent.h"

namespace rocmforge::gpu::RF_KERNELS {

constexpr uint32_t kMaxKept = kMaxTaps - 1;

struct Channel {
  const ConvolveArgs& args;
  const RunStates run;
  const uint32_t at, n_kept;
  float kept[kMaxKept];  // the last inputs, the newest one last; the first kMaxTaps - n_taps are not used

  RF_DEVICE Channel(const ConvolveArgs& all, const RunStates& of, uint32_t channel)
      : args(all), run(of), at(channel), n_kept(all.n_taps - 1) {}

  RF_DEVICE uint64_t place(uint32_t row) const { return static_cast<uint64_t>(run.first_row + row) * args.width + at; }
  RF_DEVICE float input(uint32_t row) const {
    const float x = args.in[place(row)];
    return args.gate_in == nullptr ? x : x * args.gate_in[place(row)];
  }
  RF_DEVICE float* state(uint32_t slot) const { return args.states.first + slot * args.states.elements + at; }

  // The inputs before row `first`.
  RF_DEVICE void begin(uint32_t first) {
    RF_UNROLL
    for (uint32_t i = 0; i < kMaxKept; i++) {
      const uint32_t back = kMaxKept - i;
      kept[i] = 0;
      if (back > n_kept) continue;
      if (first > 0) {
        kept[i] = input(first - back);
      } else if (run.before != kNoState) {
        kept[i] = state(run.before)[static_cast<uint64_t>(n_kept - back) * args.width];
      }
    }
  }

  RF_DEVICE void push(float newest) {
    RF_UNROLL
    for (uint32_t i = 0; i + 1 < kMaxKept; i++) kept[i] = kept[i + 1];
    kept[kMaxKept - 1] = newest;
  }

  // Writes the run's last inputs.
  RF_DEVICE void leave() {
    const uint32_t n_new = run.n_rows < n_kept ? run.n_rows : n_kept;
    for (uint32_t row = run.n_rows - n_new; row < run.n_rows; row++) push(input(row));
    RF_UNROLL
    for (uint32_t i = 0; i < kMaxKept; i++) {
      const uint32_t back = kMaxKept - i;
      if (back <= n_kept) state(run.after)[static_cast<uint64_t>(n_kept - back) * args.width] = kept[i];
    }
  }

  RF_DEVICE void walk(uint32_t first, uint32_t end) {
    float taps[kMaxTaps];
    const uint32_t n_absent = kMaxTaps - args.n_taps;
    RF_UNROLL
    for (uint32_t j = 0; j < kMaxTaps; j++) {
      taps[j] = j < n_absent ? 0.0f : args.weight[static_cast<uint64_t>(at) * args.n_taps + j - n_absent];
    }
    const float bias = args.bias == nullptr ? 0.0f : args.bias[at];
    for (uint32_t row = first; row < end; row++) {
      const float newest = input(row);
      float sum = bias;
      RF_UNROLL
      for (uint32_t j = 0; j < kMaxTaps; j++) {
        if (j >= n_absent) sum = fma_f32(taps[j], j < kMaxKept ? kept[j] : newest, sum);
      }
      if (args.has_silu != 0) sum = silu_times(sum, 1.0f);
      if (args.gate_out != nullptr) sum *= args.gate_out[place(row)];
      args.out[place(row)] = sum;
      push(newest);
    }
  }
};

RF_KERNEL(convolve, ConvolveArgs, kConvolveThreads) {
  const RunStates run = args.states.runs[block_y()];
  const uint32_t channel = block_x() * kConvolveThreads + thread_index();
  const uint32_t first = block_z() * args.rows_of_a_block;
  if (channel >= args.width || first >= run.n_rows) return;
  const uint32_t left = run.n_rows - first;
  Channel of(args, run, channel);
  of.begin(first);
  if (first == 0) {
    Channel last = of;
    last.leave();
  }
  of.walk(first, first + (left < args.rows_of_a_block ? left : args.rows_of_a_block));
}

}  // namespace rocmforge::gpu::RF_KERNELS
