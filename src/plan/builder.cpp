// The forward pass of every family, written once, top to bottom.

#include <algorithm>
#include <iterator>
#include <map>

#include <fmt/core.h>

#include "base/units.h"
#include "kv/page.h"
#include "plan/execution_plan.h"
#include "plan/fuse.h"

namespace rocmforge {
namespace {

// Gives every tensor, or part of one, a WeightId in the order of first use; a tied tensor gets one. The matrices of a
// stack are weights of their own: the handle is the first one's.
class Handles {
 public:
  WeightId add(const TensorRef& ref, uint32_t stage) {
    const auto [at, is_new] =
        ids_.emplace(std::pair(ref.tensor, ref.skip_bytes), WeightId(static_cast<uint32_t>(requests_.size())));
    if (!is_new) return at->second;
    const WeightShape shape{ref.tensor->dtype, ref.row_elements, ref.n_rows};
    if (!ref.is_stack) {
      requests_.push_back({ref.tensor, shape, stage, ref.skip_bytes, ref.part});
      return at->second;
    }
    for (uint32_t i = 0; i < ref.n_matrices; i++) {
      requests_.push_back({ref.tensor, shape, stage, i * shape.file_bytes(), {}, i});
    }
    return at->second;
  }
  std::optional<WeightId> add(const std::optional<TensorRef>& ref, uint32_t stage) {
    return ref ? std::optional(add(*ref, stage)) : std::nullopt;
  }
  std::vector<WeightRequest> take() { return std::move(requests_); }

 private:
  std::map<std::pair<const gguf::TensorInfo*, uint64_t>, WeightId> ids_;
  std::vector<WeightRequest> requests_;
};

LayerPlan layer_handles(Handles& handles, const LayerWeights<TensorRef>& tensors, uint32_t stage) {
  // Both structs list the same fields in the same order.
  std::vector<std::optional<WeightId>> ids;
  LayerWeights<TensorRef>::for_each(
      tensors, [&](const auto& field) { ids.push_back(handles.add(std::optional<TensorRef>(field), stage)); });
  LayerPlan plan;
  size_t i = 0;
  struct Assign {
    std::vector<std::optional<WeightId>>& ids;
    size_t& i;
    void operator()(std::optional<WeightId>& field) const { field = ids[i++]; }
    void operator()(WeightId& field) const { field = *ids[i++]; }
  };
  LayerPlan::for_each(plan, Assign{ids, i});
  return plan;
}

}  // namespace

class PlanBuilder {
 public:
  explicit PlanBuilder(ExecutionPlan& plan) : plan_(plan), spec_(plan.spec_), w_(plan.handles_) {}

  void build() {
    make_slots();
    begin_stage("embedding");
    emit(Embed{w_.token_embedding, x_, spec_.embedding_scale, w_.position_embedding});
    for (uint32_t i = 0; i < spec_.n_layers; i++) {
      begin_stage(fmt::format("layer {}", i));
      layer(i, w_.layers[i]);
    }
    begin_stage("output");
    emit(norm(x_, plan_.hidden_, w_.output_norm, w_.output_norm_bias));
    emit(Matmul{plan_.hidden_, {{w_.output, std::nullopt, plan_.logits_}}, spec_.logit_scale, spec_.logit_softcap});
    for (Stage& stage : plan_.stages_) {
      for (const Step& step : stage.steps) add_weights(step, stage.weights);
    }
  }

 private:
  // x += attention(norm x), then x += feed_forward(norm x); with a shared norm both read the same norm of x.
  void layer(uint32_t i, const LayerPlan& w) {
    const bool is_parallel = spec_.norm_placement == NormPlacement::shared;
    SlotId in = w.attn_norm ? h_ : x_;
    if (w.attn_norm) emit(norm(x_, h_, *w.attn_norm, w.attn_norm_bias));
    attention(i, w, in);
    if (i + 1 == spec_.n_layers) keep_output_rows(is_parallel);
    emit(Matmul{attended_, {{w.attn_output, w.attn_output_bias, delta_}}});
    if (w.attn_post_norm) emit(norm(delta_, delta_, *w.attn_post_norm));
    emit(Add{delta_, x_, spec_.residual_scale});

    in = w.ffn_norm || is_parallel ? h_ : x_;
    if (w.ffn_norm) emit(norm(x_, h_, *w.ffn_norm, w.ffn_norm_bias));
    if (spec_.is_mixture(i)) {
      experts(w, in);
    } else {
      feed_forward(w, in);
    }
    if (w.ffn_post_norm) emit(norm(delta_, delta_, *w.ffn_post_norm));
    emit(Add{delta_, x_, spec_.residual_scale});
  }

