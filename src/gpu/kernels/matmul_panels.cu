// Panels of weights times panels of activations, on Hopper.
//
// A block computes 128 outputs for kRows rows, transposed (outputs are the instruction's rows). One lane copies panels
// into a ring in shared memory; two warpgroups multiply, 64 outputs each. Each stage of the ring has two barriers:
// `full`, when its bytes have arrived, and `empty`, when all warps are done with it. Two blocks with the same rows form
// a cluster: each copies its own weights, and half of the activations for both. Sums of rows that were scaled down to
// fit halves are scaled up at the end.

#include "gpu/runtime.h"

#include "gpu/fragment/hopper.h"
#include "gpu/kernels/matmul_panels.h"

namespace rocmforge::gpu::RF_KERNELS {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Panels for n outputs.
RF_DEVICE uint32_t n_sets_of(uint32_t n) {
  return (n + kWeightPanelRows - 1) / kWeightPanelRows;
}

template <uint32_t kRows>
struct PanelRing {
  static constexpr uint32_t kStages = matmul_panels_stages(kRows);
  static constexpr uint32_t kWeightBytes = kWeightPanelRows * kPanelRowBytes;
  static constexpr uint32_t kStageBytes = kWeightBytes + kRows * kPanelRowBytes;
  uint32_t stages, full, empty, scales;  // in shared memory
  uint32_t slot = 0, parity = 0;

