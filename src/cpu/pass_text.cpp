// Steps over whole texts: attention both ways, pooling.

#include <algorithm>

#include "base/check.h"
#include "cpu/pass.h"

namespace rocmforge {

void CpuBackend::Pass::operator()(const AttendBothWays& step) const {
  CHECK(slot(step.q).width == step.n_heads * step.head_size && slot(step.k).width == step.n_kv_heads * step.head_size);
  CHECK(slot(step.out).width == step.n_heads * step.value_size);
  CHECK(slot(step.v).width == step.n_kv_heads * step.value_size);
  self_.text_attention_.attend({slot(step.q).data, slot(step.k).data, slot(step.v).data, slot(step.out).data}, step,
                               rows_of(step.distance_biases), batch_);
}

void CpuBackend::Pass::operator()(const Pool& step) const {
  const uint32_t n = slot(step.in).width;
  CHECK(slot(step.out).width == n && slot(step.out).rows == SlotRows::outputs);
  size_t at = 0;  // the text of an output row
  for (uint32_t i = 0; i < batch_.n_outputs(); i++) {
    while (batch_.output_rows[i] >= batch_.sequences[at].first_row + batch_.sequences[at].n_rows) at++;
    const BatchSequence& text = batch_.sequences[at];
    const uint32_t last = text.first_row + text.n_rows - 1;
    const Pooling pooling = text.pooling == Pooling::rank ? step.of_rank : text.pooling;
    switch (pooling) {
      case Pooling::first:
        std::copy_n(row(step.in, text.first_row), n, row(step.out, i));
        break;
      case Pooling::last:
        std::copy_n(row(step.in, last), n, row(step.out, i));
        break;
      case Pooling::mean:
        std::copy_n(row(step.in, text.first_row), n, row(step.out, i));
        for (uint32_t r = text.first_row + 1; r <= last; r++) kernels().add(row(step.out, i), row(step.in, r), n);
        cpu::scale_row(row(step.out, i), n, 1.0f / static_cast<float>(text.n_rows));
        break;
      case Pooling::rank:
        RF_UNREACHABLE("a classifier's input is pooled by its scores");
    }
  }
}

void CpuBackend::Pass::operator()(const AddVector& step) const {
  const cpu::Vector vector = vector_of(step.weight);
  CHECK(vector.values.size() == slot(step.slot).width);
  self_.workers_.run(n_rows(step.slot), [&](size_t r, size_t) {
    kernels().add(row(step.slot, r), vector.values.data(), vector.values.size());
  });
}

}  // namespace rocmforge
