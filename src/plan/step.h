#pragma once
// The vocabulary of execution: typed steps over named slots. The model is written once, as a list of these
// (plan/builder.cpp); a backend knows steps, never models.
//
// A slot is a logical matrix, one row per batch row (or per output row after TakeRows), of a fixed width. How it is
// stored is the backend's business.

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "model/spec.h"
#include "weights/weight_store.h"

namespace rocmforge {

using SlotId = Id<struct SlotIdTag>;

enum class SlotRows : uint8_t { batch, outputs };

struct Slot {
  std::string name;
  uint32_t width = 0;  // f32 elements per row
  SlotRows rows = SlotRows::batch;
};

// out[r] = scale * table[token[r]], plus positions[position of r] where positions are learned
struct Embed {
  WeightId table;
  SlotId out;
  float scale = 1;
  std::optional<WeightId> positions = {};
};

// out[r] = normalised in[r], times weight, plus bias. Each `group` consecutive elements of a row are normalised by
// themselves (0: the whole row); the weight is as long as a group, or as a row; without a weight it is 1.
struct Norm {
  NormKind kind = NormKind::rms;
  float epsilon = 0;
  SlotId in, out;
  std::optional<WeightId> weight;
  std::optional<WeightId> bias = {};
  uint32_t group = 0;
};

// Up to three products of one input: out_i[r] = weight_i * in[r] + bias_i. Each weight has its own format, and possibly
// a number that it is multiplied by (then there is no bias). Afterwards each output is multiplied by `scale`, and, if
// `softcap` is not 0, becomes softcap * tanh(output / softcap), or, if `clamp` is not 0, is clamped to +-clamp.
struct Matmul {
  struct Part {
    WeightId weight;
    std::optional<WeightId> bias = {};
    SlotId out;
    std::optional<WeightId> scale = {};
  };
  SlotId in;
  std::vector<Part> parts;
  float scale = 1;
  float softcap = 0;
  float clamp = 0;
};

// Rotates the heads of q and k in place, by each row's position. Where q and k are one slot, that once.
struct Rope {
  RopeSpec rope;
  std::optional<WeightId> factors = {};  // divisors of the frequencies, one per pair
  uint32_t head_size = 0;
  SlotId q, k;
};

// slot[r] *= 1 + scale * ln(floor((position of r + offset) / length) + 1)
struct Temper {
  SlotId slot;
  Temperature temperature;
};

// Appends the rows' keys and values to the cache of `layer`.
struct StoreKv {
  uint32_t layer = 0;
  SlotId k, v;
};

// out[r] = causal attention of q[r] over the cached positions 0 .. position[r] of its sequence.
// Query head h reads key-value head h / (n_heads / n_kv_heads). With a window only the last `window` positions count,
// with a softcap scores become softcap * tanh(score / softcap), and a sink is one more score per head, of no value.
// With chunks only the positions from the last multiple of `chunk` on count. With an ALiBi bias head h's scores are
// less by alibi_slope(h) for each position between query and key.
struct Attend {
  uint32_t layer = 0;
  uint32_t n_heads = 0, n_kv_heads = 0, head_size = 0;
  float scale = 0;
  SlotId q, out;
  uint32_t window = 0;  // 0: all
  float softcap = 0;    // 0: none
  std::optional<WeightId> sinks = {};
  uint32_t value_size = 0;  // of a head's values and output; 0: head_size
  uint32_t chunk = 0;       // 0: none
  float alibi_bias = 0;     // 0: none