  void attention(uint32_t i, const LayerPlan& w, SlotId in) {
    const bool has_window = spec_.has_window(i);
    emit(Matmul{in, {{w.q, w.q_bias, q_}, {w.k, w.k_bias, k_}, {w.v, w.v_bias, v_}}});
    const uint32_t group = spec_.qk_norm == QkNorm::row ? 0 : spec_.head_size;
    if (w.q_norm) emit(norm(q_, q_, *w.q_norm, std::nullopt, group));
    if (w.k_norm) emit(norm(k_, k_, *w.k_norm, std::nullopt, group));
    if (spec_.has_rope) {
      emit(Rope{has_window ? spec_.window_rope : spec_.rope, w_.rope_factors, spec_.head_size, q_, k_});
    }
    emit(StoreKv{i, k_, v_});
    emit(Attend{i, spec_.n_heads, spec_.n_kv_heads, spec_.head_size, spec_.attention_scale, q_, attended_,
                has_window ? spec_.window : 0, spec_.attention_softcap, w.sinks});
  }

  void feed_forward(const LayerPlan& w, SlotId in) {
    if (spec_.gated) {
      emit(Matmul{in, {{*w.ffn_gate, w.ffn_gate_bias, gate_}, {*w.ffn_up, w.ffn_up_bias, up_}}});
    } else {
      emit(Matmul{in, {{*w.ffn_up, w.ffn_up_bias, gate_}}});
    }
    emit(Activate{spec_.activation, gate_, up_, gate_, spec_.gated});
    emit(Matmul{gate_, {{*w.ffn_down, w.ffn_down_bias, delta_}}});
  }

  void experts(const LayerPlan& w, SlotId in) {
    const ExpertSpec& e = spec_.experts;
    emit(Matmul{in, {{*w.router, w.router_bias, scores_}}});
    emit(Route{e.n_experts, e.n_used, e.normalise_weights, scores_, routing_, e.gating, e.scale, w.router_choice_bias});
    const ExpertStack gate{*w.experts_gate, e.n_experts}, up{*w.experts_up, e.n_experts};
    const ExpertStack down{*w.experts_down, e.n_experts};
    Stage& stage = plan_.stages_.back();
    stage.experts = {stage.steps.size(), 0, routing_, e.n_used, {gate, up, down}, {}};
    emit(ExpertMatmul{
        e.n_used, in, routing_, {{gate, expert_gate_, w.experts_gate_bias}, {up, expert_up_, w.experts_up_bias}}});
    emit(Activate{spec_.activation, expert_gate_, expert_up_, expert_gate_});
    emit(ExpertCombine{e.n_used, expert_gate_, routing_, delta_, down, w.experts_down_bias});
    if (!w.shared_gate) return;
    emit(Matmul{in, {{*w.shared_gate, std::nullopt, shared_gate_}, {*w.shared_up, std::nullopt, shared_up_}}});
    emit(Activate{spec_.activation, shared_gate_, shared_up_, shared_gate_});
    emit(Matmul{shared_gate_, {{*w.shared_down, std::nullopt, shared_delta_}}});
    emit(Add{shared_delta_, delta_});
  }

  // After the last layer's attention only the rows whose logits are wanted go on, in slots of their own.
  void keep_output_rows(bool with_norm) {
    const SlotId x = x_, attended = attended_, h = h_;
    make_row_slots(SlotRows::outputs);
    emit(TakeRows{x, x_});
    emit(TakeRows{attended, attended_});
    if (with_norm) emit(TakeRows{h, h_});
  }

