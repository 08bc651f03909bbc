#include <cmath>

#include "plan/builder.h"

namespace rocmforge {

// Dense, a mixture of experts, or both beside each other; the sum becomes delta.
void PlanBuilder::feed_forward(const Inputs& in) {
  if (w_->ffn_up) {
    dense(in.feed_forward);
    if (w_->dense_post_norm) emit(norm(delta_, delta_, w_->dense_post_norm));
  }
  if (!w_->router) return;
  const SlotId out = w_->ffn_up ? slot("experts delta", spec_.width) : delta_;
  if (!spec_.experts.router_reads_input) route(w_->router_norm ? normed("router h", w_->router_norm) : in.experts);
  experts(in.experts, out);
  if (w_->experts_post_norm) emit(norm(out, out, w_->experts_post_norm));
  if (out != delta_) emit(Add{out, delta_});
}

void PlanBuilder::dense(SlotId in) {
  const SlotId gate = slot("gate", is_->ff_width), up = slot("up", is_->ff_width);
  const bool is_gated = w_->ffn_gate.has_value();
  if (is_gated) {
    emit(Matmul{in,
                {{*w_->ffn_gate, w_->ffn_gate_bias, gate, w_->ffn_gate_scale},
                 {*w_->ffn_up, w_->ffn_up_bias, up, w_->ffn_up_scale}}});
  } else {
    emit(product(in, gate, w_->ffn_up, w_->ffn_up_bias, w_->ffn_up_scale));
  }
  if (is_->sparse_cut != 0) emit(CutRow{gate, is_->sparse_cut});
  emit(activate(gate, up, is_gated, is_->dense_clamp));
  if (w_->ffn_sub_norm) emit(norm(gate, gate, w_->ffn_sub_norm));
  Matmul down = product(gate, delta_, w_->ffn_down, w_->ffn_down_bias, w_->ffn_down_scale);
  if (w_->router) down.scale = spec_.dense_scale;
  emit(std::move(down));
}

void PlanBuilder::route(SlotId in) {
  scores_ = slot("scores", spec_.experts.n_experts);
  Matmul scores = product(in, scores_, w_->router, w_->router_bias);
  // What a norm of its own made for the router is scaled as its matrix expects.
  if (w_->router_norm) scores.scale = 1.0f / std::sqrt(static_cast<float>(spec_.width));
  emit(std::move(scores));
}

void PlanBuilder::experts(SlotId in, SlotId out) {
  const ExpertSpec& e = spec_.experts;
  routing_ = slot("routing", 2 * e.n_used);
  Route choose{e.n_experts, e.n_used, e.normalise_weights,   scores_, routing_,
               e.gating,    e.scale,  w_->router_choice_bias};
  choose.expert_scale = w_->experts_down_scale;
  choose.n_groups = e.n_groups;
  choose.n_groups_used = e.n_groups_used;
  const SlotId from = w_->latent_down ? slot("latent", e.latent_width) : in;
  const SlotId to = w_->latent_up ? slot("latent delta", e.latent_width) : out;
  if (from != in) emit(product(in, from, w_->latent_down));
  emit(choose);
  chosen_experts(from, to);
  if (to != out) emit(product(to, out, w_->latent_up));
  if (w_->shared_up) shared_expert(in, out);
}

void PlanBuilder::chosen_experts(SlotId in, SlotId out) {
  const ExpertSpec& e = spec_.experts;
  const SlotId hidden_gate = slot("expert gate", e.n_used * e.width), hidden_up = slot("expert up", e.n_used * e.width);
  const ExpertStack up{*w_->experts_up, e.n_experts}, down{*w_->experts_down, e.n_experts};
  Stage& stage = plan_.stages_.back();
  stage.experts = {stage.steps.size(), 0, routing_, e.n_used, {up, down}, {}};
  if (w_->experts_gate) {
    const ExpertStack gate{*w_->experts_gate, e.n_experts};
    stage.experts->stacks = {gate, up, down};
    emit(ExpertMatmul{
        e.n_used, in, routing_, {{gate, hidden_gate, w_->experts_gate_bias}, {up, hidden_up, w_->experts_up_bias}}});
  } else {
    emit(ExpertMatmul{e.n_used, in, routing_, {{up, hidden_gate, w_->experts_up_bias}}});
  }
  if (e.weighs_inputs) emit(WeighExperts{e.n_used, routing_, {hidden_gate, hidden_up}});
  emit(activate(hidden_gate, hidden_up, w_->experts_gate.has_value(), is_->expert_clamp));
  emit(ExpertCombine{e.n_used, hidden_gate, routing_, out, down, w_->experts_down_bias});
}

// Every row uses it; in some families as much as a gate says.
void PlanBuilder::shared_expert(SlotId in, SlotId out) {
  const uint32_t width = spec_.experts.shared_width;
  const SlotId gate = slot("shared gate", width), up = slot("shared up", width);
  const SlotId delta = slot("shared delta", spec_.width);
  if (w_->shared_gate) {
    emit(Matmul{in, {{*w_->shared_gate, std::nullopt, gate}, {*w_->shared_up, std::nullopt, up}}});
  } else {
    emit(product(in, gate, w_->shared_up));
  }
  emit(activate(gate, up, w_->shared_gate.has_value(), is_->dense_clamp));
  Matmul down = product(gate, delta, w_->shared_down);
  down.scale = spec_.experts.shared_scale;
  emit(std::move(down));
  if (w_->shared_router) {
    const SlotId share = slot("shared share", 1);
    emit(product(in, share, w_->shared_router));
    emit(Gate{OutputGate::sigmoid, delta, share, delta});
  }
  emit(Add{delta, out});
}

}  // namespace rocmforge
