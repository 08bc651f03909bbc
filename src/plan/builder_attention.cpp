#include "plan/builder.h"

namespace rocmforge {

void PlanBuilder::attention(uint32_t i, SlotId in) {
  q_ = slot("q", is_->q_width());
  attended_ = slot("attended", is_->attended_width());
  const bool has_own_cache = is_->cache == i;
  const bool holds_gates = spec_.queries_hold_gates;
  const SlotId queries = holds_gates ? slot("q and gate", 2 * is_->q_width()) : q_;
  Matmul products{in, {{*w_->q, w_->q_bias, queries, w_->q_scale}}};
  products.clamp = spec_.qkv_clamp;
  if (has_own_cache) {
    k_ = slot("k", is_->k_width());
    v_ = slot("v", is_->v_width());
    products.parts.push_back({*w_->k, w_->k_bias, k_, w_->k_scale});
    if (w_->v) products.parts.push_back({*w_->v, w_->v_bias, v_, w_->v_scale});
  } else {
    k_ = v_ = q_;
  }
  emit(std::move(products));
  if (holds_gates) {
    const uint32_t head = is_->key_size;
    query_gate_ = slot("q gate", is_->q_width());
    emit(TakeColumns{queries, q_, 0, 2 * head, head});
    emit(TakeColumns{queries, query_gate_, head, 2 * head, head});
  }
  // Without a matrix of their own values are the keys as they are here.
  if (has_own_cache && spec_.normalises_values) {
    emit(norm(w_->v ? v_ : k_, v_, std::nullopt, std::nullopt, is_->value_size));
  }
  if (!spec_.qk_norm_after_rope) normalise_heads();
  if (is_->has_rope) {
    const auto factors = is_->has_rope_factors ? weights_.rope_factors : std::nullopt;
    emit(Rope{is_->rope, factors, is_->key_size, q_, k_});
  }
  if (spec_.qk_norm_after_rope) normalise_heads();
  if (is_->has_temperature) emit(Temper{q_, spec_.temperature});
  spec_.attends_both_ways ? attend_both_ways() : attend(i);
}

void PlanBuilder::attend(uint32_t i) {
  if (is_->cache == i) emit(StoreKv{i, k_, v_});
  Attend attend{is_->cache, is_->n_heads, is_->n_kv_heads, is_->key_size,           spec_.attention_scale,
                q_,         attended_,    is_->window,     spec_.attention_softcap, w_->sinks};
  if (is_->value_size != is_->key_size) attend.value_size = is_->value_size;
  attend.chunk = is_->chunk;
  attend.alibi_bias = spec_.alibi_bias;
  emit(attend);
}

void PlanBuilder::attend_both_ways() {
  emit(AttendBothWays{.n_heads = is_->n_heads,
                      .n_kv_heads = is_->n_kv_heads,
                      .head_size = is_->key_size,
                      .value_size = is_->value_size,
                      .scale = spec_.attention_scale,
                      .q = q_,
                      .k = k_,
                      .v = v_,
                      .out = attended_,
                      .window = is_->window,
                      .softcap = spec_.attention_softcap,
                      .alibi_bias = spec_.alibi_bias,
                      .distance_biases = weights_.distance_biases});
}

void PlanBuilder::normalise_heads() {
  const bool are_plain = spec_.qk_norm == QkNorm::plain_heads && is_->has_rope;
  const bool is_whole_row = spec_.qk_norm == QkNorm::row || spec_.qk_norm == QkNorm::row_if_present;
  const uint32_t group = is_whole_row ? 0 : is_->key_size;
  if (w_->q_norm || are_plain) emit(norm(q_, q_, w_->q_norm, w_->q_norm_bias, group));
  if (k_ != q_ && (w_->k_norm || are_plain)) emit(norm(k_, k_, w_->k_norm, w_->k_norm_bias, group));
}

void PlanBuilder::mix(const Inputs& in) {
  if (is_->mixer == Mixer::matrix) {
    emit(product(in.attention, delta_, w_->attn_output, w_->attn_output_bias));
    return;
  }
  if (!has_attention(is_->mixer)) return mix_recurrent(delta_);
  if (spec_.queries_hold_gates) emit(Gate{OutputGate::sigmoid, attended_, query_gate_, attended_});
  if (w_->attn_gate) {
    const bool by_head = requests_[w_->attn_gate->value].shape.n_rows == is_->n_heads;
    const SlotId gate = slot("attention gate", by_head ? is_->n_heads : is_->attended_width());
    emit(product(in.attention, gate, w_->attn_gate));
    emit(Gate{spec_.output_gate, attended_, gate, attended_});
  }
  if (w_->attn_sub_norm) emit(norm(attended_, attended_, w_->attn_sub_norm));
  Matmul output = product(attended_, delta_, w_->attn_output, w_->attn_output_bias, w_->attn_output_scale);
  output.scale = spec_.attention_output_scale;
  emit(std::move(output));
  if (!is_recurrent(is_->mixer)) return;
  const SlotId beside = slot("scan delta", spec_.width);
  mix_recurrent(beside);
  emit(Add{beside, delta_});
}

}  // namespace rocmforge
