// The forward pass of every family, written once, top to bottom.

#include <algorithm>
#include <unordered_map>

#include <fmt/core.h>

#include "plan/execution_plan.h"

namespace rocmforge {
namespace {

WeightShape shape_of(const gguf::TensorInfo& tensor) {
  return {tensor.dtype, tensor.dims[0], tensor.dims[1], tensor.dims[2] * tensor.dims[3]};
}

// Gives every tensor a WeightId in the order of first use; a tied tensor gets one.
class Handles {
 public:
  WeightId add(const gguf::TensorInfo* tensor, uint32_t stage) {
    const auto [at, is_new] = ids_.emplace(tensor, WeightId(static_cast<uint32_t>(requests_.size())));
    if (is_new) requests_.push_back({tensor, shape_of(*tensor), stage});
    return at->second;
  }
  std::optional<WeightId> add(std::optional<const gguf::TensorInfo*> tensor, uint32_t stage) {
    return tensor ? std::optional(add(*tensor, stage)) : std::nullopt;
  }
  std::vector<WeightRequest> take() { return std::move(requests_); }

 private:
  std::unordered_map<const gguf::TensorInfo*, WeightId> ids_;
  std::vector<WeightRequest> requests_;
};

LayerPlan layer_handles(Handles& handles, const LayerWeights<const gguf::TensorInfo*>& t, uint32_t stage) {
  const auto h = [&](auto tensor) { return handles.add(tensor, stage); };
  LayerPlan plan;
  plan.attn_norm = h(t.attn_norm);
  plan.q = h(t.q);
  plan.k = h(t.k);
  plan.v = h(t.v);
  plan.q_bias = h(t.q_bias);
  plan.k_bias = h(t.k_bias);
  plan.v_bias = h(t.v_bias);
  plan.attn_output = h(t.attn_output);
  plan.attn_output_bias = h(t.attn_output_bias);
  plan.ffn_norm = h(t.ffn_norm);
  plan.ffn_gate = h(t.ffn_gate);
  plan.ffn_up = h(t.ffn_up);
  plan.ffn_gate_bias = h(t.ffn_gate_bias);
  plan.ffn_up_bias = h(t.ffn_up_bias);
  plan.ffn_down = h(t.ffn_down);
  plan.ffn_down_bias = h(t.ffn_down_bias);
  plan.router = h(t.router);
  plan.experts_gate = h(t.experts_gate);
  plan.experts_up = h(t.experts_up);
  plan.experts_down = h(t.experts_down);
  return plan;
}

// Every weight a step names.
void collect_weights(const Step& step, std::vector<WeightId>& out) {
  const auto add = [&](std::optional<WeightId> id) {
    if (id && std::find(out.begin(), out.end(), *id) == out.end()) out.push_back(*id);
  };
  struct Visitor {
    decltype(add)& put;
    void operator()(const Embed& s) const { put(s.table); }
    void operator()(const Norm& s) const { put(s.weight), put(s.bias); }
    void operator()(const Matmul& s) const {
      for (const auto& part : s.parts) put(part.weight), put(part.bias);
    }
    void operator()(const Rope& s) const { put(s.factors); }
    void operator()(const ExpertMatmul& s) const {
      for (const auto& part : s.parts) put(part.weight);
    }
    void operator()(const ExpertCombine& s) const { put(s.weight); }
    void operator()(const StoreKv&) const {}
    void operator()(const Attend&) const {}
    void operator()(const Activate&) const {}
    void operator()(const Add&) const {}
    void operator()(const Route&) const {}
    void operator()(const TakeRows&) const {}
  };
  std::visit(Visitor{add}, step);
}

}  // namespace

class PlanBuilder {
 public:
  explicit PlanBuilder(ExecutionPlan& plan) : plan_(plan), spec_(plan.spec_), w_(plan.handles_) {}

  void build() {
    make_slots();
    begin_stage("embedding");
    emit(Embed{w_.token_embedding, x_});
    for (uint32_t i = 0; i < spec_.n_layers; i++) {
      begin_stage(fmt::format("layer {}", i));
      layer(i, w_.layers[i], i + 1 == spec_.n_layers);
    }
    begin_stage("output");
    emit(norm(x_, plan_.hidden_, w_.output_norm));
    emit(Matmul{plan_.hidden_, {{w_.output, std::nullopt, plan_.logits_}}});
    for (Stage& stage : plan_.stages_) {
      for (const Step& step : stage.steps) collect_weights(step, stage.weights);
    }
  }

 private:
  void layer(uint32_t i, const LayerPlan& w, bool is_last) {
    attention(i, w);
    if (is_last) keep_output_rows();
    emit(Matmul{attended_, {{w.attn_output, w.attn_output_bias, delta_}}});
    emit(Add{delta_, x_});
    emit(norm(x_, h_, w.ffn_norm));
    if (spec_.is_mixture()) {
      experts(w);
    } else {
      feed_forward(w);
    }
    emit(Add{delta_, x_});
  }

  void attention(uint32_t i, const LayerPlan& w) {
    emit(norm(x_, h_, w.attn_norm));
    emit(Matmul{h_, {{w.q, w.q_bias, q_}, {w.k, w.k_bias, k_}, {w.v, w.v_bias, v_}}});
    emit(Rope{spec_.rope, w_.rope_factors, spec_.head_size, q_, k_});
    emit(StoreKv{i, k_, v_});
    emit(Attend{i, spec_.n_heads, spec_.n_kv_heads, spec_.head_size, spec_.attention_scale, q_, attended_});
  }

