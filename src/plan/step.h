#pragma once
// The vocabulary of execution: typed steps over named slots. The model is written once, as a list of these
// (plan/builder.cpp); a backend knows steps, never models.
//
// A slot is a logical matrix, one row per batch row (or per output row after TakeRows), of a fixed width. How it is
// stored is the backend's business.

#include <array>
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
// themselves (0: the whole row); the weight is as long as a group, or as a row.
struct Norm {
  NormKind kind = NormKind::rms;
  float epsilon = 0;
  SlotId in, out;
  WeightId weight;
  std::optional<WeightId> bias = {};
  uint32_t group = 0;
};

// Up to three products of one input: out_i[r] = weight_i * in[r] + bias_i. Each weight has its own format.
// Afterwards each output is multiplied by `scale` and, if `softcap` is not 0, becomes softcap * tanh(output / softcap).
struct Matmul {
  struct Part {
    WeightId weight;
    std::optional<WeightId> bias = {};
    SlotId out;
  };
  SlotId in;
  std::vector<Part> parts;
  float scale = 1;
  float softcap = 0;
};

// Rotates the heads of q and k in place, by each row's position.
struct Rope {
  RopeSpec rope;
  std::optional<WeightId> factors = {};  // divisors of the frequencies, one per pair
  uint32_t head_size = 0;
  SlotId q, k;
};

// Appends the rows' keys and values to the cache of `layer`.
struct StoreKv {
  uint32_t layer = 0;
  SlotId k, v;
};

// out[r] = causal attention of q[r] over the cached positions 0 .. position[r] of its sequence.
// Query head h reads key-value head h / (n_heads / n_kv_heads). With a window only the last `window` positions count,
// with a softcap scores become softcap * tanh(score / softcap), and a sink is one more score per head, of no value.
struct Attend {
  uint32_t layer = 0;
  uint32_t n_heads = 0, n_kv_heads = 0, head_size = 0;
  float scale = 0;
  SlotId q, out;
  uint32_t window = 0;  // 0: all
  float softcap = 0;    // 0: none
  std::optional<WeightId> sinks = {};
};

// out[r] = activation(gate[r]) * up[r], element by element; not gated: activation(gate[r]) alone. No step after it
// reads what gate and up were before it.
struct Activate {
  Activation kind = Activation::silu;
  SlotId gate, up, out;
  bool gated = true;
};

// out[r] += scale * in[r]
struct Add {
  SlotId in, out;
  float scale = 1;
};

// Chooses n_used experts per row from the router's logits: the largest probabilities, plus `bias` where there is one
// (the lower id first among equals; of `softmax_of_chosen` the largest logits). Their weights are the probabilities
// without the bias, made to sum to one when asked (divided by their sum, or by kLeastChosenShare where that is larger),
// times scale. out holds n_used pairs (expert id, weight) per row.
inline constexpr double kLeastChosenShare = 0x1p-14;
struct Route {
  uint32_t n_experts = 0, n_used = 0;
  bool normalise = true;
  SlotId logits, out;
  Gating gating = Gating::softmax;
  float scale = 1;
  std::optional<WeightId> bias = {};
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
                          TakeRows, RowChain, RowsMatmul, CachedAttend>;

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
