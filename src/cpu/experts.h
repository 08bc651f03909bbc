#pragma once
// Mixture of experts: which experts each row uses, and the products with theirs alone. Rows that use the same expert
// share one pass over its weights.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cpu/matmul.h"
#include "plan/step.h"

namespace rocmforge::cpu {

// One row's experts and weights as Route leaves them: n_used pairs (id, weight) of floats.
struct Routing {
  const float* rows = nullptr;
  uint32_t n_used = 0;

  uint32_t expert(size_t row, uint32_t j) const { return static_cast<uint32_t>(rows[(row * n_used + j) * 2]); }
  float weight(size_t row, uint32_t j) const { return rows[(row * n_used + j) * 2 + 1]; }
};

// The experts that the step chooses for one row (plan/step.h); out: n_used pairs. `bias` and `expert_scale` are empty
// or one per expert. Whatever the logits hold, the ids are distinct and below logits.size(). REQUIRES: n_used <=
// logits.size()
void route_row(float* out, std::span<const float> logits, std::span<const float> bias, const Route& step,
               std::span<const float> expert_scale = {});

// The same matrix of every expert, all of one shape. Asked only for those that rows are routed to: others may be
// absent.
struct ExpertWeights {
  uint32_t n = 0;
  std::function<Weight(uint32_t expert)> at;
};

// A matrix of every expert, and a slot's rows: one product after the other for each used expert of a row.
struct ExpertPart {
  ExpertWeights weights;
  float* out = nullptr;         // n_rows x n_used x n_out; n_rows x n_out when they are combined
  uint32_t n_out = 0;           // rows of the matrix
  std::span<const float> bias;  // n_experts x n_out, or none
};

class Experts {
 public:
  Experts(Multiplier& multiplier, Workers& workers) : multiplier_(multiplier), workers_(workers) {}

  // out[r][j] = weights[expert j of r] * in[r];  in: n_rows x width
  void multiply(std::span<const ExpertPart> parts, const Routing& routing, const float* in, size_t n_rows,
                uint32_t width);
  // out[r] = sum over j, ascending: weight_j * (weights[expert j of r] * in[r][j] + bias[expert j of r])
  // in: n_rows x n_used x width; out: n_rows x n_out; bias: n_experts x n_out, or none
  void combine(const ExpertPart& part, const Routing& routing, const float* in, size_t n_rows, uint32_t width);

 private:
  // The pairs (row, j) of rows [first, first + n), by expert.
  void group(const Routing& routing, size_t first, size_t n, uint64_t n_experts);

  // What the groups need of the part.
  std::vector<Weight> used_weights(const ExpertPart& part, uint32_t width) const;

  Multiplier& multiplier_;
  Workers& workers_;
  struct Group {
    uint32_t expert;
    std::vector<uint32_t> pairs;  // (row - first) * n_used + j
  };
  std::vector<Group> groups_;
  std::vector<std::vector<float>> products_;  // by worker
};

}  // namespace rocmforge::cpu
