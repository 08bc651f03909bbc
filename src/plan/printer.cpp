#include <fmt/core.h>

#include "base/json.h"
#include "plan/execution_plan.h"

namespace rocmforge {
namespace {

std::string_view name_of(NormKind kind) {
  switch (kind) {
    case NormKind::rms:
      return "rms";
    case NormKind::layer:
      return "layer";
  }
  RF_UNREACHABLE("a NormKind outside its enum");
}

std::string_view name_of(Activation kind) {
  switch (kind) {
    case Activation::silu:
      return "silu";
    case Activation::gelu:
      return "gelu";
    case Activation::clamped_swish:
      return "clamped swish";
    case Activation::relu:
      return "relu";
    case Activation::relu_squared:
      return "relu squared";
    case Activation::xielu:
      return "xielu";
  }
  RF_UNREACHABLE("an Activation outside its enum");
}

std::string_view name_of(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::none:
      return "";
    case RopeScaling::linear:
      return ", linear";
    case RopeScaling::yarn:
      return ", yarn";
  }
  RF_UNREACHABLE("a RopeScaling outside its enum");
}

// One line per step: what it writes, the operation, what it reads.
struct StepPrinter {
  const ExecutionPlan& plan;
  std::string& out;
  std::string_view indent = "  ";

  std::string_view slot(SlotId id) const { return plan.slots()[id.value].name; }
  std::string weight(WeightId id) const {
    const LazyTensor& t = plan.weights().tensor(id);
    return fmt::format("{} [{} x {} {}]", t.name, t.shape.row_elements, t.shape.n_rows, dtype_info(t.shape.dtype).name);
  }
  std::string weight(const ExpertStack& stack) const {
    const LazyTensor& t = plan.weights().tensor(stack.first);
    return fmt::format("{} [{} x {} x {} {}]", t.name.substr(0, t.name.rfind('/')), t.shape.row_elements,
                       t.shape.n_rows, stack.n, dtype_info(t.shape.dtype).name);
  }
  std::string bias(std::optional<WeightId> id) const { return id ? " + " + weight(*id) : ""; }
  static std::string times(float scale) { return scale == 1 ? "" : fmt::format("{} * ", scale); }
  static std::string capped(float softcap) { return softcap == 0 ? "" : fmt::format(", capped at {}", softcap); }
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) const {
    out += indent;
    out += fmt::format(format, std::forward<Args>(args)...);
    out += '\n';
  }

