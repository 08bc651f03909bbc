// F32, F16 and BF16 weights, and every format without kernels of its own, times few rows of f32 activations.
//
// Floats: lanes take neighbouring runs of eight elements of a row; a width that is no multiple of eight goes element by
// element. Other formats: lanes take blocks and decode each.

#include "gpu/runtime.h"

#include "gpu/kernels/matvec_rows.h"
#include "gpu/packed/float_formats.h"
#include "gpu/packed/lists.h"

namespace rocmforge::gpu::RF_KERNELS {

// kRun consecutive weights.
template <class Block, uint32_t kRun>
RF_DEVICE void load_run(float (&values)[kRun], const Block* from) {
  if constexpr (kRun == 1) {
    values[0] = value_of(*from);
  } else {
    constexpr uint32_t kWords = kRun * sizeof(Block) / sizeof(Word4);
    struct Words {
      Word4 v[kWords];
    } words;
    struct Run {
      Block v[kRun];
    };
    RF_UNROLL
    for (uint32_t i = 0; i < kWords; i++) words.v[i] = load16(reinterpret_cast<const Word4*>(from) + i);
    const Run run = __builtin_bit_cast(Run, words);
    RF_UNROLL
    for (uint32_t e = 0; e < kRun; e++) values[e] = value_of(run.v[e]);
  }
}

template <class Block, uint32_t kRows, uint32_t kOutputs, uint32_t kRun>
RF_DEVICE void add_runs(float (&sums)[kOutputs][kRows], const MatvecArgs& args,
                        const MatvecRows<kRows, kOutputs>& rows) {
  const auto* w = reinterpret_cast<const Block*>(rows.w.at[0]);
  for (uint32_t i = lane() * kRun; i < args.width; i += kWave * kRun) {
    float weights[kOutputs][kRun];
    RF_UNROLL
    for (uint32_t o = 0; o < kOutputs; o++) load_run(weights[o], w + rows.weight_row(o) * args.width + i);
    RF_UNROLL
    for (uint32_t r = 0; r < kRows; r++) {
      const float* x = args.x + rows.input_row(r) * args.width + i;
      RF_UNROLL
      for (uint32_t o = 0; o < kOutputs; o++) {
        RF_UNROLL
        for (uint32_t e = 0; e < kRun; e++) sums[o][r] += weights[o][e] * x[e];
      }
    }
  }
}

template <class Block, uint32_t kRows, uint32_t kOutputs>
RF_DEVICE void add_rows(float (&sums)[kOutputs][kRows], const MatvecArgs& args,
                        const MatvecRows<kRows, kOutputs>& rows) {
  if (args.width % 8 == 0) {
    add_runs<Block, kRows, kOutputs, 8>(sums, args, rows);
  } else {
    add_runs<Block, kRows, kOutputs, 1>(sums, args, rows);
  }
}

template <class Block, uint32_t kRows, uint32_t kOutputs>
RF_DEVICE void float_matvec(const MatvecArgs& args) {
  MatvecRows<kRows, kOutputs> rows(args);
  if (rows.first_out >= rows.n_out) return;
  float sums[kOutputs][kRows] = {};
  if constexpr (kRows > 1) {
    add_rows<Block>(sums, args, rows);
  } else {
    for (uint32_t n = 0; n < args.n_summed; n++) {
      rows.begin(n);
      float of_pair[kOutputs][kRows] = {};
      add_rows<Block>(of_pair, args, rows);
      rows.add(sums, of_pair);
    }
  }
  rows.store(sums);
}

template <class Block>
RF_DEVICE void decoded_matvec(const MatvecArgs& args) {
  MatvecRows<1, kMatvecOutputs> rows(args);
  if (rows.first_out >= rows.n_out) return;
  const uint32_t n_blocks = args.width / Block::kElements;
  float sums[kMatvecOutputs][1] = {};
  for (uint32_t n = 0; n < args.n_summed; n++) {
    rows.begin(n);
    const auto* w = reinterpret_cast<const Block*>(rows.w.at[0]);
    const float* x = args.x + rows.input_row(0) * args.width;
    for (uint32_t b = lane(); b < n_blocks; b += kWave) {
      for (uint32_t o = 0; o < kMatvecOutputs; o++) {
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

#define RF_FLOAT_MATVEC(name, Block)                           \
  RF_KERNEL(matvec_##name##_1, MatvecArgs, kMatvecThreads) {   \
    float_matvec<Block, 1, kMatvecOutputs>(args);              \
  }                                                            \
  RF_KERNEL(matvec_##name##_8, MatvecArgs, kMatvecThreads) {   \
    float_matvec<Block, kMatvecMaxRows, kMatvecOutputs>(args); \
  }
RF_FLOAT_FORMATS(RF_FLOAT_MATVEC)

#define RF_DECODED_MATVEC(name, Block)                       \
  RF_KERNEL(matvec_##name##_1, MatvecArgs, kMatvecThreads) { \
    decoded_matvec<Block>(args);                             \
  }
RF_DECODED_FORMATS(RF_DECODED_MATVEC)

}  // namespace rocmforge::gpu::RF_KERNELS
