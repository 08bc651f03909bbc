// Steps over whole texts (kernels/texts.h).

#include "gpu/distance_buckets.h"
#include "gpu/kernels/rare_steps.h"
#include "gpu/kernels/texts.h"
#include "gpu/runner.h"

namespace rocmforge {

using gpu::FixedKernel;

static_assert(static_cast<uint32_t>(Pooling::mean) == static_cast<uint32_t>(gpu::TextPooling::mean));
static_assert(static_cast<uint32_t>(Pooling::first) == static_cast<uint32_t>(gpu::TextPooling::first));
static_assert(static_cast<uint32_t>(Pooling::last) == static_cast<uint32_t>(gpu::TextPooling::last));
static_assert(static_cast<uint32_t>(Pooling::rank) == static_cast<uint32_t>(gpu::TextPooling::rank));

Result<void> GpuBackend::Runner::operator()(const AttendBothWays& step) const {
  CHECK(slot(step.q).width == step.n_heads * step.head_size && slot(step.k).width == step.n_kv_heads * step.head_size);
  CHECK(slot(step.out).width == step.n_heads * step.value_size);
  CHECK(slot(step.v).width == step.n_kv_heads * step.value_size);
  const uint32_t size = std::max(step.head_size, step.value_size);
  const FixedKernel kernel = size <= 64    ? FixedKernel::attend_texts_64
                             : size <= 128 ? FixedKernel::attend_texts_128
                                           : FixedKernel::attend_texts_256;
  const uint32_t n = n_rows(step.q);
  gpu::DistanceBuckets buckets;
  if (step.distance_biases) {
    const Weight w = weight(*step.distance_biases);
    CHECK(w.shape.row_elements == step.n_heads);
    buckets = gpu::distance_buckets(TRY(floats_of(w, w.shape.n_rows * w.shape.row_elements, 0)),
                                    static_cast<uint32_t>(w.shape.n_rows));
  }
  return launch(kernel, {(n + gpu::kAttendTextsRows - 1) / gpu::kAttendTextsRows, step.n_heads},
                gpu::kAttendTextsThreads,
                gpu::AttendTextsArgs{slot(step.out).data, slot(step.q).data, slot(step.k).data, slot(step.v).data,
                                     batch_.first_row, batch_.n_together, n, step.n_heads, step.n_kv_heads,
                                     step.head_size, step.value_size, step.window != 0 ? step.window / 2 : UINT32_MAX,
                                     step.scale, step.softcap, step.alibi_bias, buckets});
}

Result<void> GpuBackend::Runner::operator()(const Pool& step) const {
  CHECK(slot(step.in).width == slot(step.out).width && slot(step.out).rows == SlotRows::outputs);
  return launch(FixedKernel::pool_texts, {n_rows(step.out)}, gpu::kElementThreads,
                gpu::PoolTextsArgs{slot(step.out).data, slot(step.in).data, batch_.output_rows, batch_.poolings,
                                   batch_.first_row, slot(step.in).width, static_cast<uint32_t>(step.of_rank)});
}

Result<void> GpuBackend::Runner::operator()(const AddVector& step) const {
  const uint32_t width = slot(step.slot).width;
  const uint64_t n = uint64_t{n_rows(step.slot)} * width;
  return launch(FixedKernel::add_vector, gpu::rare_grid(n), gpu::kElementThreads,
                gpu::AddVectorArgs{slot(step.slot).data, TRY(vector_of(step.weight, 0)), n, width});
}

}  // namespace rocmforge