  void operator()(const Embed& s) const {
    line("{} = {}embed {}{}", slot(s.out), times(s.scale), weight(s.table), bias(s.positions));
  }
  void operator()(const Norm& s) const {
    line("{} = {} norm {}{}{}", slot(s.out), name_of(s.kind), slot(s.in), s.weight ? " * " + weight(*s.weight) : "",
         bias(s.bias));
  }
  void operator()(const Matmul& s) const {
    for (const auto& part : s.parts) {
      line("{} = {}{}{} * {}{}{}", slot(part.out), times(s.scale), part.scale ? weight(*part.scale) + " * " : "",
           weight(part.weight), slot(s.in), bias(part.bias),
           s.clamp != 0 ? fmt::format(", clamped to {}", s.clamp) : capped(s.softcap));
    }
  }
  void operator()(const Rope& s) const {
    line("rope {}{} (base {}, {} of {} elements{}{})", slot(s.q),
         s.q == s.k ? std::string() : fmt::format(", {}", slot(s.k)), s.rope.base, s.rope.n_dims, s.head_size,
         name_of(s.rope.scaling), s.factors ? ", factors " + weight(*s.factors) : "");
  }
  void operator()(const StoreKv& s) const { line("cache {} <- {}, {}", s.layer, slot(s.k), slot(s.v)); }
  static std::string unusual(const Attend& s) {
    return (s.value_head() != s.head_size ? fmt::format(", values of {}", s.value_head()) : "") +
           (s.chunk != 0 ? fmt::format(", chunks of {} positions", s.chunk) : "") +
           (s.alibi_bias != 0 ? fmt::format(", ALiBi of {}", s.alibi_bias) : "");
  }
  void operator()(const Attend& s) const {
    line("{} = attend {} over cache {} ({} heads of {}, {} kv heads{}{}{}{})", slot(s.out), slot(s.q), s.layer,
         s.n_heads, s.head_size, s.n_kv_heads, s.window > 0 ? fmt::format(", the last {} positions", s.window) : "",
         capped(s.softcap), s.sinks ? ", sinks " + weight(*s.sinks) : "", unusual(s));
  }
  void operator()(const Activate& s) const {
    line("{} = {}({}){}{}", slot(s.out), name_of(s.kind), slot(s.gate), s.gated ? fmt::format(" * {}", slot(s.up)) : "",
         s.clamp != 0 ? fmt::format(", clamped to {}", s.clamp) : "");
  }
  void operator()(const Add& s) const { line("{} += {}{}", slot(s.out), times(s.scale), slot(s.in)); }
  void operator()(const Route& s) const {
    line("{} = {}the best {} of {} experts{} by {}{}{}", slot(s.out), times(s.scale), s.n_used, s.n_experts,
         s.n_groups != 0 ? fmt::format(" of the best {} of {} groups", s.n_groups_used, s.n_groups) : "",
         slot(s.logits), bias(s.bias), s.expert_scale ? ", times " + weight(*s.expert_scale) : "");
  }
  void operator()(const ExpertMatmul& s) const {
    for (const auto& part : s.parts) {
      line("{} = {}[{}] * {}{}", slot(part.out), weight(part.weight), slot(s.routing), slot(s.in), bias(part.bias));
    }
  }
  void operator()(const ExpertCombine& s) const {
    line("{} = sum {} * ({}[{}] * {}{})", slot(s.out), slot(s.routing), weight(s.weight), slot(s.routing), slot(s.in),
         bias(s.bias));
  }
  void operator()(const Temper& s) const {
    line("{} *= 1 + {} ln(floor((position + {}) / {}) + 1)", slot(s.slot), s.temperature.scale, s.temperature.offset,
         s.temperature.length);
  }
  void operator()(const Gate& s) const {
    if (s.kind == OutputGate::plain) return line("{} = {} * {}", slot(s.out), slot(s.in), slot(s.gate));
    line("{} = {} * {}({})", slot(s.out), slot(s.in), s.kind == OutputGate::softplus ? "softplus" : "sigmoid",
         slot(s.gate));
  }
  void operator()(const Scale& s) const { line("{} *= {}", slot(s.slot), weight(s.weight)); }
  void operator()(const TakeColumns& s) const {
    if (s.period == 0) return line("{} = elements of {} from {} on", slot(s.out), slot(s.in), s.first);
    line("{} from {} on = {} elements from {} on of every {} of {}", slot(s.out), s.out_first, s.n, s.first, s.period,
         slot(s.in));
  }
  void operator()(const Convolve& s) const {
    line("{} = {}(convolve {} with {}{}), state {}", slot(s.out), s.silu ? "silu" : "", slot(s.in), weight(s.weight),
         bias(s.bias), s.layer);
  }
  void operator()(const Scan& s) const {
    line("{} = scan {} by steps {} ({} heads of {}, states of {}, {} groups), written by {}, read by {}, state {}",
         slot(s.out), slot(s.x.slot), slot(s.step), s.n_heads, s.head_size, s.state_size, s.n_groups, slot(s.b.slot),
         slot(s.c.slot), s.layer);
  }
  void operator()(const DeltaRule& s) const {
    line("{} = delta rule {} by {}, {} ({} heads of {}, {} key heads of {}), state {}", slot(s.out), slot(s.in),
         slot(s.beta), slot(s.alpha), s.n_heads, s.head_size, s.n_key_heads, s.key_size, s.layer);
  }
  void operator()(const AttendBothWays& s) const {
    line("{} = attend {} over {}, {} of the whole text ({} heads of {}, {} kv heads{}{}{}{})", slot(s.out), slot(s.q),
         slot(s.k), slot(s.v), s.n_heads, s.head_size, s.n_kv_heads,
         s.window > 0 ? fmt::format(", at most {} positions away", s.window / 2) : "", capped(s.softcap),
         s.alibi_bias != 0 ? fmt::format(", ALiBi of {}", s.alibi_bias) : "",
         s.distance_biases ? ", biases " + weight(*s.distance_biases) : "");
  }
  void operator()(const Pool& s) const { line("{} = the rows of each text in {}, pooled", slot(s.out), slot(s.in)); }
  void operator()(const AddVector& s) const { line("{} += {}", slot(s.slot), weight(s.weight)); }
  void operator()(const MixStreams& s) const {
    line("{} = {}{} streams out of {} of {}{}{}", slot(s.out), times(s.scale), s.n_out, s.n_in, slot(s.in),
         s.coefficients ? fmt::format(" by {} + {}", slot(*s.coefficients), s.offset) : "",
         s.first > 0 ? fmt::format(", from stream {} on", s.first) : "");
  }
  void operator()(const MatchLength& s) const { line("{} scaled to the length of {}", slot(s.slot), slot(s.like)); }
  void operator()(const CutRow& s) const {
    line("{} = what is above mean + {} deviations of {}", slot(s.slot), s.factor, slot(s.slot));
  }
  void operator()(const WeighExperts& s) const {
    for (const SlotId id : s.slots) line("{} *= the weights of {}", slot(id), slot(s.routing));
    line("the weights of {} = 1", slot(s.routing));
  }
  void operator()(const TakeRows& s) const { line("{} = output rows of {}", slot(s.out), slot(s.in)); }
};

