// Inputs of products of many rows (kernels/stream_many_hopper.h): a block takes a row, its warps 256 columns each.

#include "gpu/kernels/stream_many_hopper.h"
#include "gpu/runtime.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "gpu/kernels/stream_many_put.h"
#endif

namespace rocmforge::gpu::RF_KERNELS {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

class ManyInputs {
  static constexpr uint32_t kWarps = kManyInputsThreads / 32;

 public:
  RF_DEVICE ManyInputs(const ManyInputsArgs& a, float* partial)
      : args_(a), n_pieces_(a.width / kStreamColumns), row_(block_x()), squares_(partial) {}

  RF_DEVICE void run() const {
    const uint32_t piece = wave() + kWarps * block_y();
    const bool normalises = args_.norm_weight != nullptr;
    float weights[8];
    if (normalises && piece < n_pieces_) load_eight(weights, args_.norm_weight + piece * kStreamColumns);
    wait_for_inputs();
    float v[8];
    if (piece < n_pieces_) load_eight(v, args_.x + column(piece));
    if (normalises) {
      const float scale = scale_of_row(v);
      if (args_.lifts != nullptr && thread_index() == 0 && block_y() == 0) args_.lifts[row_] = row_lift(scale);
      if (piece < n_pieces_) normalise(v, scale, weights, piece);
    }
    if (piece >= n_pieces_) return;
    ManyPut(args_.to, row_, n_pieces_)(piece, v);
  }

 private:
  RF_DEVICE uint64_t column(uint32_t piece) const {
    return static_cast<uint64_t>(row_) * args_.width + piece * kStreamColumns;
  }

  // mine: this warp's piece
  RF_DEVICE float scale_of_row(const float (&mine)[8]) const {
    for (uint32_t piece = wave(); piece < n_pieces_; piece += kWarps) {
      float v[8];
      if (n_pieces_ <= kWarps) {
        RF_UNROLL
        for (uint32_t e = 0; e < 8; e++) v[e] = mine[e];
      } else {
        load_eight(v, args_.x + column(piece));
      }
      float sum = 0;
      RF_UNROLL
      for (uint32_t e = 0; e < 8; e++) sum = fmaf(v[e], v[e], sum);
      sum = wave_sum(sum);
      if (lane() == 0) squares_[piece] = sum;
    }
    sync_block();
    float squares = 0;
    for (uint32_t p = lane(); p < n_pieces_; p += 32) squares += squares_[p];
    return 1.0f / sqrt_f32(wave_sum(squares) / static_cast<float>(args_.width) + args_.epsilon);
  }
  RF_DEVICE void normalise(float (&v)[8], float scale, const float (&weights)[8], uint32_t piece) const {
    RF_UNROLL
    for (uint32_t e = 0; e < 8; e++) v[e] = v[e] * scale * weights[e];
    if (args_.normed != nullptr) {
      auto* to = reinterpret_cast<float4*>(args_.normed + column(piece) + 8 * lane());
      to[0] = {v[0], v[1], v[2], v[3]};
      to[1] = {v[4], v[5], v[6], v[7]};
    }
  }

  const ManyInputsArgs& args_;
  uint32_t n_pieces_, row_;
  float* squares_;
};

#endif

RF_KERNEL_EARLY(stream_many_inputs, ManyInputsArgs, kManyInputsThreads) {
  let_next_begin();
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  RF_SHARED(float[kManyMaxPieces], squares);
  ManyInputs(args, squares).run();
#endif
}

}  // namespace rocmforge::gpu::RF_KERNELS