  void feed_forward(const LayerPlan& w) {
    emit(Matmul{h_, {{*w.ffn_gate, w.ffn_gate_bias, gate_}, {*w.ffn_up, w.ffn_up_bias, up_}}});
    emit(Activate{spec_.activation, gate_, up_, gate_});
    emit(Matmul{gate_, {{*w.ffn_down, w.ffn_down_bias, delta_}}});
  }

  void experts(const LayerPlan& w) {
    const ExpertSpec& e = spec_.experts;
    emit(Matmul{h_, {{*w.router, std::nullopt, scores_}}});
    emit(Route{e.n_experts, e.n_used, e.normalise_weights, scores_, routing_});
    emit(ExpertMatmul{e.n_used, h_, routing_, {{*w.experts_gate, gate_}, {*w.experts_up, up_}}});
    emit(Activate{spec_.activation, gate_, up_, gate_});
    emit(ExpertCombine{e.n_used, gate_, routing_, delta_, *w.experts_down});
  }

  // After the last layer's attention only the rows whose logits are wanted go on, in slots of their own.
  void keep_output_rows() {
    const SlotId x = x_, attended = attended_;
    make_row_slots(SlotRows::outputs);
    emit(TakeRows{x, x_});
    emit(TakeRows{attended, attended_});
  }

  Norm norm(SlotId in, SlotId out, WeightId weight) const {
    return {spec_.norm, spec_.norm_epsilon, in, out, weight, std::nullopt};
  }

  void make_slots() {
    make_row_slots(SlotRows::batch);
    q_ = slot("q", spec_.q_width(), SlotRows::batch);
    k_ = slot("k", spec_.kv_width(), SlotRows::batch);
    v_ = slot("v", spec_.kv_width(), SlotRows::batch);
    plan_.hidden_ = slot("hidden", spec_.width, SlotRows::outputs);
    plan_.logits_ = slot("logits", spec_.n_vocab, SlotRows::outputs);
  }

  // The slots that exist for all rows, and again for the output rows.
  void make_row_slots(SlotRows rows) {
    const uint32_t n_parallel = spec_.is_mixture() ? spec_.experts.n_used : 1;
    const uint32_t ff_width = spec_.is_mixture() ? spec_.experts.width : spec_.ff_width;
    x_ = slot("x", spec_.width, rows);
    h_ = slot("h", spec_.width, rows);
    delta_ = slot("delta", spec_.width, rows);
    attended_ = slot("attended", spec_.q_width(), rows);
    gate_ = slot("gate", n_parallel * ff_width, rows);
    up_ = slot("up", n_parallel * ff_width, rows);
    if (spec_.is_mixture()) {
      scores_ = slot("scores", spec_.experts.n_experts, rows);
      routing_ = slot("routing", 2 * spec_.experts.n_used, rows);
    }
  }

  SlotId slot(const char* name, uint32_t width, SlotRows rows) {
    plan_.slots_.push_back({rows == SlotRows::outputs ? fmt::format("{}'", name) : name, width, rows});
    return SlotId(static_cast<uint32_t>(plan_.slots_.size() - 1));
  }

  void begin_stage(std::string name) { plan_.stages_.push_back({std::move(name), {}, {}}); }
  void emit(Step step) { plan_.stages_.back().steps.push_back(std::move(step)); }

  ExecutionPlan& plan_;
  const ModelSpec& spec_;
  const ModelWeights<WeightId>& w_;
  SlotId x_, h_, delta_, q_, k_, v_, attended_, gate_, up_, scores_, routing_;
};

Result<std::unique_ptr<ExecutionPlan>> ExecutionPlan::from_gguf(Backend& backend,
                                                                std::shared_ptr<const gguf::GgufFile> file,
                                                                const WeightStore::Options& options) {
  std::unique_ptr<ExecutionPlan> plan(new ExecutionPlan);
  plan->spec_ = TRY(read_model_spec(file->metadata()));
  const ModelTensors tensors = TRY(bind_tensors(*file, plan->spec_));

  // Stage 0 is the embedding, 1 + i layer i, the last the output: the order of loading is the order of use.
  Handles handles;
  ModelWeights<WeightId>& w = plan->handles_;
  w.token_embedding = handles.add(tensors.token_embedding, 0);
  w.rope_factors = handles.add(tensors.rope_factors, 1);
  for (uint32_t i = 0; i < plan->spec_.n_layers; i++) {
    w.layers.push_back(layer_handles(handles, tensors.layers[i], 1 + i));
  }
  w.output_norm = handles.add(tensors.output_norm, plan->spec_.n_layers + 1);
  w.output = handles.add(tensors.output, plan->spec_.n_layers + 1);
  w.tied = tensors.tied;

  plan->weights_ = TRY(WeightStore::create(file, backend.placement(), handles.take(), options));
  plan->file_ = std::move(file);
  plan->backend_ = &backend;
  PlanBuilder(*plan).build();
  return plan;
}

PassMemory ExecutionPlan::pass_memory(uint32_t max_rows, uint32_t max_outputs, uint32_t n_pages, KvType kv_type) const {
  return {slots_, max_rows, max_outputs, spec_.n_layers, n_pages, spec_.kv_width(), kv_type, spec_.head_size};
}

MemoryBill ExecutionPlan::memory_bill(const PassMemory& memory) const {
  MemoryBill bill;
  bill.weight_bytes = weights_->arena_bytes();
  PassMemory without_pages = memory;
  without_pages.n_pages = 0;
  bill.workspace_bytes = backend_->pass_bytes(without_pages);
  bill.kv_bytes = backend_->pass_bytes(memory) - bill.workspace_bytes;
  return bill;
}

}  // namespace rocmforge
