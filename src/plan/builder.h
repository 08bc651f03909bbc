#pragma once
// The forward pass of every family, written once: builder.cpp has the skeleton, of which a layer reads top to bottom,
// builder_attention.cpp and builder_feed_forward.cpp its two halves.

#include <map>
#include <span>
#include <string>
#include <tuple>

#include "plan/execution_plan.h"

namespace rocmforge {

class PlanBuilder {
 public:
  // requests: the weights by handle
  PlanBuilder(ExecutionPlan& plan, std::span<const WeightRequest> requests)
      : plan_(plan), requests_(requests), spec_(plan.spec_), weights_(plan.handles_) {}

  void build();

 private:
  // What the parts of a layer read.
  struct Inputs {
    SlotId attention;     // x, or a norm of it
    SlotId feed_forward;  // the same
    SlotId experts;       // the same
  };

  void embed();
  void layer(uint32_t i);
  // What feed-forward reads of the layer's input: before attention changes it.
  void before_mixer(Inputs& in);
  void before_feed_forward(Inputs& in);
  void keep_output_rows(Inputs& in);
  void end_layer();
  bool is_parallel() const;

  void attention(uint32_t i, SlotId in);
  void normalise_heads();
  void mix(const Inputs& in);  // what attention found becomes delta

  void feed_forward(const Inputs& in);
  void dense(SlotId in);
  void route(SlotId in);
  void experts(SlotId in, SlotId out);
  void shared_expert(SlotId in, SlotId out);

  using Weight = std::optional<WeightId>;
  Norm norm(SlotId in, SlotId out, Weight weight, Weight bias = std::nullopt, uint32_t group = 0) const {
    return {spec_.norm, spec_.norm_epsilon, in, out, weight, bias, group};
  }
  // A norm of x where there is one, else x itself.
  SlotId normed(const char* name, Weight weight, Weight bias = std::nullopt);
  Matmul product(SlotId in, SlotId out, Weight weight, Weight bias = std::nullopt, Weight scale = std::nullopt) const {
    return {in, {{*weight, bias, out, scale}}};
  }
  Activate activate(SlotId gate, SlotId up, bool gated, float clamp) const {
    return {spec_.activation, gate, up, gate, gated, clamp, is_->xielu};
  }

  // The slot of that name and width, for all rows, or for those whose logits are wanted once the others are left out.
  // Backends measure their workspaces by the slots of all rows, so that one for output rows has its like there.
  SlotId slot(const char* name, uint32_t width);
  SlotId output_slot(const char* name, uint32_t width);
  SlotId add_slot(const char* name, uint32_t width, SlotRows rows);
  SlotId take_rows(SlotId in);
  void begin_stage(std::string name) { plan_.stages_.push_back({std::move(name), {}, {}, {}}); }
  void emit(Step step) { plan_.stages_.back().steps.push_back(std::move(step)); }

  ExecutionPlan& plan_;
  std::span<const WeightRequest> requests_;
  const ModelSpec& spec_;
  const ModelWeights<WeightId>& weights_;
  const LayerSpec* is_ = nullptr;  // of the layer that is written
  const LayerPlan* w_ = nullptr;
  SlotRows rows_ = SlotRows::batch;
  std::map<std::tuple<std::string, uint32_t, SlotRows>, SlotId> slots_;
  SlotId x_, delta_, q_, k_, v_, attended_, scores_, routing_;
  SlotId per_layer_;  // of a token, a part for each layer
  SlotId per_layer_part_;
};

}  // namespace rocmforge
