#pragma once
// Writes the forward pass of every family as steps. builder.cpp has the skeleton, in which a layer reads top to bottom;
// builder_attention.cpp, builder_recurrent.cpp and builder_feed_forward.cpp have the parts of a layer, builder_head.cpp
// has what follows the last one, builder_streams.cpp what families with several residual streams do around layers.

#include <map>
#include <span>
#include <string>
#include <tuple>

#include "plan/execution_plan.h"

namespace rocmforge {

class PlanBuilder {
 public:
  // requests[id] is the request of the weight with that id.
  PlanBuilder(ExecutionPlan& plan, std::span<const WeightRequest> requests)
      : plan_(plan), requests_(requests), spec_(plan.spec_), weights_(plan.handles_) {}

  void build();

 private:
  // The slots that the parts of a layer read: x, or a norm of it.
  struct Inputs {
    SlotId attention;
    SlotId feed_forward;
    SlotId experts;
  };

  void embed();
  void layer(uint32_t i);
  // Norms of the layer's input that the feed-forward reads; computed before attention changes x.
  void before_mixer(Inputs& in);
  void before_feed_forward(Inputs& in);
  void keep_output_rows(Inputs& in);
  void end_layer();
  bool is_parallel() const;
  // Adds delta to x, with a norm of the sum where the family has it.
  void add_attention();
  void add_feed_forward();

  // builder_head.cpp: from the last layer's rows to logits, or to an embedding and scores
  void logits();
  void pool();
  SlotId embedding_layers(SlotId in);
  void classify(SlotId in);
  SlotId hidden_class(SlotId in);

  void attention(uint32_t i, SlotId in);
  void attend(uint32_t i);
  void attend_both_ways();
  void normalise_heads();
  void mix(const Inputs& in);  // attention's output projection, into delta

  // builder_recurrent.cpp
  void recurrent(uint32_t i, SlotId in);
  void convolution(uint32_t i, SlotId in);
  void scan(uint32_t i, SlotId in);
  void scan_steps(Scan& scan, SlotId from);
  void delta(uint32_t i, SlotId in);
  void delta_inputs(DeltaRule& rule, SlotId convolved, SlotId in);
  void mix_recurrent(SlotId out);

  // builder_streams.cpp
  void begin_streams();
  void predict_streams();
  void add_laurel(SlotId in);  // Laurel's product of attention's input, beside attention
  void join_laurel();
  void correct_streams();
  void end_streams();
  SlotId stream_coefficients(const char* name, SlotId of, std::optional<WeightId> weight, uint32_t n);

  void feed_forward(const Inputs& in);
  void dense(SlotId in);
  void route(SlotId in);
  void experts(SlotId in, SlotId out);
  void chosen_experts(SlotId in, SlotId out);
  void shared_expert(SlotId in, SlotId out);

  using Weight = std::optional<WeightId>;
  Norm norm(SlotId in, SlotId out, Weight weight, Weight bias = std::nullopt, uint32_t group = 0) const {
    return {spec_.norm, spec_.norm_epsilon, in, out, weight, bias, group};
  }
  // The slot of a norm of x if the layer has the weight, else x.
  SlotId normed(const char* name, Weight weight, Weight bias = std::nullopt);
  Matmul product(SlotId in, SlotId out, Weight weight, Weight bias = std::nullopt, Weight scale = std::nullopt) const {
    return {in, {{*weight, bias, out, scale}}};
  }
  Activate activate(SlotId gate, SlotId up, bool gated, float clamp) const {
    const bool is_other = !gated && spec_.gated && spec_.ungated_activation;
    return {is_other ? *spec_.ungated_activation : spec_.activation, gate, up, gate, gated, clamp, is_->xielu};
  }

  // The slot of that name and width: for all rows, or for the output rows after TakeRows. Backends size their
  // workspaces by the slots of all rows, so every slot for output rows has an equal one for all rows.
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
  const LayerSpec* is_ = nullptr;  // the layer being written, and its handles
  const LayerPlan* w_ = nullptr;
  SlotRows rows_ = SlotRows::batch;
  std::map<std::tuple<std::string, uint32_t, SlotRows>, SlotId> slots_;
  SlotId x_, delta_, q_, k_, v_, attended_, scores_, routing_;
  SlotId query_gate_;        // the gate of attention's output
  SlotId mixed_, mix_gate_;  // a recurrent mixer's output and its gate
  SlotId per_layer_;         // per-layer embeddings: all layers' parts of a token
  SlotId per_layer_part_;
  SlotId streams_, predicted_, laurel_;
};

}  // namespace rocmforge
