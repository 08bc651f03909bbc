#include "builder.h"

namespace rocmforge::golden_models {

Builder::Builder(std::string architecture, const Dims& d, uint32_t n_layers) : dims(d), n_layers_(n_layers) {
  recipe.architecture = std::move(architecture);
  recipe.n_vocabulary = d.vocabulary;
  set("context_length", 512u).set("embedding_length", d.width).set("block_count", n_layers);
  set("feed_forward_length", d.ff).set("attention.head_count", d.heads).set("attention.head_count_kv", d.kv_heads);
  set("attention.layer_norm_rms_epsilon", 1e-5f).set("rope.freq_base", 10000.0f);
  set("rope.dimension_count", d.head_size).set("vocab_size", d.vocabulary);
}

Builder& Builder::set(const std::string& key, Value value) {
  const std::string full = recipe.architecture + "." + key;
  const auto found = std::ranges::find(recipe.keys, full, &std::pair<std::string, Value>::first);
  if (found != recipe.keys.end()) {
    found->second = std::move(value);
  } else {
    recipe.keys.emplace_back(full, std::move(value));
  }
  return *this;
}

Builder& Builder::drop(const std::string& key) {
  std::erase_if(recipe.keys, [&](const auto& pair) { return pair.first == recipe.architecture + "." + key; });
  return *this;
}

Builder& Builder::layer_norm() {
  return drop("attention.layer_norm_rms_epsilon").set("attention.layer_norm_epsilon", 1e-5f);
}

Builder& Builder::keys(uint32_t head_size) {
  const uint32_t n = head_size ? head_size : dims.head_size;
  return set("attention.key_length", n).set("attention.value_length", n);
}

Builder& Builder::yarn(uint32_t original_context) {
  set("rope.scaling.type", "yarn").set("rope.scaling.factor", 4.0f);
  return set("rope.scaling.original_context_length", original_context);
}

Builder& Builder::tensor(const std::string& name, std::vector<uint64_t> shape) {
  recipe.tensors.push_back({name, std::move(shape)});
  return *this;
}

Builder& Builder::part(const std::string& name, std::vector<uint64_t> shape) {
  return tensor("blk." + std::to_string(layer_) + "." + name, std::move(shape));
}

Builder& Builder::head(bool tied, bool bias) {
  tensor("token_embd.weight", {dims.width, dims.vocabulary}).tensor("output_norm.weight", {dims.width});
  if (!tied) tensor("output.weight", {dims.width, dims.vocabulary});
  if (bias) tensor("output_norm.bias", {dims.width});
  return *this;
}

Builder& Builder::layers(const std::function<void(Builder&, uint32_t)>& make) {
  for (layer_ = 0; layer_ < n_layers_; layer_++) make(*this, layer_);
  return *this;
}

Builder& Builder::norms(std::initializer_list<const char*> names, bool bias) {
  for (const char* name : names) part(std::string(name) + ".weight", {dims.width});
  if (!bias) return *this;
  for (const char* name : names) part(std::string(name) + ".bias", {dims.width});
  return *this;
}

Builder& Builder::attention(const AttentionParts& parts) {
  const uint64_t size = parts.head_size ? parts.head_size : dims.head_size;
  const uint64_t n_kv = parts.kv_heads ? parts.kv_heads : dims.kv_heads;
  const uint64_t q = dims.heads * size, kv = n_kv * size;
  if (parts.fused) {
    part("attn_qkv.weight", {dims.width, q + 2 * kv});
    if (parts.bias) part("attn_qkv.bias", {q + 2 * kv});
  } else {
    part("attn_q.weight", {dims.width, q}).part("attn_k.weight", {dims.width, kv});
    part("attn_v.weight", {dims.width, kv});
    if (parts.bias) part("attn_q.bias", {q}).part("attn_k.bias", {kv}).part("attn_v.bias", {kv});
  }
  if (parts.qk_norm == QkNorm::per_head) part("attn_q_norm.weight", {size}).part("attn_k_norm.weight", {size});
  if (parts.qk_norm == QkNorm::per_row) part("attn_q_norm.weight", {q}).part("attn_k_norm.weight", {kv});
  if (parts.qk_norm == QkNorm::heads) {
    part("attn_q_norm.weight", {size, dims.heads}).part("attn_k_norm.weight", {size, n_kv});
  }
  part("attn_output.weight", {q, dims.width});
  if (parts.output_bias) part("attn_output.bias", {dims.width});
  return *this;
}

Builder& Builder::feed_forward(const FeedForwardParts& parts) {
  const uint64_t up = uint64_t{dims.ff} * parts.up_times;
  part("ffn_up.weight", {dims.width, up}).part("ffn_down.weight", {dims.ff, dims.width});
  if (parts.gate) part("ffn_gate.weight", {dims.width, dims.ff});
  if (parts.bias) part("ffn_up.bias", {up}).part("ffn_down.bias", {dims.width});
  return *this;
}

Builder& Builder::experts(const ExpertParts& parts) {
  const uint64_t ff = parts.ff ? parts.ff : dims.expert_ff, n = parts.n, width = dims.width;
  part("ffn_gate_inp.weight", {width, n}).part("ffn_gate_exps.weight", {width, ff, n});
  part("ffn_up_exps.weight", {width, ff, n}).part("ffn_down_exps.weight", {ff, width, n});
  if (parts.bias) {
    part("ffn_gate_inp.bias", {n}).part("ffn_gate_exps.bias", {ff, n}).part("ffn_up_exps.bias", {ff, n});
    part("ffn_down_exps.bias", {width, n});
  }
  if (parts.choice_bias) part("exp_probs_b.bias", {n});
  if (parts.shared) {
    const uint64_t shared_ff = parts.shared_ff ? parts.shared_ff : ff;
    part("ffn_gate_shexp.weight", {width, shared_ff}).part("ffn_up_shexp.weight", {width, shared_ff});
    part("ffn_down_shexp.weight", {shared_ff, width});
    if (parts.shared_gate) part("ffn_gate_inp_shexp.weight", {width});
  }
  return *this;
}

Builder& Builder::next_token() {
  part("nextn.eh_proj.weight", {2 * uint64_t{dims.width}, dims.width});
  return norms({"nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm"});
}

}  // namespace rocmforge::golden_models
