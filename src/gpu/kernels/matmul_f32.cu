// F32 weights times many rows of activations, in f32 throughout.
//
// A block computes 16 rows by 32 outputs in steps of 128 columns. Eight slices of 32 threads each take 16 columns of a
// step, a thread 4 x 4 sums. The slices' sums are added in order at the end.

#include "gpu/runtime.h"

#include "gpu/kernels/matmul_f32.h"

namespace rocmforge::gpu::RF_KERNELS {

constexpr uint32_t kSliceThreads = 32, kSlices = kMatmulF32Threads / kSliceThreads;
constexpr uint32_t kSliceColumns = 16, kStepColumns = kSlices * kSliceColumns;
constexpr uint32_t kPerThread = 4;  // rows, and outputs
static_assert(kSliceThreads * kPerThread * kPerThread == kMatmulF32Rows * kMatmulF32Outputs);

struct alignas(16) FourFloats {
  float v[kPerThread];
};

// By column, and then four neighbouring rows or outputs together. One more keeps columns in different banks.
template <uint32_t kLines>
struct F32Columns {
  FourFloats at[kStepColumns][kLines / kPerThread + 1];
};

// A thread's elements of a step, asked for ahead: one column of every second of kLines rows or outputs.
template <uint32_t kLines>
struct F32Ahead {
  static constexpr uint32_t kAtOnce = kMatmulF32Threads / kStepColumns, kEach = kLines / kAtOnce;
  float v[kEach];

  RF_DEVICE static uint32_t column() { return thread_index() % kStepColumns; }
  RF_DEVICE static uint32_t line(uint32_t i) { return thread_index() / kStepColumns + i * kAtOnce; }
  // Columns from `first_column` on of the lines from `first` on, zeros where there are none.
  RF_DEVICE void load(const float* from, uint32_t first, uint32_t n_lines, uint32_t first_column, uint32_t width) {
    RF_UNROLL
    for (uint32_t i = 0; i < kEach; i++) {
      const bool inside = first_column + column() < width && first + line(i) < n_lines;
      v[i] = inside ? from[static_cast<uint64_t>(first + line(i)) * width + first_column + column()] : 0.0f;
    }
  }
  RF_DEVICE void put(F32Columns<kLines>& to) const {
    RF_UNROLL
    for (uint32_t i = 0; i < kEach; i++) to.at[column()][line(i) / kPerThread].v[line(i) % kPerThread] = v[i];
  }
};

RF_KERNEL(matmul_f32, MatmulF32Args, kMatmulF32Threads) {
  union Shared {
    struct {
      F32Columns<kMatmulF32Rows> x;
      F32Columns<kMatmulF32Outputs> w;
    } step;
    float sums[kSlices][kMatmulF32Rows][kMatmulF32Outputs];
  };
  RF_SHARED(Shared, shared);
  const uint32_t first_row = block_y() * kMatmulF32Rows, first_out = block_x() * kMatmulF32Outputs;
  const uint32_t slice = thread_index() / kSliceThreads, in_slice = thread_index() % kSliceThreads;
  constexpr uint32_t kAcross = kMatmulF32Outputs / kPerThread;
  const uint32_t my_rows = in_slice / kAcross, my_outs = in_slice % kAcross;
  float sums[kPerThread][kPerThread] = {};
  F32Ahead<kMatmulF32Rows> x_ahead;
  F32Ahead<kMatmulF32Outputs> w_ahead;
  const auto load = [&](uint32_t k) {
    x_ahead.load(args.x, first_row, args.n_rows, k, args.width);
    w_ahead.load(args.w, first_out, args.n_out, k, args.width);
  };
  load(0);
  for (uint32_t k = 0; k < args.width; k += kStepColumns) {
    x_ahead.put(shared.step.x);
    w_ahead.put(shared.step.w);
    sync_shared();
    load(k + kStepColumns);
    RF_UNROLL
    for (uint32_t d = 0; d < kSliceColumns; d++) {
      const FourFloats x = shared.step.x.at[slice * kSliceColumns + d][my_rows];
      const FourFloats w = shared.step.w.at[slice * kSliceColumns + d][my_outs];
      RF_UNROLL
      for (uint32_t r = 0; r < kPerThread; r++) {
        RF_UNROLL
        for (uint32_t o = 0; o < kPerThread; o++) sums[r][o] += x.v[r] * w.v[o];
      }
    }
    sync_shared();
  }
  RF_UNROLL
  for (uint32_t r = 0; r < kPerThread; r++) {
    RF_UNROLL
    for (uint32_t o = 0; o < kPerThread; o++) {
      shared.sums[slice][my_rows * kPerThread + r][my_outs * kPerThread + o] = sums[r][o];
    }
  }
  sync_shared();
  for (uint32_t i = thread_index(); i < kMatmulF32Rows * kMatmulF32Outputs; i += kMatmulF32Threads) {
    const uint32_t in_tile = i / kMatmulF32Outputs, row = first_row + in_tile, out = first_out + i % kMatmulF32Outputs;
    if (row >= args.n_rows || out >= args.n_out) continue;
    float sum = args.bias != nullptr ? args.bias[out] : 0.0f;
    for (uint32_t s = 0; s < kSlices; s++) sum += shared.sums[s][in_tile][i % kMatmulF32Outputs];
    args.out[static_cast<uint64_t>(row) * args.n_out + out] = sum;
  }
}

}  // namespace rocmforge::gpu::RF_KERNELS
