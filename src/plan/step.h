#pragma once
// The vocabulary of execution: typed steps over named slots. The model is written once, as a list of these
// (plan/builder.cpp); a backend knows steps, never models.
//
// A slot is a logical matrix, one row per batch row (or per output row after TakeRows), of a fixed width. How it is
// stored is the backend's business.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
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

// out[r] = table[token[r]]
struct Embed {
  WeightId table;
  SlotId out;
};

// out[r] = normalised in[r], times weight, plus bias
struct Norm {
  NormKind kind = NormKind::rms;
  float epsilon = 0;
  SlotId in, out;
  WeightId weight;
  std::optional<WeightId> bias;
};

// Up to three products of one input: out_i[r] = weight_i * in[r] + bias_i. Each weight has its own format.
struct Matmul {
  struct Part {
    WeightId weight;
    std::optional<WeightId> bias;
    SlotId out;
  };
  SlotId in;
  std::vector<Part> parts;
};

// Rotates the heads of q and k in place, by each row's position.
struct Rope {
  RopeSpec rope;
  std::optional<WeightId> factors;  // divisors of the frequencies, one per pair
  uint32_t head_size = 0;
  SlotId q, k;
};

// Appends the rows' keys and values to the cache of `layer`.
struct StoreKv {
  uint32_t layer = 0;
  SlotId k, v;
};

// out[r] = causal attention of q[r] over the cached positions 0 .. position[r] of its sequence.
// Query head h reads key-value head h / (n_heads / n_kv_heads).
struct Attend {
  uint32_t layer = 0;
  uint32_t n_heads = 0, n_kv_heads = 0, head_size = 0;
  float scale = 0;
  SlotId q, out;
};

// out[r] = activation(gate[r]) * up[r], element by element
struct Activate {
  Activation kind = Activation::silu;
  SlotId gate, up, out;
};

// out[r] += in[r]
struct Add {
  SlotId in, out;
};

// Chooses n_used experts per row from the router's logits: softmax over all, the largest (the lower id first among
// equals), their weights made to sum to one when asked. out holds n_used pairs (expert id, weight) per row.
struct Route {
  uint32_t n_experts = 0, n_used = 0;
  bool normalise = true;
  SlotId logits, out;
};

// out_i[r] = for each used expert j of row r: weight_i[expert] * in[r], concatenated (n_used x rows of the weight)
struct ExpertMatmul {
  struct Part {
    WeightId weight;
    SlotId out;
  };
  uint32_t n_used = 0;
  SlotId in, routing;
  std::vector<Part> parts;
};

// out[r] = sum over used experts j, in order: routing weight_j * (weight[expert_j] * in[r][j])
struct ExpertCombine {
  uint32_t n_used = 0;
  SlotId in, routing, out;
  WeightId weight;
};

// out = the rows of in whose logits are wanted
struct TakeRows {
  SlotId in, out;
};

using Step = std::variant<Embed, Norm, Matmul, Rope, StoreKv, Attend, Activate, Add, Route, ExpertMatmul, ExpertCombine,
                          TakeRows>;

}  // namespace rocmforge
