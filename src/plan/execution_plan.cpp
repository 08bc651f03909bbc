// A plan out of a file: handles for its weights, a store that reads them, and what it takes of memory.

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include "base/units.h"
#include "kv/page.h"
#include "plan/builder.h"
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
      requests_.push_back({ref.tensor, shape, stage, i * ref.matrix_bytes + ref.skip_bytes, ref.part, i});
    }
    return at->second;
  }
  std::optional<WeightId> add(const std::optional<TensorRef>& ref, uint32_t stage) {
    return ref ? std::optional(add(*ref, stage)) : std::nullopt;
  }
  std::span<const WeightRequest> requests() const { return requests_; }
  std::vector<WeightRequest> take() { return std::move(requests_); }
  void stays(WeightId id) { requests_[id.value].stays = true; }

 private:
  std::map<std::pair<const gguf::TensorInfo*, uint64_t>, WeightId> ids_;
  std::vector<WeightRequest> requests_;
};

LayerPlan layer_handles(Handles& handles, const LayerWeights<TensorRef>& tensors, uint32_t stage) {
  // Both structs list the same fields in the same order.
  std::vector<std::optional<WeightId>> ids;
  LayerWeights<TensorRef>::for_each(tensors, [&](const auto& field) { ids.push_back(handles.add(field, stage)); });
  LayerPlan plan;
  size_t i = 0;
  struct Assign {
    std::vector<std::optional<WeightId>>& ids;
    size_t& i;
    void operator()(std::optional<WeightId>& field) const { field = ids[i++]; }
  };
  LayerPlan::for_each(plan, Assign{ids, i});
  return plan;
}

void add_output(Handles& handles, const ModelTensors& tensors, uint32_t stage, ModelWeights<WeightId>& w) {
  for (const TensorRef& matrix : tensors.from_streams) w.from_streams.push_back(handles.add(matrix, stage));
  w.output_norm = handles.add(tensors.output_norm, stage);
  w.output_norm_bias = handles.add(tensors.output_norm_bias, stage);
  w.output = handles.add(tensors.output, stage);
  w.output_bias = handles.add(tensors.output_bias, stage);
  w.tied = tensors.tied;
  for (size_t i = 0; i < std::size(w.embedding_layers); i++) {
    w.embedding_layers[i] = handles.add(tensors.embedding_layers[i], stage);
  }
  w.classifier = handles.add(tensors.classifier, stage);
  w.classifier_bias = handles.add(tensors.classifier_bias, stage);
  w.classifier_norm = handles.add(tensors.classifier_norm, stage);
  w.scores = handles.add(tensors.scores, stage);
  w.scores_bias = handles.add(tensors.scores_bias, stage);
}

Error over_budget(uint64_t budget_bytes, const MemoryBill& bill, std::string_view fact) {
  return {ErrorCode::out_of_memory,
          fmt::format("plan: a memory budget of {}, of which the program takes {}, keys and values {}, states {}, "
                      "workspace {} and staging {}: {}; raise the budget or shorten the context",
                      format_bytes(budget_bytes), format_bytes(bill.held_bytes), format_bytes(bill.kv_bytes),
                      format_bytes(bill.state_bytes), format_bytes(bill.workspace_bytes),
                      format_bytes(bill.staging_bytes), fact)};
}

// What each layer keeps of a position; empty where all keep the same, keys as long as values.
std::vector<KvLayer> kv_layers_of(const ModelSpec& spec) {
  std::vector<KvLayer> layers;
  for (uint32_t i = 0; i < spec.n_layers; i++) {
    const LayerSpec& layer = spec.layers[i];
    const bool keeps = has_attention(layer.mixer) && layer.cache == i && !spec.attends_both_ways;
    layers.push_back(keeps ? KvLayer{layer.n_kv_heads, layer.key_size, layer.value_size} : KvLayer{});
  }
  const KvLayer& first = layers[0];
  const bool is_uniform = first.n_heads > 0 && first.key_size == first.value_size &&
                          std::ranges::all_of(layers, [&](const KvLayer& layer) { return layer == first; });
  return is_uniform ? std::vector<KvLayer>() : layers;
}

std::vector<uint32_t> state_widths_of(const ModelSpec& spec) {
  std::vector<uint32_t> widths;
  for (const LayerSpec& layer : spec.layers) {
    widths.push_back(is_recurrent(layer.mixer) ? spec.recurrent.state_width() : 0);
  }
  if (std::ranges::all_of(widths, [](uint32_t width) { return width == 0; })) widths.clear();
  return widths;
}

