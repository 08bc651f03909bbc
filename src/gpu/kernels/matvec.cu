// Quantized weights times few rows of 8-bit activations, by integer dot products.
//
// A wave computes kOutputs outputs for up to kRows rows. Its lanes loop over pairs of neighbouring units
// (packed/integer_formats.h) of the weight's rows: the two have common scales, and neighbouring lanes read neighbouring
// bytes. The loads for kSets such sets are issued before the first is used; each unit is unpacked once and used for
// every row. The lanes' sums are reduced at the end.

#include "gpu/runtime.h"

#include "gpu/kernels/matvec.h"
#include "gpu/kernels/matvec_rows.h"
#include "gpu/packed/integer_formats.h"
#include "gpu/packed/lists.h"

namespace rocmforge::gpu::RF_KERNELS {

// Groups whose activations may be loaded before the first is used. AMD's compiler loads as early as it may, and spills
// where units fill many registers. The numbers give the fewest cycles by llvm-mca (docs/amd.md).
template <class P>
constexpr uint32_t kGroupsAhead = __is_base_of(OrderedUnits, P)  ? kWave == 64 ? 2 : 4
                                  : sizeof(typename P::Raw) > 32 ? 4
                                                                 : 0;  // all of a turn

template <class P, uint32_t kRows>
RF_DEVICE void limit_loads(uint32_t group, uint32_t row) {
  if constexpr (kRows > 1) {
    if (row % 4 == 0) keep_order();
  } else if constexpr (kGroupsAhead<P> > 0) {
    if (group % kGroupsAhead<P> == 0) keep_order();
  }
}

// kTogether: units of a set. REQUIRES: rows have a multiple of that
template <class P, uint32_t kTogether, uint32_t kSets, uint32_t kRows, uint32_t kOutputs, class Rows>
RF_DEVICE void add_units(float (&sums)[kOutputs][kRows], const MatvecArgs& args, const Rows& rows) {
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
        const uint32_t place = static_cast<uint32_t>(P::place(u, g));
        Group groups[kOutputs];
        RF_UNROLL
        for (uint32_t o = 0; o < kOutputs; o++) groups[o] = P::group(raw[s][o][j], u, g);
        RF_UNROLL
        for (uint32_t r = 0; r < kRows; r++) {
          if (!rows.has_row(r)) break;
          limit_loads<P, kRows>(i, r);
          // A row's address is the same for all lanes, and the rest of it is 32 bits.
          const uint64_t first_q = rows.input_row(r) * args.width;
          const Word4 q = *reinterpret_cast<const Word4*>(args.q + first_q + 16 * place);
          const ActivationScale scale = args.scales[first_q / 32 + place / 2];
          const int sum = place % 2 == 0 ? scale.sums[0] : scale.sums[1];
          RF_UNROLL
          for (uint32_t o = 0; o < kOutputs; o++) {
            int dot = 0;
            for (int k = 0; k < 4; k++) {
              dot = dot4(static_cast<int>(groups[o].levels.v[k]), static_cast<int>(q.v[k]), dot);
            }
            dot -= P::kOffset * sum;
            const float product =
                groups[o].scale * static_cast<float>(dot) - groups[o].minimum * static_cast<float>(sum);
            sums[o][r] += scale.scale * product;
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
  if constexpr (kRows > 1) {
    add_units<P, 1, 1>(sums, args, rows);
  } else {
    for (uint32_t n = 0; n < args.n_summed; n++) {
      rows.begin(n);
      float of_pair[kOutputs][kRows] = {};
      if (Block::kElements == 256 || args.width / 16 / P::kGroups % 2 == 0) {
        // Two sets at once pay where a set is few bytes for its loads (measured on an H200).
        constexpr uint32_t kSets = P::kOffset == 32 || P::kGroups == 1 ? 2 : 1;
        add_units<P, 2, kSets>(of_pair, args, rows);
      } else {
        add_units<P, 1, 1>(of_pair, args, rows);
      }
      rows.add(sums, of_pair);
    }
  }
  rows.store(sums);
}

template <class Block, uint32_t kRows, uint32_t kOutputs>
RF_DEVICE void integer_experts(const MatvecArgs& args) {
  const MatvecExpertRows<kRows, kOutputs> rows(args);
  if (rows.first_out >= rows.n_out) return;
  float sums[kOutputs][kRows] = {};
  add_units<Packed<Block>, 1, 1>(sums, args, rows);
  rows.store(sums);
}

#define RF_INTEGER_MATVEC(name, Block)                            \
  RF_KERNEL(matvec_##name##_1, MatvecArgs, kMatvecThreads) {      \
    integer_matvec<Block, 1, kMatvecOutputs>(args);               \
  }                                                               \
  RF_KERNEL(matvec_##name##_8, MatvecArgs, kMatvecThreads) {      \
    integer_matvec<Block, kMatvecMaxRows, kMatvecOutputs>(args);  \
  }                                                               \
  RF_KERNEL(experts_##name##_8, MatvecArgs, kMatvecThreads) {     \
    integer_experts<Block, kMatvecMaxRows, kMatvecOutputs>(args); \
  }
RF_INTEGER_FORMATS(RF_INTEGER_MATVEC)

}  // namespace rocmforge::gpu::RF_KERNELS
