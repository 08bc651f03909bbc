#include <fmt/core.h>

#include "model/binder.h"

namespace rocmforge {
namespace {

// Names in the file, shapes by the spec.
class LayerBinder {
 public:
  LayerBinder(Binder& bind, const ModelSpec& spec, uint32_t layer)
      : bind_(bind), spec_(spec), is_(spec.layers[layer]), layer_(layer) {}

  LayerWeights<TensorRef> bind() {
    if (is_.is_left_out) {
      bind_.ignore_layer(layer_);
      return {};
    }
    norms();
    if (has_attention(is_.mixer)) attention();
    if (has_attention(is_.mixer) || is_.mixer == Mixer::matrix) attention_output();
    if (is_recurrent(is_.mixer)) bind_recurrent(bind_, spec_, layer_, w_);
    const bool has_router = bind_.has(name("ffn_gate_inp.weight"));
    const bool by_router = is_.feed_forward == FeedForward::by_router;
    const bool both = is_.feed_forward == FeedForward::dense_and_experts;
    if (is_.feed_forward == FeedForward::dense || both || (by_router && !has_router)) feed_forward();
    if (is_.feed_forward == FeedForward::experts || both || (by_router && has_router)) experts();
    if (spec_.per_layer_width > 0) per_layer();
    if (spec_.n_streams > 1) streams();
    if (spec_.has_layer_scales) w_.layer_scale = find("layer_output_scale.weight", {1});
    return std::move(w_);
  }

 private:
  using Weight = std::optional<TensorRef>;

  std::string name(std::string_view rest) const { return fmt::format("{}.{}.{}", spec_.layer_prefix, layer_, rest); }
  TensorRef require(std::string_view rest, Dims dims) { return bind_.require(name(rest), dims); }
  Weight find(std::string_view rest, Dims dims) { return bind_.find(name(rest), dims); }

  // Some families leave ".weight" out of the names of some norms.
  TensorRef require_norm(std::string_view rest, Dims dims) {
    const std::string usual = name(rest) + ".weight";
    return bind_.require(!bind_.has(usual) && bind_.has(name(rest)) ? name(rest) : usual, dims);
  }
  Weight find_norm(std::string_view rest, Dims dims) {
    return bind_.has(name(rest) + ".weight") ? Weight(require_norm(rest, dims)) : std::nullopt;
  }
  Weight scale(std::string_view matrix) {
    return spec_.has_weight_scales ? find(fmt::format("{}.scale", matrix), {1}) : std::nullopt;
  }

  void attention_norm(std::string_view rest) {
    w_.attn_norm = require_norm(rest, {spec_.width});
    w_.attn_norm_bias = find(fmt::format("{}.bias", rest), {spec_.width});
  }
  void feed_forward_norm(std::string_view rest) {
    w_.ffn_norm = require_norm(rest, {spec_.width});
    w_.ffn_norm_bias = find(fmt::format("{}.bias", rest), {spec_.width});
  }

  void norms() {
    if (!spec_.norms_have_weights) return;
    const bool mixes = is_.mixer != Mixer::none, feeds = is_.feed_forward != FeedForward::none;
    const std::string_view ffn = spec_.ffn_norm_name;
    switch (spec_.norm_placement) {
      case NormPlacement::before:
      case NormPlacement::before_and_after:
      case NormPlacement::apart:
        if (mixes && is_.has_attention_norm) attention_norm("attn_norm");
        if (feeds) feed_forward_norm(ffn);
        break;
      case NormPlacement::shared:
        attention_norm("attn_norm");
        break;
      case NormPlacement::shared_unless_two:
        attention_norm("attn_norm");
        if (bind_.has(name(ffn) + ".weight")) feed_forward_norm(ffn);
        break;
      case NormPlacement::apart_if_two:
        if (bind_.has(name("attn_norm_2.weight"))) {
          attention_norm("attn_norm_2");
          feed_forward_norm("attn_norm");
        } else {
          attention_norm("attn_norm");
        }
        break;
      case NormPlacement::after:
      case NormPlacement::after_sum:
        break;
    }
    const bool sums = spec_.norm_placement == NormPlacement::after_sum;
    if (sums || spec_.norm_placement == NormPlacement::after ||
        spec_.norm_placement == NormPlacement::before_and_after) {
      post_norm(spec_.attention_post_norm_name, w_.attn_post_norm, w_.attn_post_norm_bias);
      post_norm(spec_.ffn_post_norm_name, w_.ffn_post_norm, w_.ffn_post_norm_bias);
    }
    if (sums && bind_.has(name("attn_norm_2.weight"))) {
      post_norm("attn_norm_2", w_.attn_second_norm, w_.attn_second_norm_bias);
    }
  }

