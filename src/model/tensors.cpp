#include "model/tensors.h"

#include <fmt/core.h>

#include "model/binder.h"

namespace rocmforge {
namespace {

// Divisors of the angles of all layers that have some.
std::optional<TensorRef> bind_rope_factors(Binder& bind, const ModelSpec& spec, uint32_t n_context) {
  const LayerSpec* of = nullptr;
  for (const LayerSpec& layer : spec.layers) {
    if (!layer.has_rope || !layer.has_rope_factors) continue;
    if (of == nullptr) of = &layer;
    if (layer.rope.n_dims != of->rope.n_dims && bind.has("rope_freqs.weight")) {
      bind.fail(ErrorCode::model_unsupported,
                fmt::format("model: tensor 'rope_freqs.weight': layers that rotate {} and {} elements of a head",
                            of->rope.n_dims, layer.rope.n_dims));
    }
  }
  if (of == nullptr) return std::nullopt;
  const Dims dims = {of->rope.n_dims / 2};
  const auto all = bind.find("rope_freqs.weight", dims);
  const auto of_long = bind.find("rope_factors_long.weight", dims);
  const auto of_short = bind.find("rope_factors_short.weight", dims);
  if (all) return all;
  return n_context > of->rope.original_context ? of_long : of_short;
}

void bind_embeddings(Binder& bind, const ModelSpec& spec, ModelTensors& model) {
  const uint64_t d = spec.width;
  model.token_embedding = bind.require("token_embd.weight", {d, spec.n_vocab});
  if (spec.learned_positions) model.position_embedding = bind.require("position_embd.weight", {d, spec.n_context});
  if (spec.has_token_types && bind.has("token_types.weight")) {
    const uint64_t n_types = bind.n_rows("token_types.weight");
    const TensorRef types = bind.require("token_types.weight", {d, n_types});
    model.token_type = n_types > 1 ? rows_of(types, 0, 1, "first") : types;
  }
  if (spec.n_distance_buckets > 0) {
    const std::string name = fmt::format("{}.0.attn_rel_b.weight", spec.layer_prefix);
    model.distance_biases = bind.require(name, {spec.layers[0].n_heads, spec.n_distance_buckets});
  }
  if (spec.normalises_embeddings) {
    model.embedding_norm = bind.require("token_embd_norm.weight", {d});
    model.embedding_norm_bias = bind.find("token_embd_norm.bias", {d});
  }
  if (spec.per_layer_width > 0) {
    const uint64_t all = uint64_t{spec.per_layer_width} * spec.n_layers;
    model.per_layer_embedding = bind.require("per_layer_token_embd.weight", {all, spec.n_vocab});
    model.per_layer_projection = bind.require("per_layer_model_proj.weight", {d, all});
    model.per_layer_norm = bind.require("per_layer_proj_norm.weight", {spec.per_layer_width});
  }
}

// A matrix for each stream behind the first.
std::vector<TensorRef> bind_streams(Binder& bind, const ModelSpec& spec, const std::string& name) {
  static constexpr std::string_view kParts[] = {"stream 1", "stream 2", "stream 3"};
  const uint64_t n = spec.n_streams - 1;
  CHECK(n <= std::size(kParts));
  const TensorRef all = bind.require(name, {spec.width, spec.width, n});
  std::vector<TensorRef> out(n, all);
  for (uint64_t i = 0; i < n; i++) {
    out[i].is_stack = false;
    out[i].n_matrices = 1;
    out[i].skip_bytes = i * all.matrix_bytes;
    out[i].part = kParts[i];
  }
  return out;
}

// An encoder has no logits; some of its files keep the matrix of the decoder that they were made from.
void bind_output(Binder& bind, const ModelSpec& spec, ModelTensors& model) {
  model.tied = true;
  model.output = model.token_embedding;
  if (spec.attends_both_ways) return bind.ignore("output.weight");
  if (const auto output = bind.find("output.weight", {spec.width, spec.n_vocab})) {
    model.tied = false;
    model.output = *output;
  }
  if (spec.has_output_bias) model.output_bias = bind.find("output.bias", {spec.n_vocab});
}

}  // namespace

Result<ModelTensors> bind_tensors(const gguf::GgufFile& file, const ModelSpec& spec, uint32_t n_context) {
  Binder bind(file);
  ModelTensors model;
  bind_embeddings(bind, spec, model);
  if (spec.n_streams > 1) {
    model.to_streams = bind_streams(bind, spec, "altup_proj.weight");
    model.from_streams = bind_streams(bind, spec, "altup_unembd_proj.weight");
  }
  if (spec.norms_have_weights && !spec.output_norm_name.empty()) {
    const std::string name(spec.output_norm_name);
    model.output_norm = bind.require(name + ".weight", {spec.width});
    model.output_norm_bias = bind.find(name + ".bias", {spec.width});
  }
  bind_output(bind, spec, model);
  bind_head(bind, spec, model);
  model.rope_factors = bind_rope_factors(bind, spec, n_context);
  for (uint32_t layer = 0; layer < spec.n_layers && !bind.error(); layer++) {
    model.layers.push_back(bind_layer(bind, spec, layer));
  }
  if (!bind.error()) bind.refuse_unbound(spec);
  if (bind.error()) return *std::move(bind.error());
  return model;
}

}  // namespace rocmforge
