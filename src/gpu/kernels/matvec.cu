// Quantized weights times few rows of 8-bit activations, by integer dot products.
//
// A wave makes kOutputs outputs for up to kRows rows. Its lanes take units (packed/integer_formats.h) of the weight's
// rows in turn, two neighbouring ones at a time: they share their scales, and neighbouring lanes read neighbouring
// bytes. What a lane needs of kSets such sets is asked for before the first is used; each unit is unpacked once and
// used for every row. Lanes are summed at the end.

#include "gpu/runtime.h"

#include "gpu/kernels/matvec.h"
#include "gpu/kernels/matvec_rows.h"
#include "gpu/packed/integer_formats.h"
#include "gpu/packed/lists.h"

namespace rocmforge::gpu::RF_KERNELS {

// kTogether: units of a set. REQUIRES: rows have a multiple of that
template <class P, uint32_t kTogether, uint32_t kSets, uint32_t kRows, uint32_t kOutputs>
RF_DEVICE void add_units(float (&sums)[kOutputs][kRows], const MatvecArgs& args,
                         const MatvecRows<kRows, kOutputs>& rows) {
  const uint32_t n_sets = args.width / 16 / P::kGroups / kTogether;
  for (uint32_t first = lane(); first < n_sets; first += kWave * kSets) {
    typename P::Raw raw[kSets][kOutputs][kTogether];
    RF_UNROLL
    for (uint32_t s = 0; s < kSets; s++) {
      const uint32_t set = first + s * kWave < n_sets ? first + s * kWave : first;
      RF_UNROLL
      for (uint32_t o = 0; o < kOutputs; o++) {
        RF_UNROLL
        for (uint32_t j = 0; j < kTogether; j++) {
          raw[s][o][j] = P::load(rows.w, (rows.weight_row(o) * n_sets + set) * kTogether + j);
        }
      }
    }
    RF_UNROLL
    for (uint32_t s = 0; s < kSets; s++) {
      const uint32_t set = first + s * kWave;
      if (set >= n_sets) break;
      RF_UNROLL
      for (uint32_t i = 0; i < P::kGroups * kTogether; i++) {
        const uint32_t g = i / kTogether, j = i % kTogether, u = set * kTogether + j;
        keep_order();  // AMD's compiler would load every group's activations first: more than there are registers
        const uint32_t place = static_cast<uint32_t>(P::place(u, g));
        RF_UNROLL
        for (uint32_t r = 0; r < kRows; r++) {
          const uint64_t at = rows.input_row(r) * args.width + 16 * place;
          const Word4 q = *reinterpret_cast<const Word4*>(args.q + at);
          const ActivationScale scale = args.scales[at / 32];
          const int sum = scale.sums[place % 2];
          RF_UNROLL
          for (uint32_t o = 0; o < kOutputs; o++) {
            const Group group = P::group(raw[s][o][j], u, g);
            int dot = 0;
            for (int k = 0; k < 4; k++) dot = dot4(static_cast<int>(group.levels.v[k]), static_cast<int>(q.v[k]), dot);
            dot -= P::kOffset * sum;
            const float product = group.scale * static_cast<float>(dot) - group.minimum * static_cast<float>(sum);
            sums[o][r] += rows.share * scale.scale * product;
          }
        }
      }
    }
  }
}

template <class Block, uint32_t kRows, uint32_t kOutputs>
RF_DEVICE void integer_matvec(const MatvecArgs& args) {
  using P = Packed<Block>;
  MatvecRows<kRows, kOutputs> rows(args);
  if (rows.first_out >= rows.n_out) return;
  float sums[kOutputs][kRows] = {};
  for (uint32_t n = 0; n < args.n_summed; n++) {
    rows.begin(n);
    if constexpr (kRows > 1) {
      add_units<P, 1, 1>(sums, args, rows);
    } else if (Block::kElements == 256 || args.width / 16 / P::kGroups % 2 == 0) {
      // Two sets at once pay where a set is few bytes for its loads (measured on an H200).
      constexpr uint32_t kSets = P::kOffset == 32 || P::kGroups == 1 ? 2 : 1;
      add_units<P, 2, kSets>(sums, args, rows);
    } else {
      add_units<P, 1, 1>(sums, args, rows);
    }
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