  void post_norm(std::string_view rest, Weight& weight, Weight& bias) {
    weight = require_norm(rest, {spec_.width});
    bias = find(fmt::format("{}.bias", rest), {spec_.width});
  }

  void attention() {
    const uint64_t d = spec_.width, q = is_.q_width(), k = is_.k_width(), v = is_.v_width();
    const bool has_own_cache = is_.cache == layer_;
    if (has_own_cache && bind_.has(name("attn_qkv.weight"))) {
      const TensorRef qkv = require("attn_qkv.weight", {d, q + k + v});
      w_.q = rows_of(qkv, 0, q, "q");
      w_.k = rows_of(qkv, q, k, "k");
      w_.v = rows_of(qkv, q + k, v, "v");
      if (const auto bias = find("attn_qkv.bias", {q + k + v})) {
        w_.q_bias = rows_of(*bias, 0, q, "q");
        w_.k_bias = rows_of(*bias, q, k, "k");
        w_.v_bias = rows_of(*bias, q + k, v, "v");
      }
    } else {
      w_.q = require("attn_q.weight", {d, spec_.queries_hold_gates ? 2 * q : q});
      w_.q_bias = find("attn_q.bias", {q});
      w_.q_scale = scale("attn_q");
      if (has_own_cache) keys_and_values();
    }
    if (spec_.qkv_bias && !(w_.q_bias && w_.k_bias && w_.v_bias)) {
      bind_.fail(ErrorCode::model_tensor_missing,
                 fmt::format("model: no tensor '{}', '{}' or '{}': {} needs all three", name("attn_q.bias"),
                             name("attn_k.bias"), name("attn_v.bias"), spec_.architecture));
    }
    switch (spec_.sinks) {
      case SinkTensors::none:
        break;
      case SinkTensors::required:
        w_.sinks = require("attn_sinks.weight", {is_.n_heads});
        break;
      case SinkTensors::where_present:
        w_.sinks = find("attn_sinks.weight", {is_.n_heads});
        break;
    }
    query_key_norms(has_own_cache);
    if (spec_.output_gate != OutputGate::none) {
      const bool by_head = bind_.has_rows(name("attn_gate.weight"), is_.n_heads);
      w_.attn_gate = require("attn_gate.weight", {d, by_head ? is_.n_heads : is_.attended_width()});
    }
    if (spec_.has_inner_norms) w_.attn_sub_norm = require_norm("attn_sub_norm", {is_.attended_width()});
    // Files of layers that read another one's cache may still hold what they would need for their own.
    if (has_own_cache) return;
    for (const char* unused : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"}) bind_.ignore(name(unused));
  }

  void keys_and_values() {
    const uint64_t d = spec_.width, k = is_.k_width(), v = is_.v_width();
    w_.k = require("attn_k.weight", {d, k});
    w_.k_bias = find("attn_k.bias", {k});
    w_.k_scale = scale("attn_k");
    if (spec_.values_may_be_keys && k == v && !bind_.has(name("attn_v.weight"))) return;
    w_.v = require("attn_v.weight", {d, v});
    w_.v_bias = find("attn_v.bias", {v});
    w_.v_scale = scale("attn_v");
  }

  void attention_output() {
    const uint64_t d = spec_.width, from = is_.mixer == Mixer::matrix ? d : is_.attended_width();
    const std::string_view output = spec_.attention_output_name;
    w_.attn_output = require(fmt::format("{}.weight", output), {from, d});
    w_.attn_output_bias = find(fmt::format("{}.bias", output), {d});
    w_.attn_output_scale = scale(output);
  }

  // A norm of heads with weights of their own: those of all heads in a row.
  Weight own_heads(std::string_view rest, uint64_t head, uint64_t n) {
    const auto norm = find(fmt::format("{}.weight", rest), {head, n});
    return norm ? Weight(as_vector(*norm)) : std::nullopt;
  }

  void query_key_norms(bool has_keys) {
    const uint64_t q = is_.q_width(), k = is_.k_width(), head = is_.key_size;
    switch (spec_.qk_norm) {
      case QkNorm::none:
      case QkNorm::plain_heads:
        break;
      case QkNorm::heads:
        w_.q_norm = require("attn_q_norm.weight", {head});
        if (has_keys) w_.k_norm = require("attn_k_norm.weight", {head});
        break;
      case QkNorm::heads_if_present:
        w_.q_norm = find("attn_q_norm.weight", {head});
        if (has_keys) w_.k_norm = find("attn_k_norm.weight", {head});
        break;
      case QkNorm::own_heads_if_present:
        w_.q_norm = own_heads("attn_q_norm", head, is_.n_heads);
        w_.k_norm = own_heads("attn_k_norm", head, is_.n_kv_heads);
        break;
      case QkNorm::row:
        w_.q_norm = require("attn_q_norm.weight", {q});
        w_.k_norm = require("attn_k_norm.weight", {k});
        break;
      case QkNorm::row_if_present:
        w_.q_norm = find("attn_q_norm.weight", {q});
        w_.k_norm = find("attn_k_norm.weight", {k});
        w_.q_norm_bias = find("attn_q_norm.bias", {q});
        w_.k_norm_bias = find("attn_k_norm.bias", {k});
        break;
    }
  }

  void feed_forward() {
    const uint64_t d = spec_.width, ff = is_.ff_width;
    const bool may_lack_gate = spec_.ungated_activation && bind_.has_rows(name("ffn_up.weight"), ff);
    const bool is_gated = spec_.gated && (!may_lack_gate || bind_.has(name("ffn_gate.weight")));
    if (is_gated && !bind_.has(name("ffn_gate.weight")) && bind_.has_rows(name("ffn_up.weight"), 2 * ff)) {
      const TensorRef both = require("ffn_up.weight", {d, 2 * ff});
      w_.ffn_gate = rows_of(both, 0, ff, "gate");
      w_.ffn_up = rows_of(both, ff, ff, "up");
    } else {
      if (is_gated) {
        w_.ffn_gate = require("ffn_gate.weight", {d, ff});
        w_.ffn_gate_bias = find("ffn_gate.bias", {ff});
        w_.ffn_gate_scale = scale("ffn_gate");
      }
      w_.ffn_up = require("ffn_up.weight", {d, ff});
      w_.ffn_up_bias = find("ffn_up.bias", {ff});
      w_.ffn_up_scale = scale("ffn_up");
    }
    w_.ffn_down = require("ffn_down.weight", {ff, d});
    w_.ffn_down_bias = find("ffn_down.bias", {d});
    w_.ffn_down_scale = scale("ffn_down");
    if (spec_.has_inner_norms) w_.ffn_sub_norm = require_norm("ffn_sub_norm", {ff});
    if (spec_.has_branch_norms) w_.dense_post_norm = require_norm("post_ffw_norm_1", {d});
  }

  void experts() {
    const uint64_t n = spec_.experts.n_experts, ff = spec_.experts.width, latent = spec_.experts.latent_width;
    const uint64_t d = latent != 0 ? latent : spec_.width;  // as experts see it
    if (!spec_.experts_norm_name.empty()) w_.experts_norm = require_norm(spec_.experts_norm_name, {d});
    w_.router = require("ffn_gate_inp.weight", {spec_.width, n});
    w_.router_bias = find("ffn_gate_inp.bias", {n});
    w_.router_choice_bias = find(spec_.choice_bias_name, {n});
    if (latent != 0) {
      w_.latent_down = require("ffn_latent_down.weight", {spec_.width, latent});
      w_.latent_up = require("ffn_latent_up.weight", {latent, spec_.width});
    }
    if (!spec_.gated) {
      w_.experts_up = require("ffn_up_exps.weight", {d, ff, n});
    } else if (bind_.has(name("ffn_gate_up_exps.weight"))) {
      const TensorRef both = require("ffn_gate_up_exps.weight", {d, 2 * ff, n});
      w_.experts_gate = rows_of(both, 0, ff, "gate");
      w_.experts_up = rows_of(both, ff, ff, "up");
    } else {
      w_.experts_gate = require("ffn_gate_exps.weight", {d, ff, n});
      w_.experts_up = require("ffn_up_exps.weight", {d, ff, n});
      w_.experts_gate_bias = find("ffn_gate_exps.bias", {ff, n});
      w_.experts_up_bias = find("ffn_up_exps.bias", {ff, n});
    }
    w_.experts_down = require("ffn_down_exps.weight", {ff, d, n});
    w_.experts_down_bias = find("ffn_down_exps.bias", {d, n});
    if (spec_.has_branch_norms) {
      w_.router_norm = require("ffn_gate_inp.scale", {d});
      w_.experts_post_norm = require_norm("post_ffw_norm_2", {d});
      w_.experts_down_scale = find("ffn_down_exps.scale", {n});
    }
    if (spec_.experts.shared_width > 0) shared_expert();
  }

  void shared_expert() {
    const uint64_t d = spec_.width, shared = spec_.experts.shared_width;
    const bool is_fused = spec_.gated && !bind_.has(name("ffn_gate_shexp.weight"));
    if (is_fused && bind_.has_rows(name("ffn_up_shexp.weight"), 2 * shared)) {
      const TensorRef both = require("ffn_up_shexp.weight", {d, 2 * shared});
      w_.shared_gate = rows_of(both, 0, shared, "gate");
      w_.shared_up = rows_of(both, shared, shared, "up");
    } else {
      if (spec_.gated) w_.shared_gate = require("ffn_gate_shexp.weight", {d, shared});
      w_.shared_up = require("ffn_up_shexp.weight", {d, shared});
    }
    w_.shared_down = require("ffn_down_shexp.weight", {shared, d});
    if (spec_.has_shared_gate) w_.shared_router = require("ffn_gate_inp_shexp.weight", {d});
  }

  void per_layer() {
    const uint64_t d = spec_.width, n = spec_.per_layer_width;
    w_.per_layer_gate = require("inp_gate.weight", {d, n});
    w_.per_layer_projection = require("proj.weight", {n, d});
    w_.per_layer_norm = require_norm("post_norm", {d});
  }

  void streams() {
    const uint64_t d = spec_.width, n = spec_.n_streams, rank = bind_.n_rows(name("laurel_l.weight"));
    w_.stream_router_norm = require_norm("altup_router_norm", {d});
    w_.stream_router = require("altup_router.weight", {d, n});
    w_.stream_predict = require("altup_predict_coef.weight", {n, n * n});
    w_.stream_correct = require("altup_correct_coef.weight", {n, n});
    w_.stream_scale = require("altup_correct_scale.weight", {d});
    w_.laurel_down = require("laurel_l.weight", {d, rank});
    w_.laurel_up = require("laurel_r.weight", {rank, d});
    w_.laurel_norm = require_norm("laurel_post_norm", {d});
  }

  Binder& bind_;
  const ModelSpec& spec_;
  const LayerSpec& is_;
  uint32_t layer_;
  LayerWeights<TensorRef> w_;
};

}  // namespace

LayerWeights<TensorRef> bind_layer(Binder& bind, const ModelSpec& spec, uint32_t layer) {
  return LayerBinder(bind, spec, layer).bind();
}

}  // namespace rocmforge