// Layers whose rows never read beyond a number of positions: by layer, and the largest such number. Where there are
// states, a sequence can only go on where one is kept, and all pages are kept, too.
std::pair<std::vector<uint8_t>, uint32_t> windows_of(const ModelSpec& spec) {
  std::vector<uint8_t> windowed(spec.n_layers, 0);
  uint32_t widest = 0;
  const bool has_states = std::ranges::any_of(spec.layers, [](const auto& layer) { return is_recurrent(layer.mixer); });
  if (has_states || spec.attends_both_ways) return {};
  for (uint32_t i = 0; i < spec.n_layers; i++) {
    const LayerSpec& layer = spec.layers[i];
    if (!has_attention(layer.mixer)) continue;
    // A layer that reads another's cache may look further back than that layer itself.
    const auto seen = [](const LayerSpec& of) {
      return of.window != 0 && of.chunk != 0 ? std::min(of.window, of.chunk) : std::max(of.window, of.chunk);
    };
    uint32_t reach = seen(layer);
    bool is_windowed = reach != 0;
    for (uint32_t j = i + 1; j < spec.n_layers; j++) {
      if (!has_attention(spec.layers[j].mixer) || spec.layers[j].cache != i) continue;
      is_windowed &= seen(spec.layers[j]) != 0;
      reach = std::max(reach, seen(spec.layers[j]));
    }
    if (layer.cache != i || !is_windowed) continue;
    windowed[i] = 1;
    widest = std::max(widest, reach);
  }
  if (widest == 0) windowed.clear();
  return {std::move(windowed), widest};
}

// The largest of what the products with experts in these stages need.
ExpertsMemory experts_memory_of(std::span<const Stage> stages, std::span<const Slot> slots) {
  ExpertsMemory out;
  const auto grow = [&](uint32_t n_experts, uint32_t n_used, uint32_t input, uint32_t combine) {
    out.n_experts = std::max(out.n_experts, n_experts);
    out.n_used = std::max(out.n_used, n_used);
    out.widest_input = std::max(out.widest_input, input);
    out.widest_combine = std::max(out.widest_combine, combine);
  };
  for (const Stage& stage : stages) {
    for (const Step& step : stage.steps) {
      if (const auto* product = std::get_if<ExpertMatmul>(&step)) {
        for (const auto& part : product->parts) {
          grow(part.weight.n, product->n_used, slots[product->in.value].width, 0);
        }
      } else if (const auto* sum = std::get_if<ExpertCombine>(&step)) {
        grow(sum->weight.n, sum->n_used, slots[sum->in.value].width / sum->n_used, slots[sum->out.value].width);
      }
    }
  }
  return out;
}

void put_in_file_order(StageExperts& experts, const WeightStore& weights) {
  for (const ExpertStack& stack : experts.stacks) {
    for (uint32_t i = 0; i < stack.n; i++) experts.in_file_order.push_back(stack[i]);
  }
  std::ranges::sort(experts.in_file_order, {},
                    [&](WeightId id) { return std::pair(weights.tensor(id).shard, weights.tensor(id).file_offset); });
}

