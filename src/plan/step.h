#pragma once
// The vocabulary of execution: typed steps over named slots. The model is written once, as a list of these
// (plan/builder.cpp); a backend knows steps, never models.
//
// A slot is a logical matrix, one row per batch row (or per output row after TakeRows), of a fixed width. How it is
// stored is the backend's business.

#include <algorithm>
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

// out[r] = scale * table[token[r]] (+ positions[position of r] if positions are learned)
struct Embed {
  WeightId table;
  SlotId out;
  float scale = 1;
  std::optional<WeightId> positions = {};
};

// out[r] = normalised in[r] * weight + bias. `group` consecutive elements are normalised together (0: the whole row).
// The weight has the length of a group or of a row; no weight means 1.
struct Norm {
  NormKind kind = NormKind::rms;
  float epsilon = 0;
  SlotId in, out;
  std::optional<WeightId> weight;
  std::optional<WeightId> bias = {};
  uint32_t group = 0;
};

// Up to three products of one input: out_i[r] = weight_i * in[r] + bias_i. Each weight has its own format. A part may
// have a scale, a weight of one element, and then has no bias. Afterwards every output is multiplied by `scale`, then
// capped: softcap * tanh(output / softcap) if `softcap` is not 0, or clamped to +-clamp if `clamp` is not 0.
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

// Rotates the heads of q and k in place, by each row's position. If q and k are the same slot, it is rotated once.
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

// out[r] = causal attention of q[r] over the cached positions 0 .. position[r] of its sequence. Query head h reads
// key-value head h / (n_heads / n_kv_heads). Options: `window` limits attention to the last `window` positions, `chunk`
// to the positions from the last multiple of `chunk` on; scores become softcap * tanh(score / softcap); a sink is one
// more score per head, without a value; ALiBi subtracts alibi_slope(h) from head h's scores for each position between
// query and key.
struct Attend {
  uint32_t layer = 0;
  uint32_t n_heads = 0, n_kv_heads = 0, head_size = 0;
  float scale = 0;
  SlotId q, out;
  uint32_t window = 0;  // 0: all
  float softcap = 0;    // 0: none
  std::optional<WeightId> sinks = {};
  uint32_t value_size = 0;  // elements of a head's values and output; 0: head_size
  uint32_t chunk = 0;       // 0: none
  float alibi_bias = 0;     // 0: none

  uint32_t value_head() const { return value_size != 0 ? value_size : head_size; }
};

// ALiBi's slope of a head: a geometric series over the first n heads, n the largest power of two that is at most
// n_heads; the other heads get values between those of the series.
inline float alibi_slope(float bias, uint32_t n_heads, uint32_t head) {
  const uint32_t n = std::bit_floor(n_heads);
  const auto power = [&](float base, uint32_t i) { return std::pow(base, static_cast<float>(i)); };
  return head < n ? power(std::exp2(-bias / static_cast<float>(n)), head + 1)
                  : power(std::exp2(-bias / 2 / static_cast<float>(n)), 2 * (head - n) + 1);
}

// out[r] = attention of q[r] over all rows of its text, before and behind it: an encoder's, without a cache. Query head
// h reads key-value head h / (n_heads / n_kv_heads). Options: `window` limits attention to rows at most window / 2
// away; ALiBi as in Attend, by the distance in either direction; `distance_biases` has a row for each bucket of
// distances (distance_bucket), whose element h is added to head h's scores.
struct AttendBothWays {
  uint32_t n_heads = 0, n_kv_heads = 0, head_size = 0, value_size = 0;
  float scale = 0;
  SlotId q, k, v, out;
  uint32_t window = 0;   // 0: all
  float softcap = 0;     // 0: none
  float alibi_bias = 0;  // 0: none
  std::optional<WeightId> distance_biases = {};
};

// T5's bucket of the distance from a query to a key, of n_buckets: half of them for keys behind the query; short
// distances have one each, longer ones share them on a logarithmic scale up to 128.
inline uint32_t distance_bucket(int64_t distance, uint32_t n_buckets) {
  constexpr float kLongest = 128;
  const uint32_t n = n_buckets / 2, n_exact = n / 2;
  const uint32_t first = distance > 0 ? n : 0;
  const auto away = static_cast<uint32_t>(distance < 0 ? -distance : distance);
  if (away < n_exact) return first + away;
  // In single precision, where a distance on the border of two buckets rounds up to the border.
  const auto exact = static_cast<float>(n_exact);
  const float share = std::log(static_cast<float>(away) / exact) / std::log(kLongest / exact);
  return first + std::min(n - 1, static_cast<uint32_t>(exact + share * static_cast<float>(n - n_exact)));
}

