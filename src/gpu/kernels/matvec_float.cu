// F32, F16 and BF16 weights times few rows of f32 activations.
//
// Lanes take neighbouring runs of eight elements of a row; a width that is no multiple of eight goes element by
// element.

#include "gpu/runtime.h"

#include "gpu/kernels/matvec_rows.h"
#include "gpu/packed/float_formats.h"
#include "gpu/packed/lists.h"

namespace rocmforge::gpu::RF_KERNELS {

// kRun consecutive weights or inputs.
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

// A lane's sums are in the order of the columns, whatever the number of runs that are asked for at once.
template <class Block, uint32_t kRows, uint32_t kOutputs, uint32_t kRun, class Rows>
RF_DEVICE void add_runs(float (&sums)[kOutputs][kRows], const MatvecArgs& args, const Rows& rows) {
  constexpr uint32_t kAtOnce = kRows == 1 ? 4 : 1;
  const auto* w = reinterpret_cast<const Block*>(rows.w.at[0]);
  for (uint32_t first = lane() * kRun; first < args.width; first += kAtOnce * kWave * kRun) {
    float weights[kAtOnce][kOutputs][kRun];
    const auto column = [&](uint32_t n) { return first + n * kWave * kRun; };
    RF_UNROLL
    for (uint32_t n = 0; n < kAtOnce; n++) {
      if (column(n) >= args.width) break;
      RF_UNROLL
      for (uint32_t o = 0; o < kOutputs; o++) load_run(weights[n][o], w + rows.weight_row(o) * args.width + column(n));
    }
    RF_UNROLL
    for (uint32_t n = 0; n < kAtOnce; n++) {
      if (column(n) >= args.width) break;
      RF_UNROLL
      for (uint32_t r = 0; r < kRows; r++) {
        if (!rows.has_row(r)) break;
        float x[kRun];
        load_run(x, reinterpret_cast<const formats::PlainF32*>(args.x + rows.input_row(r) * args.width + column(n)));
        RF_UNROLL
        for (uint32_t o = 0; o < kOutputs; o++) {
          RF_UNROLL
          for (uint32_t e = 0; e < kRun; e++) sums[o][r] += weights[n][o][e] * x[e];
        }
      }
    }
  }
}

template <class Block, uint32_t kRows, uint32_t kOutputs, class Rows>
RF_DEVICE void add_rows(float (&sums)[kOutputs][kRows], const MatvecArgs& args, const Rows& rows) {
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

template <class Block, uint32_t kRows, uint32_t kOutputs>
RF_DEVICE void float_experts(const MatvecArgs& args) {
  const MatvecExpertRows<kRows, kOutputs> rows(args);
  if (rows.first_out >= rows.n_out) return;
  float sums[kOutputs][kRows] = {};
  add_rows<Block>(sums, args, rows);
  rows.store(sums);
}

#define RF_FLOAT_MATVEC(name, Block)                            \
  RF_KERNEL(matvec_##name##_1, MatvecArgs, kMatvecThreads) {    \
    float_matvec<Block, 1, kMatvecOutputs>(args);               \
  }                                                             \
  RF_KERNEL(matvec_##name##_8, MatvecArgs, kMatvecThreads) {    \
    float_matvec<Block, kMatvecMaxRows, kMatvecOutputs>(args);  \
  }                                                             \
  RF_KERNEL(experts_##name##_8, MatvecArgs, kMatvecThreads) {   \
    float_experts<Block, kMatvecMaxRows, kMatvecOutputs>(args); \
  }
RF_FLOAT_FORMATS(RF_FLOAT_MATVEC)

}  // namespace rocmforge::gpu::RF_KERNELS