// A norm has few weights, and a backend may want them a stage early: they are never streamed.
void keep_norms(std::span<Stage> stages, Handles& handles) {
  for (size_t i = 0; i < stages.size(); i++) {
    for (const Step& step : stages[i].steps) {
      if (!std::holds_alternative<Norm>(step)) continue;
      std::vector<WeightId> ids;
      add_weights(step, ids);
      for (const WeightId id : ids) handles.stays(id);
      if (i == 0 || &step != &stages[i].steps.front()) continue;
      const std::vector<WeightId>& own = stages[i - 1].weights;
      std::erase_if(ids, [&](WeightId id) { return std::ranges::find(own, id) != own.end(); });
      stages[i - 1].next_norm = ids;
    }
  }
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
    const uint32_t n_rows = std::max(std::min(pass.max_rows, plan.n_context()), plan.least_rows());
    const uint64_t n_window_pages = window_pages_for(plan.window(), 1, n_rows);
    const bool gives_back = pass.in_token_loop && plan.window() != 0 && n_window_pages < n_pages;
    bill = plan.memory_bill(plan.pass_memory(n_rows, pass.max_outputs, n_pages, pass.kv_type,
                                             pass.n_states != 0 ? pass.n_states : ExecutionPlan::kStatesBudgeted,
                                             gives_back ? static_cast<uint32_t>(n_window_pages) : 0));
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
    return Error{ErrorCode::invalid_argument, fmt::format("plan: a context of {} tokens, the model was trained for {} "
                                                          "(--override-kv .context_length=int:{} allows it)",
                                                          plan->n_context_, trained, plan->n_context_)};
  }
  const ModelTensors tensors = TRY(bind_tensors(*file, plan->spec_, plan->n_context_));

  // Stage 0 is the embedding, 1 + i layer i, the last the output: the order of loading is the order of use.
  Handles handles;
  ModelWeights<WeightId>& w = plan->handles_;
  w.token_embedding = handles.add(tensors.token_embedding, 0);
  w.position_embedding = handles.add(tensors.position_embedding, 0);
  w.token_type = handles.add(tensors.token_type, 0);
  w.embedding_norm = handles.add(tensors.embedding_norm, 0);
  w.embedding_norm_bias = handles.add(tensors.embedding_norm_bias, 0);
  w.per_layer_embedding = handles.add(tensors.per_layer_embedding, 0);
  w.per_layer_projection = handles.add(tensors.per_layer_projection, 0);
  w.per_layer_norm = handles.add(tensors.per_layer_norm, 0);
  for (const TensorRef& matrix : tensors.to_streams) w.to_streams.push_back(handles.add(matrix, 0));
  // Every layer uses these: they must not be streamed with one.
  w.rope_factors = handles.add(tensors.rope_factors, 0);
  w.distance_biases = handles.add(tensors.distance_biases, 0);
  for (uint32_t i = 0; i < plan->spec_.n_layers; i++) {
    w.layers.push_back(layer_handles(handles, tensors.layers[i], 1 + i));
  }
  add_output(handles, tensors, plan->spec_.n_layers + 1, w);

  plan->backend_ = &backend;
  plan->n_loaders_ = options.weights.n_loaders_or_default();
  plan->budget_bytes_ = options.budget_bytes;
  plan->held_bytes_ = options.budget_bytes ? options.held_bytes : 0;
  PlanBuilder(*plan, handles.requests()).build();
  for (Stage& stage : plan->stages_) {
    fuse_stage(stage, plan->slots_, options.fuse ? backend.fusions() : Fusions());
  }
  keep_norms(plan->stages_, handles);
  backend.join_steps(options.fuse);
  plan->kv_layers_ = kv_layers_of(plan->spec_);
  plan->state_widths_ = state_widths_of(plan->spec_);
  std::tie(plan->windowed_, plan->window_) = windows_of(plan->spec_);
  plan->weights_ = TRY(make_store(*plan, file, handles.take(), options));
  plan->file_ = std::move(file);
  for (uint32_t i = 0; i < plan->stages_.size(); i++) {
    plan->steps_.push_back(plan->stages_[i].fused);
    if (plan->weights_->is_streamed(i)) plan->streamed_stages_.push_back(i);
    if (plan->stages_[i].experts) put_in_file_order(*plan->stages_[i].experts, *plan->weights_);
  }
  return plan;
}

uint64_t ExecutionPlan::state_bytes() const {
  return PassMemory{.slots = {}, .state_widths = state_widths_}.state_elements() * sizeof(float);
}

PassMemory ExecutionPlan::pass_memory(uint32_t max_rows, uint32_t max_outputs, uint32_t n_pages, KvType kv_type,
                                      uint32_t n_states, uint32_t n_window_pages) const {
  const LayerSpec& first = spec_.layers[0];
  PassMemory memory{slots_, max_rows, max_outputs, spec_.n_layers, n_pages, first.k_width(), kv_type, first.key_size};
  memory.kv_layers = kv_layers_;
  memory.experts = experts_memory_of(stages_, slots_);
  if (has_states()) {
    memory.state_widths = state_widths_;
    memory.n_states = n_states;
  }
  if (window_ != 0) {
    memory.windowed = windowed_;
    memory.n_window_pages = n_window_pages;
  }
  for (const KvLayer& layer : kv_layers_) {
    memory.kv_width = std::max({memory.kv_width, layer.key_width(), layer.value_width()});
    memory.kv_head_size = std::max({memory.kv_head_size, layer.key_size, layer.value_size});
  }
  return memory;
}

MemoryBill ExecutionPlan::memory_bill(const PassMemory& memory) const {
  MemoryBill bill;
  if (weights_) bill.weight_bytes = weights_->arena_bytes();
  bill.staging_bytes = backend_->placement().overhead_bytes(n_loaders_);
  bill.held_bytes = held_bytes_;
  PassMemory without_pages = memory;
  without_pages.n_pages = without_pages.n_window_pages = 0;
  PassMemory without_both = without_pages;
  without_both.n_states = 0;
  bill.workspace_bytes = backend_->pass_bytes(without_both);
  bill.state_bytes = backend_->pass_bytes(without_pages) - bill.workspace_bytes;
  bill.kv_bytes = backend_->pass_bytes(memory) - bill.workspace_bytes - bill.state_bytes;
  if (memory.has_window_pages()) {
    PassMemory twice = memory;
    twice.n_window_pages *= 2;
    bill.window_bytes = backend_->pass_bytes(twice) - backend_->pass_bytes(memory);
  }
  return bill;
}

Result<void> ExecutionPlan::check_budget(const PassMemory& memory) const {
  if (!budget_bytes_) return {};
  const MemoryBill bill = memory_bill(memory);
  if (bill.total() <= *budget_bytes_) return {};
  return over_budget(*budget_bytes_, bill, fmt::format("the weights have {}", format_bytes(bill.weight_bytes)));
}

}  // namespace rocmforge
