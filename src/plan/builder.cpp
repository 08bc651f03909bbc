#include "plan/builder.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace rocmforge {
void PlanBuilder::build() {
  begin_stage("embedding");
  embed();
  for (uint32_t i = 0; i < spec_.n_layers; i++) {
    begin_stage(fmt::format("layer {}", i));
    is_ = &spec_.layers[i];
    w_ = &weights_.layers[i];
    layer(i);
  }
  begin_stage("output");
  spec_.attends_both_ways ? pool() : logits();
  for (Stage& stage : plan_.stages_) {
    for (const Step& step : stage.steps) add_weights(step, stage.weights);
  }
}

void PlanBuilder::embed() {
  x_ = slot("x", spec_.width);
  emit(Embed{weights_.token_embedding, x_, spec_.embedding_scale, weights_.position_embedding});
  if (weights_.token_type) emit(AddVector{x_, *weights_.token_type});
  if (spec_.normalises_embeddings) emit(norm(x_, x_, weights_.embedding_norm, weights_.embedding_norm_bias));
  if (spec_.per_layer_width == 0) return;
  // (norm(projection * x / sqrt(width)) + embedding * sqrt(their width)) / sqrt(2)
  const uint32_t n = spec_.per_layer_width, all = n * spec_.n_layers;
  per_layer_ = slot("per layer", all);
  const SlotId projected = slot("per layer projected", all);
  emit(Embed{*weights_.per_layer_embedding, per_layer_, std::sqrt(static_cast<float>(n) / 2)});
  Matmul project = product(x_, projected, weights_.per_layer_projection);
  project.scale = 1.0f / std::sqrt(static_cast<float>(spec_.width));
  emit(project);
  emit(norm(projected, projected, weights_.per_layer_norm, std::nullopt, n));
  emit(Add{projected, per_layer_, std::sqrt(0.5f)});
  if (spec_.n_streams > 1) begin_streams();
}

// x += attention(norm x), then x += feed_forward(norm x). Of a parallel residual both read the layer's input.
void PlanBuilder::layer(uint32_t i) {
  Inputs in;
  if (spec_.n_streams > 1) predict_streams();
  before_mixer(in);
  if (w_->laurel_down) add_laurel(in.attention);
  if (has_attention(is_->mixer)) attention(i, in.attention);
  if (is_recurrent(is_->mixer)) recurrent(i, in.attention);
  if (spec_.per_layer_width > 0) {
    per_layer_part_ = slot("layer part", spec_.per_layer_width);
    emit(TakeColumns{per_layer_, per_layer_part_, i * spec_.per_layer_width});
  }
  if (i + 1 == spec_.n_layers && !spec_.attends_both_ways) keep_output_rows(in);
  if (is_->mixer != Mixer::none) {
    mix(in);
    add_attention();
  }
  if (w_->laurel_down) join_laurel();
  if (is_->feed_forward != FeedForward::none) {
    before_feed_forward(in);
    feed_forward(in);
    add_feed_forward();
  }
  spec_.n_streams > 1 ? correct_streams() : end_layer();
}

void PlanBuilder::add_attention() {
  if (spec_.norm_placement == NormPlacement::after_sum) {
    emit(Add{x_, delta_});
    if (w_->attn_second_norm) {
      emit(norm(delta_, delta_, w_->attn_post_norm, w_->attn_post_norm_bias));
      emit(Add{x_, delta_});
      emit(norm(delta_, x_, w_->attn_second_norm, w_->attn_second_norm_bias));
    } else {
      emit(norm(delta_, x_, w_->attn_post_norm, w_->attn_post_norm_bias));
    }
    return;
  }
  if (w_->attn_post_norm) emit(norm(delta_, delta_, w_->attn_post_norm, w_->attn_post_norm_bias));
  emit(Add{delta_, x_, spec_.residual_scale});
}

void PlanBuilder::add_feed_forward() {
  if (spec_.norm_placement == NormPlacement::after_sum) {
    emit(Add{x_, delta_});
    emit(norm(delta_, x_, w_->ffn_post_norm, w_->ffn_post_norm_bias));
    return;
  }
  if (w_->ffn_post_norm) emit(norm(delta_, delta_, w_->ffn_post_norm, w_->ffn_post_norm_bias));
  emit(Add{delta_, x_, spec_.residual_scale});
}

bool PlanBuilder::is_parallel() const {
  switch (spec_.norm_placement) {
    case NormPlacement::shared:
    case NormPlacement::apart:
    case NormPlacement::apart_if_two:
      return true;
    case NormPlacement::shared_unless_two:
      return !w_->ffn_norm;
    case NormPlacement::before:
    case NormPlacement::before_and_after:
    case NormPlacement::after:
    case NormPlacement::after_sum:
      return false;
  }
  RF_UNREACHABLE("a NormPlacement outside its enum");
}

SlotId PlanBuilder::normed(const char* name, Weight weight, Weight bias) {
  if (!weight && spec_.norms_have_weights) return x_;
  const SlotId out = slot(name, spec_.width);
  emit(norm(x_, out, weight, bias));
  return out;
}