// out: for each output row, the rows of its text pooled into one, as the batch says; `of_rank` in the place of rank.
struct Pool {
  SlotId in, out;
  Pooling of_rank = Pooling::first;
};

// out[r] = in[r] * g, where g is sigmoid or softplus of gate[r], or gate[r] itself. A gate narrower than the input
// applies each of its elements to width of in / width of gate consecutive elements.
struct Gate {
  OutputGate kind = OutputGate::sigmoid;
  SlotId in, gate, out;
};

// out[r] = activation(gate[r]) * up[r], element by element; without a gate: activation(gate[r]) alone. A backend may
// overwrite gate and up: no later step reads their old contents.
struct Activate {
  Activation kind = Activation::silu;
  SlotId gate, up, out;
  bool gated = true;
  float clamp = 0;  // for silu: silu(gate) is clamped to at most this, up to +- this; 0: no clamp
  Xielu xielu = {};
};

// slot[r] += weight, a vector
struct AddVector {
  SlotId slot;
  WeightId weight;
};

// A row of `in` is n_in streams, a row of `out` n_out, all of as many elements:
//   out stream j = scale * (sum over k, ascending: (coefficients[j * n_in + k] + offset) * in stream k)
// Without coefficients each factor is 1. Streams before `first` become zeros. REQUIRES: one stream each, or in is not
// out
struct MixStreams {
  SlotId in, out;
  uint32_t n_in = 1, n_out = 1;
  std::optional<SlotId> coefficients = {};
  float offset = 0, scale = 1;
  uint32_t first = 0;
};

// Every `width of like` consecutive elements of slot[r] are scaled to the length (2-norm) of like[r]. Zeros stay.
struct MatchLength {
  SlotId slot, like;
};

// slot[r] = max(0, slot[r] - (mean + factor * deviation)): the mean of the row's elements and their deviation with n -
// 1
struct CutRow {
  SlotId slot;
  float factor = 0;
};

// slot[r] *= weight, a weight of one element or of one for each
struct Scale {
  SlotId slot;
  WeightId weight;
};

// out[r] = elements [first, first + width of out) of in[r]. With a period: elements [first, first + n) of every
// `period` elements of in[r] are concatenated and written to out[r] from out_first on; the rest of out[r] is unchanged.
struct TakeColumns {
  SlotId in, out;
  uint32_t first = 0;
  uint32_t period = 0;
  uint32_t n = 0;
  uint32_t out_first = 0;
};

// ---- recurrent steps: each run of a batch starts from its sequence's state of the layer and stores the state after
// its last row (plan/batch.h). A step's state lies in the layer's state from state_at on, in f32. Rows of a run are
// computed in order, and sums add the terms of one row in a fixed order: cutting a text into runs changes no bit. ----

// out[r][c] = bias[c] + sum over taps j, ascending: weight[c][j] * in[r - n_taps + 1 + j][c], then silu if `silu`.
// Inputs before a text are zeros. State: the last n_taps - 1 inputs, oldest first. REQUIRES: in is not out
struct Convolve {
  uint32_t layer = 0, state_at = 0;
  uint32_t n_taps = 0;
  SlotId in, out;
  WeightId weight;  // a vector: the taps of each channel, oldest first
  std::optional<WeightId> bias = {};
  bool silu = false;
};

// Elements of a slot's rows from `first` on.
struct Columns {
  SlotId slot;
  uint32_t first = 0;
};

// A selective scan (Mamba) over n_heads heads of head_size elements, each element with a state S of state_size numbers:
//   D = softplus(step + step_bias)     per head; by_element: per element
//   S[i][n] = S[i][n] * e^(D decay) + b[n] * x[i] * D,   out[i] = sum over n, ascending: S[i][n] * c[n], + skip * x[i]
// n_heads / n_groups heads have b and c in common. `decay` has one number per head; by_element: state_size x elements.
// `skip` has one per head; by_element: one per element. Layout of the state: [head][n][element].
struct Scan {
  uint32_t layer = 0, state_at = 0;
  uint32_t n_heads = 0, head_size = 0, state_size = 0, n_groups = 1;
  bool by_element = false;
  Columns x, b = {}, c = {};
  SlotId step = {}, out = {};
  WeightId step_bias, decay, skip;

