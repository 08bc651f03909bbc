// Several residual streams (AltUp): a layer predicts all of them from each other, computes the first one, and corrects
// all by what that changed.

#include <cmath>

#include "plan/builder.h"

namespace rocmforge {

// The first stream is the embedding, the others are products of it, as long as it.
void PlanBuilder::begin_streams() {
  const uint32_t d = spec_.width, n = spec_.n_streams;
  streams_ = slot("streams", n * d);
  emit(TakeColumns{x_, streams_, 0, d, d});
  const SlotId others = slot("other streams", (n - 1) * d), one = slot("stream", d);
  for (uint32_t i = 0; i + 1 < n; i++) {
    emit(product(x_, one, weights_.to_streams[i]));
    emit(TakeColumns{one, others, 0, d, d, i * d});
  }
  emit(MatchLength{others, x_});
  emit(TakeColumns{others, streams_, 0, (n - 1) * d, (n - 1) * d, d});
}

// weight * tanh(router * norm(of) / width)
SlotId PlanBuilder::stream_coefficients(const char* name, SlotId of, std::optional<WeightId> weight, uint32_t n) {
  const SlotId normed = slot("router h", spec_.width), routed = slot("stream scores", spec_.n_streams);
  const SlotId out = slot(name, n);
  emit(norm(of, normed, w_->stream_router_norm));
  Matmul router = product(normed, routed, w_->stream_router);
  router.scale = 1.0f / static_cast<float>(spec_.width);
  router.softcap = 1;  // tanh
  emit(std::move(router));
  emit(product(routed, out, weight));
  return out;
}

// predicted = streams + coefficients * streams; x becomes the first of them.
void PlanBuilder::predict_streams() {
  const uint32_t d = spec_.width, n = spec_.n_streams;
  x_ = slot("x", d);
  predicted_ = slot("predicted", n * d);
  emit(TakeColumns{streams_, x_});
  const SlotId coefficients = stream_coefficients("prediction", x_, w_->stream_predict, n * n);
  emit(MixStreams{.in = streams_, .out = predicted_, .n_in = n, .n_out = n, .coefficients = coefficients});
  emit(Add{streams_, predicted_});
  emit(TakeColumns{predicted_, x_});
}

// laurel = in + norm(up * down * in)
void PlanBuilder::add_laurel(SlotId in) {
  const auto rank = static_cast<uint32_t>(requests_[w_->laurel_down->value].shape.n_rows);
  const SlotId narrow = slot("laurel rank", rank);
  laurel_ = slot("laurel", spec_.width);
  emit(product(in, narrow, w_->laurel_down));
  emit(product(narrow, laurel_, w_->laurel_up));
  emit(norm(laurel_, laurel_, w_->laurel_norm));
  emit(Add{in, laurel_});
}

// x = (x + laurel) / sqrt(2)
void PlanBuilder::join_laurel() {
  emit(Add{laurel_, x_});
  emit(MixStreams{.in = x_, .out = x_, .scale = std::sqrt(0.5f)});
}

// streams = predicted + (1 + coefficients) * (x - the first predicted one); then the token's part for this layer is
// added to all but the first.
void PlanBuilder::correct_streams() {
  const uint32_t d = spec_.width, n = spec_.n_streams;
  const SlotId coefficients = stream_coefficients("correction", x_, w_->stream_correct, n);
  const SlotId first = slot("stream", d);
  streams_ = slot("streams", n * d);
  emit(TakeColumns{predicted_, first});
  emit(Add{first, x_, -1});
  emit(MixStreams{.in = x_, .out = streams_, .n_out = n, .coefficients = coefficients, .offset = 1});
  emit(Add{predicted_, streams_});

  const SlotId gate = slot("layer gate", spec_.per_layer_width), added = slot("added streams", n * d);
  emit(TakeColumns{streams_, first});
  emit(Scale{first, *w_->stream_scale});
  emit(product(first, gate, w_->per_layer_gate));
  emit(Activate{Activation::gelu, gate, per_layer_part_, gate});
  emit(product(gate, delta_, w_->per_layer_projection));
  emit(norm(delta_, delta_, w_->per_layer_norm));
  emit(MixStreams{.in = delta_, .out = added, .n_out = n, .first = 1});
  emit(Add{added, streams_});
}

// x = the mean of the first stream and of products of the others, as long as it.
void PlanBuilder::end_streams() {
  const uint32_t d = spec_.width, n = spec_.n_streams;
  x_ = slot("x", d);
  emit(TakeColumns{streams_, x_});
  const SlotId others = slot("other streams", (n - 1) * d), one = slot("stream", d), made = slot("h", d);
  for (uint32_t i = 0; i + 1 < n; i++) {
    emit(TakeColumns{streams_, one, (i + 1) * d});
    emit(product(one, made, weights_.from_streams[i]));
    emit(TakeColumns{made, others, 0, d, d, i * d});
  }
  emit(MatchLength{others, x_});
  emit(MixStreams{.in = others, .out = one, .n_in = n - 1});
  emit(Add{one, x_});
  emit(MixStreams{.in = x_, .out = x_, .scale = 1.0f / static_cast<float>(n)});
}

}  // namespace rocmforge