void PlanBuilder::before_mixer(Inputs& in) {
  delta_ = slot("delta", spec_.width);
  in.attention = is_->mixer == Mixer::none ? x_ : normed("h", w_->attn_norm, w_->attn_norm_bias);
  if (is_parallel()) {
    in.feed_forward = w_->ffn_norm ? normed("ffn h", w_->ffn_norm, w_->ffn_norm_bias) : in.attention;
    in.experts = in.feed_forward;
  }
  if (w_->router && spec_.experts.router_reads_input) route(x_);
  if (w_->experts_norm && spec_.experts_read_layer_input) in.experts = normed("experts h", w_->experts_norm);
}

void PlanBuilder::before_feed_forward(Inputs& in) {
  const bool experts_have_theirs = w_->experts_norm.has_value();
  if (!is_parallel()) {
    in.feed_forward = normed("h", w_->ffn_norm, w_->ffn_norm_bias);
    if (!experts_have_theirs) in.experts = in.feed_forward;
  }
  if (experts_have_theirs && !spec_.experts_read_layer_input) in.experts = normed("experts h", w_->experts_norm);
}

// After the last layer's attention only the rows whose logits are wanted go on, in slots of their own.
void PlanBuilder::keep_output_rows(Inputs& in) {
  const bool keeps_input = is_parallel() || w_->attn_gate || is_->mixer == Mixer::matrix;
  const bool has_experts_input = w_->experts_norm && spec_.experts_read_layer_input;
  rows_ = SlotRows::outputs;
  const Inputs all = in;
  const SlotId x = x_;
  x_ = take_rows(x);
  const auto taken = [&](SlotId input) { return input == x ? x_ : take_rows(input); };
  if (has_attention(is_->mixer)) {
    attended_ = take_rows(attended_);
    if (spec_.queries_hold_gates) query_gate_ = take_rows(query_gate_);
  }
  if (is_recurrent(is_->mixer)) {
    mixed_ = take_rows(mixed_);
    mix_gate_ = take_rows(mix_gate_);
  }
  if (keeps_input) in.attention = taken(all.attention);
  if (is_parallel()) {
    in.feed_forward = all.feed_forward == all.attention ? in.attention : taken(all.feed_forward);
    in.experts = in.feed_forward;
  }
  if (has_experts_input) in.experts = taken(all.experts);
  if (w_->router && spec_.experts.router_reads_input) scores_ = take_rows(scores_);
  if (spec_.per_layer_width > 0) per_layer_part_ = take_rows(per_layer_part_);
  if (spec_.n_streams > 1) predicted_ = take_rows(predicted_);
  if (w_->laurel_down) laurel_ = take_rows(laurel_);
  delta_ = slot("delta", spec_.width);
}

// What comes behind the two halves of a layer: the token's part for this layer, and a scale.
void PlanBuilder::end_layer() {
  if (w_->per_layer_gate) {
    const SlotId gate = slot("layer gate", spec_.per_layer_width);
    emit(product(x_, gate, w_->per_layer_gate));
    emit(Activate{Activation::gelu, gate, per_layer_part_, gate});
    emit(product(gate, delta_, w_->per_layer_projection));
    emit(norm(delta_, delta_, w_->per_layer_norm));
    emit(Add{delta_, x_});
  }
  if (w_->layer_scale) emit(Scale{x_, *w_->layer_scale});
}

SlotId PlanBuilder::add_slot(const char* name, uint32_t width, SlotRows rows) {
  const auto [at, is_new] =
      slots_.emplace(std::tuple(name, width, rows), SlotId(static_cast<uint32_t>(plan_.slots_.size())));
  if (!is_new) return at->second;
  const bool is_other_width = std::ranges::any_of(slots_, [&](const auto& other) {
    const auto& [other_name, other_width, other_rows] = other.first;
    return other_name == name && other_rows == rows && other_width != width;
  });
  plan_.slots_.push_back({fmt::format("{}{}{}", name, rows == SlotRows::outputs ? "'" : "",
                                      is_other_width ? fmt::format(" of {}", width) : ""),
                          width, rows});
  return at->second;
}

SlotId PlanBuilder::slot(const char* name, uint32_t width) {
  const SlotId of_all = add_slot(name, width, SlotRows::batch);
  return rows_ == SlotRows::batch ? of_all : add_slot(name, width, SlotRows::outputs);
}

SlotId PlanBuilder::output_slot(const char* name, uint32_t width) {
  return add_slot(name, width, SlotRows::outputs);
}

SlotId PlanBuilder::take_rows(SlotId in) {
  const auto from = std::ranges::find(slots_, in, [](const auto& slot) { return slot.second; });
  CHECK(from != slots_.end());
  const auto& [name, width, rows] = from->first;
  const SlotId out = output_slot(std::string(name).c_str(), width);
  emit(TakeRows{in, out});
  return out;
}

}  // namespace rocmforge