  uint32_t inner() const { return n_heads * head_size; }
  uint32_t n_steps() const { return by_element ? inner() : n_heads; }
};

// The gated delta rule over n_heads value heads of head_size elements, with n_key_heads query and key heads of key_size
// elements. A row of `in` holds queries, keys, values. Per value head, with q and k divided by their length (at least
// epsilon):
//   S *= e^(decay * softplus(alpha + step_bias));  u = sigmoid(beta) * (v - S^T k);  S += k u^T;
//   out = S^T q / sqrt(key_size)
// Layout of the state: [value head][key element][value element]. Sums go over the key's elements, ascending.
struct DeltaRule {
  uint32_t layer = 0, state_at = 0;
  uint32_t n_heads = 0, head_size = 0, n_key_heads = 0, key_size = 0;
  bool alternates = false;  // value head j reads key head j mod n_key_heads, else j / (n_heads / n_key_heads)
  float epsilon = 0;
  SlotId in, beta, alpha, out;
  WeightId step_bias, decay;

  uint32_t key_head(uint32_t j) const { return alternates ? j % n_key_heads : j / (n_heads / n_key_heads); }
};

// out[r] += scale * in[r]
struct Add {
  SlotId in, out;
  float scale = 1;
};

// Chooses n_used experts per row from the router's logits. Experts are ranked by probability plus `bias` (by logit for
// softmax_of_chosen); equal ranks go to the lower id. With groups of n_experts / n_groups consecutive experts, only
// experts of the n_groups_used best groups are candidates; a group's rank is the sum of its two largest ranks.
// A chosen expert's weight is its probability without the bias; if `normalise`, divided by the sum of the chosen
// probabilities or by kLeastChosenShare, whichever is larger; times `scale`, times the expert's element of
// expert_scale. out holds n_used pairs (expert id, weight) per row.
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

// The same matrix of every expert: n consecutive weights. Only those of experts that rows are routed to are resident.
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

// Multiplies used expert j's part of row r, in each slot, by its routing weight. Then sets all routing weights to 1.
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

// out = the output rows of in (Batch::output_rows)
struct TakeRows {
  SlotId in, out;
};

// ---- fused steps: several of the steps above as one, with the same bits (plan/fuse.h) ----

// A step whose output row r depends on row r of its inputs alone.
using RowStep = std::variant<Norm, Activate, Add>;

// Several row steps; each row goes through all of them before the next row begins.
struct RowChain {
  std::vector<RowStep> steps;  // at least two
  SlotId out() const {
    return std::visit([](const auto& s) { return s.out; }, steps.back());
  }
};

// Row steps and the product that reads their result; each row is computed when it is prepared as the product's input.
struct RowsMatmul {
  std::vector<RowStep> before;  // at least one; one of them writes the product's input
  Matmul product;
};

// Rope (optional), StoreKv and Attend of the same rows.
struct CachedAttend {
  std::optional<Rope> rope;
  StoreKv store;
  Attend attend;
};

using Step =
    std::variant<Embed, Norm, Matmul, Rope, StoreKv, Attend, Activate, Add, Route, ExpertMatmul, ExpertCombine,
                 TakeRows, Temper, Gate, Scale, TakeColumns, WeighExperts, Convolve, Scan, DeltaRule, AttendBothWays,
                 Pool, AddVector, MixStreams, MatchLength, CutRow, RowChain, RowsMatmul, CachedAttend>;

// ---- parts of a step ----

template <class S>
inline constexpr bool kIsFused =
    std::is_same_v<S, RowChain> || std::is_same_v<S, RowsMatmul> || std::is_same_v<S, CachedAttend>;
inline bool is_fused(const Step& step) {
  return std::visit([]<class S>(const S&) { return kIsFused<S>; }, step);
}

// Calls f with the step, or with every part of a fused step, in order.
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

enum class SlotUse : uint8_t { read, written, updated };  // updated: read, then written

// Calls put for every slot of a step, part by part.
void each_slot(const Step& step, const std::function<void(SlotId, SlotUse)>& put);

// Whether a step reads the slot's old contents; whether it changes the contents.
bool reads(const Step& step, SlotId id);
bool writes(const Step& step, SlotId id);

// Whether the slot's contents before the first of these steps are read by any of them.
bool is_wanted(SlotId id, std::span<const Step> steps);

// Appends the weights of a step, except experts, that `out` does not have yet.
void add_weights(const Step& step, std::vector<WeightId>& out);

}  // namespace rocmforge