// What the parts of a fused step share.
struct FusedName {
  template <class S>
  std::string_view operator()(const S&) const {
    return "";
  }
  std::string_view operator()(const RowChain&) const { return "row by row"; }
  std::string_view operator()(const RowsMatmul&) const { return "rows as they are multiplied"; }
  std::string_view operator()(const CachedAttend&) const { return "head by head where sequences have one row each"; }
};

const std::vector<Step>& steps_of(const Stage& stage, PlanView view) {
  switch (view) {
    case PlanView::reference:
      return stage.steps;
    case PlanView::fused:
      return stage.fused;
  }
  RF_UNREACHABLE("a PlanView outside its enum");
}

void write_step(JsonWriter& w, const ExecutionPlan& plan, const Step& step) {
  w.begin_object();
  if (is_fused(step)) w.key("fused").value(std::visit(FusedName(), step));
  w.key("does").begin_array();
  each_part(step, [&](const auto& part) {
    std::string lines;
    StepPrinter{plan, lines, ""}(part);
    size_t from = 0;
    for (size_t to = 0; (to = lines.find('\n', from)) != std::string::npos; from = to + 1) {
      w.value(std::string_view(lines).substr(from, to - from));
    }
  });
  w.end_array();
  const auto write_slots = [&](std::string_view name, bool (*uses)(const Step&, SlotId)) {
    w.key(name).begin_array();
    for (uint32_t i = 0; i < plan.slots().size(); i++) {
      if (uses(step, SlotId(i))) w.value(plan.slots()[i].name);
    }
    w.end_array();
  };
  write_slots("reads", reads);
  write_slots("writes", writes);
  w.end_object();
}

}  // namespace

std::string to_text(const ExecutionPlan& plan, PlanView view) {
  std::string out;
  const StepPrinter alone{plan, out}, part{plan, out, "    "};
  for (const Stage& stage : plan.stages()) {
    out += stage.name + '\n';
    for (const Step& step : steps_of(stage, view)) {
      if (is_fused(step)) out += fmt::format("  at once, {}:\n", std::visit(FusedName(), step));
      each_part(step, is_fused(step) ? part : alone);
    }
  }
  return out;
}

void write_json(JsonWriter& w, const ExecutionPlan& plan, PlanView view) {
  w.begin_array();
  for (const Stage& stage : plan.stages()) {
    w.begin_object().key("name").value(stage.name).key("steps").begin_array();
    for (const Step& step : steps_of(stage, view)) write_step(w, plan, step);
    w.end_array().end_object();
  }
  w.end_array();
}

}  // namespace rocmforge
