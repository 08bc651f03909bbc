// F32, F16 and BF16 weights, and every format without kernels of its own, times few rows of f32 activations.
//
// Floats: lanes take neighbouring runs of eight elements of a row; a width that is no multiple of eight goes element by
// element. Other formats: lanes take blocks and decode each.

#include "gpu/runtime.h"

#include "gpu/kernels/matvec_rows.h"
#include "gpu/packed/float_formats.h"
#include "gpu/packed/lists.h"

namespace rocmforge::gpu::RF_KERNELS {

template <class Block, uint32_t kRows, uint32_t kOutputs, uint32_t kRun>
RF_DEVICE void add_runs(float (&sums)[kOutputs][kRows], const MatvecArgs& args,
                        const MatvecRows<kRows, kOutputs>& rows) {
  const auto* w = reinterpret_cast<const Block*>(rows.w.at[0]);
  for (uint32_t i = lane() * kRun; i < args.width; i += kWave * kRun) {
    RF_UNROLL
    for (uint32_t o = 0; o < kOutputs; o++) {
      struct alignas(kRun * sizeof(Block) < 16 ? kRun * sizeof(Block) : 16) Run {
        Block v[kRun];
      };
      const Run run = *reinterpret_cast<const Run*>(w + rows.weight_row(o) * args.width + i);
      RF_UNROLL
      for (uint32_t r = 0; r < kRows; r++) {
        const float* x = args.x + rows.input_row(r) * args.width + i;
        RF_UNROLL
        for (uint32_t e = 0; e < kRun; e++) sums[o][r] += rows.share * (value_of(run.v[e]) * x[e]);
      }
    }
  }
}

template <class Block, uint32_t kRows, uint32_t kOutputs>
RF_DEVICE void float_matvec(const MatvecArgs& args) {
  MatvecRows<kRows, kOutputs> rows(args);
  if (rows.first_out >= rows.n_out) return;
  float sums[kOutputs][kRows] = {};
  for (uint32_t n = 0; n < args.n_summed; n++) {
    rows.begin(n);
    if (args.width % 8 == 0) {
      add_runs<Block, kRows, kOutputs, 8>(sums, args, rows);
    } else {
      add_runs<Block, kRows, kOutputs, 1>(sums, args, rows);
    }
  }
  rows.store(sums);
}

template <class Block>
RF_DEVICE void decoded_matvec(const MatvecArgs& args) {
  MatvecRows<1, kMatvecOutputs1> rows(args);
  if (rows.first_out >= rows.n_out) return;
  const uint32_t n_blocks = args.width / Block::kElements;
  float sums[kMatvecOutputs1][1] = {};
  for (uint32_t n = 0; n < args.n_summed; n++) {
    rows.begin(n);
    const auto* w = reinterpret_cast<const Block*>(rows.w.at[0]);
    const float* x = args.x + rows.input_row(0) * args.width;
    for (uint32_t b = lane(); b < n_blocks; b += kWave) {
      for (uint32_t o = 0; o < kMatvecOutputs1; o++) {
        float values[Block::kElements];
        formats::decode(values, w[rows.weight_row(o) * n_blocks + b]);
        float sum = 0;
        for (int e = 0; e < Block::kElements; e++) sum += values[e] * x[b * Block::kElements + e];
        sums[o][0] += rows.share * sum;
      }
    }
  }
  rows.store(sums);
}

#define RF_FLOAT_MATVEC(name, Block)                         \
  RF_KERNEL(matvec_##name##_1, MatvecArgs, kMatvecThreads) { \
    float_matvec<Block, 1, kMatvecOutputs1>(args);           \
  }                                                          \
  RF_KERNEL(matvec_##name##_8, MatvecArgs, kMatvecThreads) { \
    float_matvec<Block, kMatvecMaxRows, 1>(args);            \
  }
RF_FLOAT_FORMATS(RF_FLOAT_MATVEC)

#define RF_DECODED_MATVEC(name, Block)                       \
  RF_KERNEL(matvec_##name##_1, MatvecArgs, kMatvecThreads) { \
    decoded_matvec<Block>(args);                             \
  }
RF_DECODED_FORMATS(RF_DECODED_MATVEC)

}  // namespace rocmforge::gpu::RF_KERNELS
