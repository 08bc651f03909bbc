#include "plan/builder.h"

namespace rocmforge {

void PlanBuilder::logits() {
  if (spec_.n_streams > 1) end_streams();
  plan_.hidden_ = output_slot("hidden", spec_.width);
  plan_.logits_ = output_slot("logits", spec_.n_vocab);
  emit(norm(x_, plan_.hidden_, weights_.output_norm, weights_.output_norm_bias));
  emit(Matmul{
      plan_.hidden_, {{weights_.output, weights_.output_bias, plan_.logits_}}, spec_.logit_scale, spec_.logit_softcap});
  classify(plan_.hidden_);
}

void PlanBuilder::pool() {
  SlotId rows = x_;
  if (weights_.output_norm) {
    rows = slot("h", spec_.width);
    emit(norm(x_, rows, weights_.output_norm, weights_.output_norm_bias));
  }
  rows_ = SlotRows::outputs;
  const SlotId pooled = slot("pooled", spec_.width);
  emit(Pool{rows, pooled, spec_.classifier.pooling});
  classify(pooled);
  plan_.hidden_ = embedding_layers(pooled);
}

SlotId PlanBuilder::embedding_layers(SlotId in) {
  for (const auto& weight : weights_.embedding_layers) {
    if (!weight) continue;
    const auto width = static_cast<uint32_t>(requests_[weight->value].shape.n_rows);
    const SlotId out = slot("embedding", width);
    emit(product(in, out, weight));
    in = out;
  }
  return in;
}

void PlanBuilder::classify(SlotId in) {
  if (!weights_.classifier && !weights_.scores) return;
  rows_ = SlotRows::outputs;
  if (weights_.classifier) in = hidden_class(in);
  if (weights_.scores) {
    const SlotId scores = slot("class scores", static_cast<uint32_t>(requests_[weights_.scores->value].shape.n_rows));
    emit(product(in, scores, weights_.scores, weights_.scores_bias));
    in = scores;
  }
  plan_.scores_ = in;
}

SlotId PlanBuilder::hidden_class(SlotId in) {
  const auto width = static_cast<uint32_t>(requests_[weights_.classifier->value].shape.n_rows);
  const SlotId hidden = slot("class h", width);
  Matmul layer = product(in, hidden, weights_.classifier, weights_.classifier_bias);
  if (!spec_.classifier.has_gelu) layer.softcap = 1;  // tanh
  emit(std::move(layer));
  if (spec_.classifier.has_gelu) emit(Activate{Activation::gelu, hidden, hidden, hidden, false});
  if (weights_.classifier_norm) emit(norm(hidden, hidden, weights_.classifier_norm));
  return hidden;
}

}  // namespace rocmforge
