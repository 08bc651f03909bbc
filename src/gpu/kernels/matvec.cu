// Quantized weights times few rows of 8-bit activations, by integer dot products.
//
// A wave makes kOutputs outputs for up to kRows rows. Its lanes take the units (packed/integer_formats.h) of the
// weight's rows in turn, so neighbouring lanes read neighbouring 16 bytes; each unit is unpacked once and used for
// every row. Lanes are summed at the end.

#include "gpu/runtime.h"

#include "gpu/kernels/matvec.h"
#include "gpu/kernels/matvec_rows.h"
#include "gpu/packed/integer_formats.h"
#include "gpu/packed/lists.h"

namespace rocmforge::gpu::RF_KERNELS {

template <class P, uint32_t kRows, uint32_t kOutputs>
RF_DEVICE void add_units(float (&sums)[kOutputs][kRows], const MatvecArgs& args,
                         const MatvecRows<kRows, kOutputs>& rows) {
  const uint32_t n_units = args.width / 16 / P::kGroups;
  for (uint32_t u = lane(); u < n_units; u += kWave) {
    RF_UNROLL
    for (uint32_t o = 0; o < kOutputs; o++) {
      const uint64_t unit = rows.weight_row(o) * n_units + u;
      const typename P::Raw raw = P::load(rows.w, unit);
      RF_UNROLL
      for (uint32_t g = 0; g < P::kGroups; g++) {
        const Group group = P::group(raw, unit, g);
        const uint32_t place = static_cast<uint32_t>(P::place(u, g));
        RF_UNROLL
        for (uint32_t r = 0; r < kRows; r++) {
          const uint64_t at = rows.input_row(r) * args.width + 16 * place;
          const Word4 q = *reinterpret_cast<const Word4*>(args.q + at);
          const ActivationScale scale = args.scales[at / 32];
          int dot = 0;
          for (int i = 0; i < 4; i++) dot = dot4(static_cast<int>(group.levels.v[i]), static_cast<int>(q.v[i]), dot);
          const int sum = scale.sums[place % 2];
          dot -= P::kOffset * sum;
          const float product = group.scale * static_cast<float>(dot) - group.minimum * static_cast<float>(sum);
          sums[o][r] += rows.share * scale.scale * product;
        }
      }
    }
  }
}

template <class Block, uint32_t kRows, uint32_t kOutputs>
RF_DEVICE void integer_matvec(const MatvecArgs& args) {
  MatvecRows<kRows, kOutputs> rows(args);
  if (rows.first_out >= args.n_out) return;
  float sums[kOutputs][kRows] = {};
  for (uint32_t n = 0; n < args.n_summed; n++) {
    rows.begin(n);
    add_units<Packed<Block>>(sums, args, rows);
  }
  rows.store(sums);
}

#define RF_INTEGER_MATVEC(name, Block)                       \
  RF_KERNEL(matvec_##name##_1, MatvecArgs, kMatvecThreads) { \
    integer_matvec<Block, 1, kMatvecOutputs1>(args);         \
  }                                                          \
  RF_KERNEL(matvec_##name##_8, MatvecArgs, kMatvecThreads) { \
    integer_matvec<Block, kMatvecMaxRows, 1>(args);          \
  }
RF_INTEGER_FORMATS(RF_INTEGER_MATVEC)

}  // namespace rocmforge::gpu::RF_KERNELS