  Norm norm(SlotId in, SlotId out, WeightId weight, std::optional<WeightId> bias = std::nullopt,
            uint32_t group = 0) const {
    return {spec_.norm, spec_.norm_epsilon, in, out, weight, bias, group};
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
    const ExpertSpec& e = spec_.experts;
    x_ = slot("x", spec_.width, rows);
    h_ = slot("h", spec_.width, rows);
    delta_ = slot("delta", spec_.width, rows);
    attended_ = slot("attended", spec_.q_width(), rows);
    if (!spec_.is_mixture(0)) {
      gate_ = slot("gate", spec_.ff_width, rows);
      up_ = slot("up", spec_.ff_width, rows);
    }
    if (e.n_experts > 0) {
      scores_ = slot("scores", e.n_experts, rows);
      routing_ = slot("routing", 2 * e.n_used, rows);
      expert_gate_ = slot("expert gate", e.n_used * e.width, rows);
      expert_up_ = slot("expert up", e.n_used * e.width, rows);
    }
    if (e.shared_width > 0) {
      shared_gate_ = slot("shared gate", e.shared_width, rows);
      shared_up_ = slot("shared up", e.shared_width, rows);
      shared_delta_ = slot("shared delta", spec_.width, rows);
    }
  }

  SlotId slot(const char* name, uint32_t width, SlotRows rows) {
    plan_.slots_.push_back({rows == SlotRows::outputs ? fmt::format("{}'", name) : name, width, rows});
    return SlotId(static_cast<uint32_t>(plan_.slots_.size() - 1));
  }

  void begin_stage(std::string name) { plan_.stages_.push_back({std::move(name), {}, {}, {}}); }
  void emit(Step step) { plan_.stages_.back().steps.push_back(std::move(step)); }