  uint32_t value_head() const { return value_size != 0 ? value_size : head_size; }
};

// What positions cost, by head: a geometric series over the largest power of two of heads, and between its numbers for
// those beyond.
inline float alibi_slope(float bias, uint32_t n_heads, uint32_t head) {
  const uint32_t n = std::bit_floor(n_heads);
  const auto power = [&](float base, uint32_t i) { return std::pow(base, static_cast<float>(i)); };
  return head < n ? power(std::exp2(-bias / static_cast<float>(n)), head + 1)
                  : power(std::exp2(-bias / 2 / static_cast<float>(n)), 2 * (head - n) + 1);
}

// out[r] = in[r] times the gate, which is sigmoid or softplus of gate[r]: one number for each element, or for as many
// consecutive ones as make the widths fit.
struct Gate {
  OutputGate kind = OutputGate::sigmoid;
  SlotId in, gate, out;
};

// out[r] = activation(gate[r]) * up[r], element by element; not gated: activation(gate[r]) alone. No step after it
// reads what gate and up were before it.
struct Activate {
  Activation kind = Activation::silu;
  SlotId gate, up, out;
  bool gated = true;
  float clamp = 0;  // of silu, 0: none; silu(gate) is at most this, and up lies within +-clamp
  Xielu xielu = {};
};

// slot[r] *= weight, one number
struct Scale {
  SlotId slot;
  WeightId weight;
};

// out[r] = elements [first, first + width of out) of in[r]
struct TakeColumns {
  SlotId in, out;
  uint32_t first = 0;
};

// out[r] += scale * in[r]
struct Add {
  SlotId in, out;
  float scale = 1;
};

// Chooses n_used experts per row from the router's logits: the largest probabilities, plus `bias` where there is one
// (the lower id first among equals; of `softmax_of_chosen` the largest logits). Their weights are the probabilities
// without the bias, made to sum to one when asked (divided by their sum, or by kLeastChosenShare where that is larger),
// times scale, and times the number that expert_scale has for the expert. out holds n_used pairs (expert id, weight)
// per row. With groups, of n_experts / n_groups consecutive experts each, only those of the n_groups_used best can be
// chosen: those whose two largest probabilities, bias included, have the largest sum.
inline constexpr double kLeastChosenShare = 0x1p-14;
struct Route {
  uint32_t n_experts = 0, n_used = 0;
  bool normalise = true;
  SlotId logits, out;
  Gating gating = Gating::softmax;
  float scale = 1;
  std::optional<WeightId> bias = {};
  std::optional<WeightId> expert_scale = {};
  uint32_t n_groups = 0, n_groups_used = 0;  // 0: none
};

// The same matrix of every expert: n consecutive weights, of which those that rows are routed to are there.
struct ExpertStack {
  WeightId first;
  uint32_t n = 0;
  WeightId operator[](uint32_t expert) const { return WeightId(first.value + expert); }
};

// out_i[r] = for each used expert j of row r: weight_i[expert] * in[r], concatenated (n_used x rows of the weight)
struct ExpertMatmul {
  struct Part {
    ExpertStack weight;
    SlotId out;
    std::optional<WeightId> bias = {};  // a row per expert
  };
  uint32_t n_used = 0;
  SlotId in, routing;
  std::vector<Part> parts;
};

// Of each slot, the part of used expert j of row r is multiplied by its routing weight. All weights are 1 then.
struct WeighExperts {
  uint32_t n_used = 0;
  SlotId routing;
  std::vector<SlotId> slots;
};

// out[r] = sum over used experts j, in order: routing weight_j * (weight[expert_j] * in[r][j] + bias[expert_j])
struct ExpertCombine {
  uint32_t n_used = 0;
  SlotId in, routing, out;
  ExpertStack weight;
  std::optional<WeightId> bias = {};  // a row per expert
};

// out = the rows of in whose logits are wanted
struct TakeRows {
  SlotId in, out;
};

// ---- fused steps: several of those above at once, with the bits of one after the other (plan/fuse.h) ----

// A step that makes each row of a slot from the same row of others.
using RowStep = std::variant<Norm, Activate, Add>;

// Each row goes through all of them before it is left.
struct RowChain {
  std::vector<RowStep> steps;  // at least two
  SlotId out() const {
    return std::visit([](const auto& s) { return s.out; }, steps.back());
  }
};

// A product whose input's rows are made where they are prepared for it.
struct RowsMatmul {
  std::vector<RowStep> before;  // at least one; one of them writes the product's input
  Matmul product;
};

// Attention that rotates, where there is a rope, and stores keys and values of the rows that attend.
struct CachedAttend {
  std::optional<Rope> rope;
  StoreKv store;
  Attend attend;
};

using Step = std::variant<Embed, Norm, Matmul, Rope, StoreKv, Attend, Activate, Add, Route, ExpertMatmul, ExpertCombine,
                          TakeRows, Temper, Gate, Scale, TakeColumns, WeighExperts, RowChain, RowsMatmul, CachedAttend>;

// ---- what a step is made of ----

template <class S>
inline constexpr bool kIsFused =
    std::is_same_v<S, RowChain> || std::is_same_v<S, RowsMatmul> || std::is_same_v<S, CachedAttend>;
inline bool is_fused(const Step& step) {
  return std::visit([]<class S>(const S&) { return kIsFused<S>; }, step);
}

// Calls f with the step, or with every step that a fused one does, in order.
template <class F>
void each_part(const Step& step, F&& f) {
  const auto each_row_step = [&](const std::vector<RowStep>& steps) {
    for (const RowStep& one : steps) std::visit(f, one);
  };
  std::visit(
      [&]<class S>(const S& s) {
        if constexpr (std::is_same_v<S, RowChain>) {
          each_row_step(s.steps);
        } else if constexpr (std::is_same_v<S, RowsMatmul>) {
          each_row_step(s.before);
          f(s.product);
        } else if constexpr (std::is_same_v<S, CachedAttend>) {
          if (s.rope) f(*s.rope);
          f(s.store);
          f(s.attend);
        } else {
          f(s);
        }
      },
      step);
}

enum class SlotUse : uint8_t { read, written, updated };  // updated: what it holds is read first

// Every slot that a step names, part by part.
void each_slot(const Step& step, const std::function<void(SlotId, SlotUse)>& put);

// Whether a step reads what a slot holds before it, and whether it changes that.
bool reads(const Step& step, SlotId id);
bool writes(const Step& step, SlotId id);

// Whether one of the steps, in order, reads what a slot holds before the first.
bool is_wanted(SlotId id, std::span<const Step> steps);

// Every weight that a step names, but for experts, unless it is there already.
void add_weights(const Step& step, std::vector<WeightId>& out);

}  // namespace rocmforge