  RF_DEVICE uint32_t stage() const { return stages + slot * kStageBytes; }
  RF_DEVICE uint32_t full_at() const { return full + 8 * slot; }
  RF_DEVICE uint32_t empty_at() const { return empty + 8 * slot; }
  RF_DEVICE void advance() {
    if (++slot == kStages) slot = 0, parity ^= 1;
  }
};

// `set`: which outputs' panels.
template <uint32_t kRows>
RF_DEVICE void bring_panels(const MatmulPanelsArgs& args, PanelRing<kRows> ring, uint32_t set) {
  constexpr uint32_t kPanelBytes = kInputPanelRows * kPanelRowBytes, kMine = kRows / kInputPanelRows / 2;
  const uint32_t n_steps = args.width / kPanelColumns, last = (args.n_rows - 1) / kInputPanelRows;
  const uint8_t* weights = args.weights + uint64_t{set} * n_steps * ring.kWeightBytes;
  for (uint32_t step = 0; step < n_steps; step++, ring.advance()) {
    barrier::wait(ring.empty_at(), ring.parity ^ 1);
    barrier::arrive_expecting(ring.full_at(), ring.kStageBytes);
    bulk_copy(ring.stage(), weights + uint64_t{step} * ring.kWeightBytes, ring.kWeightBytes, ring.full_at());
    RF_UNROLL
    for (uint32_t i = 0; i < kMine; i++) {
      const uint32_t panel = block_z() * kMine + i, wanted = block_x() * (kRows / kInputPanelRows) + panel;
      const uint64_t rows = wanted < last ? wanted : last;  // sums of rows that do not exist are dropped
      bulk_copy_to_all(ring.stage() + ring.kWeightBytes + panel * kPanelBytes,
                       args.inputs + (rows * n_steps + step) * kPanelBytes, kPanelBytes, ring.full_at(), 3);
    }
  }
}

template <uint32_t kRows>
RF_DEVICE void multiply_panels(float (&c)[kRows / 2], const MatmulPanelsArgs& args, PanelRing<kRows> ring) {
  RF_UNROLL
  for (uint32_t i = 0; i < kRows / 2; i++) c[i] = 0;
  const uint32_t my_weights = thread_index() / 128 * 64 * kPanelRowBytes;
  uint32_t before = 0;  // the barrier of the stage that may still be read
  for (uint32_t step = 0; step < args.width / kPanelColumns; step++) {
    barrier::wait(ring.full_at(), ring.parity);
    wgmma::fence();
    RF_UNROLL
    for (uint32_t k = 0; k < kPanelColumns / 16; k++) {
      Wgmma<kRows>::multiply_shared(c, wgmma::panel(ring.stage() + my_weights + k * 32),
                                    wgmma::panel(ring.stage() + ring.kWeightBytes + k * 32));
    }
    wgmma::commit();
    wgmma::wait<1>();
    if (before != 0 && thread_index() % 128 < 2) barrier::arrive_at(before, thread_index() % 128);
    before = ring.empty_at();
    ring.advance();
  }
  wgmma::wait<0>();
}

// Called by the threads that multiply: loads the scales of the block's rows. Returns whether one is not 1.
template <uint32_t kRows>
RF_DEVICE bool bring_scales(const MatmulPanelsArgs& args, uint32_t to) {
  static_assert(kRows <= 256);
  float scale = 1.0f;
  if (const uint32_t row = block_x() * kRows + thread_index(); thread_index() < kRows) {
    if (row < args.n_rows) scale = args.scales[row];
    store_shared(to + 4 * thread_index(), scale);
  }
  return any_of_threads<256>(scale != 1.0f);
}

// Element i of a lane's sums: its row among the block's, and its output.
RF_DEVICE uint32_t row_of_sum(uint32_t i) {
  return i / 4 * 8 + lane() % 4 * 2 + i % 2;
}
RF_DEVICE uint32_t out_of_sum(uint32_t i) {
  return wave() * 16 + lane() / 4 + i % 4 / 2 * 8;
}

template <uint32_t kRows>
RF_DEVICE void scale_sums(float (&c)[kRows / 2], uint32_t scales) {
  RF_UNROLL
  for (uint32_t i = 0; i < kRows / 2; i++) c[i] *= load_shared(scales + 4 * row_of_sum(i));
}

template <uint32_t kRows>
RF_DEVICE void store_sums(const float (&c)[kRows / 2], const MatmulPanelsArgs& args, const PanelsPart& part,
                          uint32_t first) {
  RF_UNROLL
  for (uint32_t i = 0; i < kRows / 2; i++) {
    const uint32_t row = block_x() * kRows + row_of_sum(i), n = first + out_of_sum(i), out = part.first_out + n;
    if (row >= args.n_rows || n >= part.n) continue;
    part.out[uint64_t{row} * part.n_out + out] = c[i] + (part.bias != nullptr ? part.bias[out] : 0.0f);
  }
}

template <uint32_t kRows>
RF_DEVICE void matmul_panels(const MatmulPanelsArgs& args) {
  using Ring = PanelRing<kRows>;
  extern __shared__ uint8_t memory[];
  Ring ring{};
  ring.stages = (shared_address(memory) + 1023) / 1024 * 1024;
  ring.full = ring.stages + Ring::kStages * Ring::kStageBytes;
  ring.empty = ring.full + 8 * Ring::kStages;
  ring.scales = ring.full + 256;
  if (thread_index() == 0) {
    for (uint32_t s = 0; s < Ring::kStages; s++) {
      barrier::make(ring.full + 8 * s, 1);
      barrier::make(ring.empty + 8 * s, 4);  // two warpgroups of two blocks
    }
    barrier::publish();
  }
  cluster::sync();
  wait_for_inputs();
  // The number of sets may be odd: then the last block repeats the previous set and stores nothing.
  uint32_t set = block_y() * 2 + block_z(), n_sets = 0;
  for (uint32_t p = 0; p < args.n_parts; p++) n_sets += n_sets_of(args.parts[p].n);
  const uint32_t read_set = set < n_sets ? set : n_sets - 1;
  if (thread_index() >= 256) {
    if (thread_index() == 256) bring_panels(args, ring, read_set);
    __syncwarp();
  } else {
    float c[kRows / 2];
    const bool is_scaled = bring_scales<kRows>(args, ring.scales);
    multiply_panels(c, args, ring);
    if (is_scaled) scale_sums<kRows>(c, ring.scales);
    if (set < n_sets) {
      uint32_t part = 0;
      while (set >= n_sets_of(args.parts[part].n)) set -= n_sets_of(args.parts[part++].n);
      store_sums<kRows>(c, args, args.parts[part], set * kWeightPanelRows);
    }
  }
  cluster::sync();  // no block may exit while the other may still use its barriers or copy into it
}

#else

template <uint32_t kRows>
RF_DEVICE void matmul_panels(const MatmulPanelsArgs&) {}

#endif

RF_HOPPER_ALONE_EARLY(matmul_panels_128, MatmulPanelsArgs, kMatmulPanelsThreads) {
  matmul_panels<128>(args);
}
RF_HOPPER_ALONE_EARLY(matmul_panels_256, MatmulPanelsArgs, kMatmulPanelsThreads) {
  matmul_panels<256>(args);
}

}  // namespace rocmforge::gpu::RF_KERNELS