  ExecutionPlan& plan_;
  const ModelSpec& spec_;
  const ModelWeights<WeightId>& w_;
  SlotId x_, h_, delta_, q_, k_, v_, attended_, gate_, up_;
  SlotId scores_, routing_, expert_gate_, expert_up_, shared_gate_, shared_up_, shared_delta_;
};

namespace {

Error over_budget(uint64_t budget_bytes, const MemoryBill& bill, std::string_view fact) {
  return {
      ErrorCode::out_of_memory,
      fmt::format("plan: a memory budget of {}, of which the program takes {}, keys and values {}, workspace {} and "
                  "staging {}: {}; raise the budget or shorten the context",
                  format_bytes(budget_bytes), format_bytes(bill.held_bytes), format_bytes(bill.kv_bytes),
                  format_bytes(bill.workspace_bytes), format_bytes(bill.staging_bytes), fact)};
}

void put_in_file_order(StageExperts& experts, const WeightStore& weights) {
  for (const ExpertStack& stack : experts.stacks) {
    for (uint32_t i = 0; i < stack.n; i++) experts.in_file_order.push_back(stack[i]);
  }
  std::ranges::sort(experts.in_file_order, {},
                    [&](WeightId id) { return std::pair(weights.tensor(id).shard, weights.tensor(id).file_offset); });
}

// What a backend is given to run. The experts that rows need are known between two steps: nothing is fused across.
void fuse_stage(Stage& stage, std::span<const Slot> slots, const Fusions& fusions) {
  const size_t n_before = stage.experts ? stage.experts->n_steps_before : 0;
  const std::span<const Step> steps = stage.steps;
  stage.fused = fuse(steps.first(n_before), slots, fusions);
  if (stage.experts) stage.experts->n_fused_before = stage.fused.size();
  std::ranges::move(fuse(steps.subspan(n_before), slots, fusions), std::back_inserter(stage.fused));
}

// What the budget leaves after a pass is the weights'.
Result<std::unique_ptr<WeightStore>> make_store(const ExecutionPlan& plan, std::shared_ptr<const gguf::GgufFile> file,
                                                std::vector<WeightRequest> requests, const PlanOptions& options) {
  WeightStore::Options store = options.weights;
  MemoryBill bill;
  if (options.budget_bytes) {
    const PassSize& pass = options.pass;
    const uint32_t n_pages = pass.n_pages != 0 ? pass.n_pages : pages_for_tokens(plan.n_context());
    bill = plan.memory_bill(
        plan.pass_memory(std::min(pass.max_rows, plan.n_context()), pass.max_outputs, n_pages, pass.kv_type));
    store.budget_bytes = *options.budget_bytes - std::min(*options.budget_bytes, bill.total());
  }
  auto made = WeightStore::create(std::move(file), plan.backend().placement(), std::move(requests), store);
  if (!made.ok() && made.error().code == ErrorCode::out_of_memory) {
    return over_budget(*options.budget_bytes, bill, made.error().message);
  }
  return made;
}

}  // namespace

Result<std::unique_ptr<ExecutionPlan>> ExecutionPlan::from_gguf(Backend& backend,
                                                                std::shared_ptr<const gguf::GgufFile> file,
                                                                const PlanOptions& options) {
  std::unique_ptr<ExecutionPlan> plan(new ExecutionPlan);
  plan->spec_ = TRY(read_model_spec(file->metadata()));
  const uint32_t trained = plan->spec_.n_context;
  plan->n_context_ = options.n_context != 0 ? options.n_context : std::min(trained, kDefaultContext);
  if (plan->n_context_ > trained) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("plan: a context of {} tokens, the model was trained for {}", plan->n_context_, trained)};
  }
  const ModelTensors tensors = TRY(bind_tensors(*file, plan->spec_, plan->n_context_));

  // Stage 0 is the embedding, 1 + i layer i, the last the output: the order of loading is the order of use.
  Handles handles;
  ModelWeights<WeightId>& w = plan->handles_;
  w.token_embedding = handles.add(tensors.token_embedding, 0);
  w.position_embedding = handles.add(tensors.position_embedding, 0);
  w.rope_factors = handles.add(tensors.rope_factors, 0);  // every layer uses them: they must not be streamed with one
  for (uint32_t i = 0; i < plan->spec_.n_layers; i++) {
    w.layers.push_back(layer_handles(handles, tensors.layers[i], 1 + i));
  }
  w.output_norm = handles.add(tensors.output_norm, plan->spec_.n_layers + 1);
  w.output_norm_bias = handles.add(tensors.output_norm_bias, plan->spec_.n_layers + 1);
  w.output = handles.add(tensors.output, plan->spec_.n_layers + 1);
  w.tied = tensors.tied;

  plan->backend_ = &backend;
  plan->n_loaders_ = options.weights.n_loaders_or_default();
  plan->budget_bytes_ = options.budget_bytes;
  plan->held_bytes_ = options.budget_bytes ? options.held_bytes : 0;
  PlanBuilder(*plan).build();
  for (Stage& stage : plan->stages_) {
    fuse_stage(stage, plan->slots_, options.fuse ? backend.fusions() : Fusions());
  }
  backend.join_steps(options.fuse);
  plan->weights_ = TRY(make_store(*plan, file, handles.take(), options));
  plan->file_ = std::move(file);
  for (uint32_t i = 0; i < plan->stages_.size(); i++) {
    plan->steps_.push_back(plan->stages_[i].fused);
    if (plan->weights_->is_streamed(i)) plan->streamed_stages_.push_back(i);
    if (plan->stages_[i].experts) put_in_file_order(*plan->stages_[i].experts, *plan->weights_);
  }
  return plan;
}

PassMemory ExecutionPlan::pass_memory(uint32_t max_rows, uint32_t max_outputs, uint32_t n_pages, KvType kv_type) const {
  return {slots_, max_rows, max_outputs, spec_.n_layers, n_pages, spec_.kv_width(), kv_type, spec_.head_size};
}

MemoryBill ExecutionPlan::memory_bill(const PassMemory& memory) const {
  MemoryBill bill;
  if (weights_) bill.weight_bytes = weights_->arena_bytes();
  bill.staging_bytes = backend_->placement().overhead_bytes(n_loaders_);
  bill.held_bytes = held_bytes_;
  PassMemory without_pages = memory;
  without_pages.n_pages = 0;
  bill.workspace_bytes = backend_->pass_bytes(without_pages);
  bill.kv_bytes = backend_->pass_bytes(memory) - bill.workspace_bytes;
  return bill;
}

Result<void> ExecutionPlan::check_budget(const PassMemory& memory) const {
  if (!budget_bytes_) return {};
  const MemoryBill bill = memory_bill(memory);
  if (bill.total() <= *budget_bytes_) return {};
  return over_budget(*budget_bytes_, bill, fmt::format("the weights have {}", format_bytes(bill.weight_bytes)));
}

}  // namespace rocmforge
