#include "cpu/experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "cpu/rare_steps.h"
#include "tensor/packed.h"

namespace rocmforge::cpu {
namespace {

// Output rows that one task combines: its products of all pairs wait in a worker's scratch.
constexpr uint64_t kCombinedRows = 64;

}  // namespace

void route_row(float* out, std::span<const float> logits, std::span<const float> bias, const Route& step,
               std::span<const float> expert_scale) {
  const uint32_t n_used = step.n_used;
  CHECK(expert_scale.empty() || expert_scale.size() == logits.size());
  CHECK(n_used <= logits.size() && (bias.empty() || bias.size() == logits.size()));
  const bool is_sigmoid = step.gating == Gating::sigmoid;
  const double largest = *std::max_element(logits.begin(), logits.end());
  const auto share = [&](uint32_t id) {
    return is_sigmoid ? 1.0 / (1.0 + std::exp(-double{logits[id]})) : std::exp(logits[id] - largest);
  };
  // What shares are parts of.
  double whole = 1;
  if (step.gating == Gating::softmax && (!bias.empty() || !step.normalise || step.n_groups != 0)) {
    whole = 0;
    for (uint32_t id = 0; id < logits.size(); id++) whole += share(id);
  }

  // What the choice is made by. Where nothing is added the logits themselves rank, in the same order. A NaN counts as
  // the smallest: the order stays an order.
  const bool by_logits = (bias.empty() && step.n_groups == 0) || step.gating == Gating::softmax_of_chosen;
  std::vector<double> rank(logits.size());
  for (uint32_t id = 0; id < logits.size(); id++) {
    rank[id] = (by_logits ? double{logits[id]} : share(id) / whole) + (bias.empty() ? 0.0 : double{bias[id]});
    if (std::isnan(rank[id])) rank[id] = -INFINITY;
  }
  if (step.n_groups != 0) leave_best_groups(rank, step.n_groups, step.n_groups_used);
  std::vector<uint32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0u);
  std::partial_sort(ids.begin(), ids.begin() + n_used, ids.end(),
                    [&](uint32_t a, uint32_t b) { return rank[a] != rank[b] ? rank[a] > rank[b] : a < b; });

  double total = whole;
  if (step.normalise || step.gating == Gating::softmax_of_chosen) {
    total = 0;
    for (uint32_t j = 0; j < n_used; j++) total += share(ids[j]);
    // Experts of hardly any probability may be chosen: their weights do not grow without bound.
    if (step.gating != Gating::softmax_of_chosen) total = std::max(total, kLeastChosenShare * whole);
  }
  for (uint32_t j = 0; j < n_used; j++) {
    out[2 * j] = static_cast<float>(ids[j]);
    const double times = expert_scale.empty() ? 1.0 : double{expert_scale[ids[j]]};
    out[2 * j + 1] = static_cast<float>(share(ids[j]) / total * step.scale * times);
  }
}

void Experts::group(const Routing& routing, size_t first, size_t n, uint64_t n_experts) {
  std::vector<uint32_t> pairs(n * routing.n_used);
  std::iota(pairs.begin(), pairs.end(), 0u);
  const auto expert_of = [&](uint32_t pair) {
    return routing.expert(first + pair / routing.n_used, pair % routing.n_used);
  };
  std::ranges::sort(pairs, {}, [&](uint32_t pair) { return std::pair(expert_of(pair), pair); });
  groups_.clear();
  for (const uint32_t pair : pairs) {
    const uint32_t expert = expert_of(pair);
    CHECK(expert < n_experts);
    if (groups_.empty() || groups_.back().expert != expert) groups_.push_back({expert, {}});
    groups_.back().pairs.push_back(pair);
  }
}

std::vector<Weight> Experts::used_weights(const ExpertPart& part, uint32_t width) const {
  std::vector<Weight> weights;
  for (const Group& group : groups_) {
    weights.push_back(part.weights.at(group.expert));
    CHECK(weights.back().shape.row_elements == width && weights.back().shape.n_rows == part.n_out);
  }
  return weights;
}

void Experts::multiply(std::span<const ExpertPart> parts, const Routing& routing, const float* in, size_t n_rows,
                       uint32_t width) {
  const size_t tile = multiplier_.max_inputs(width);
  for (size_t first = 0; first < n_rows; first += tile) {
    const size_t n = std::min(tile, n_rows - first);
    std::vector<const float*> inputs;
    for (size_t r = 0; r < n; r++) inputs.push_back(in + (first + r) * width);
    group(routing, first, n, parts[0].weights.n);
    std::vector<std::vector<Weight>> weights;  // by part and group
    for (const ExpertPart& part : parts) weights.push_back(used_weights(part, width));
    multiplier_.prepare(inputs, width);

    std::vector<std::vector<uint32_t>> rows(groups_.size());
    std::vector<std::vector<float*>> outs(groups_.size() * parts.size());
    std::vector<Product> products;
    for (size_t g = 0; g < groups_.size(); g++) {
      for (const uint32_t pair : groups_[g].pairs) rows[g].push_back(pair / routing.n_used);
      for (size_t p = 0; p < parts.size(); p++) {
        const ExpertPart& part = parts[p];
        auto& out = outs[g * parts.size() + p];
        for (const uint32_t pair : groups_[g].pairs) {
          out.push_back(part.out + (first * routing.n_used + pair) * part.n_out);
        }
        const float* bias = part.bias.empty() ? nullptr : &part.bias[size_t{groups_[g].expert} * part.n_out];
        products.push_back({weights[p][g], bias, rows[g], out});
      }
    }
    multiplier_.multiply(products);
  }
}

void Experts::combine(const ExpertPart& part, const Routing& routing, const float* in, size_t n_rows, uint32_t width) {
  const uint32_t n_used = routing.n_used;
  const uint64_t n_out = part.n_out;
  const std::span<const float> bias = part.bias;
  const size_t tile = std::max<size_t>(1, multiplier_.max_inputs(width) / n_used);
  products_.resize(workers_.n_threads());
  for (size_t first = 0; first < n_rows; first += tile) {
    const size_t n = std::min(tile, n_rows - first);
    std::vector<const float*> inputs;
    for (size_t pair = 0; pair < n * n_used; pair++) inputs.push_back(in + (first * n_used + pair) * width);
    group(routing, first, n, part.weights.n);
    const std::vector<Weight> weights = used_weights(part, width);
    multiplier_.prepare(inputs, width);
    for (const Weight& weight : weights) multiplier_.prepare_for(weight);

    workers_.run((n_out + kCombinedRows - 1) / kCombinedRows, [&](size_t task, size_t worker) {
      const uint64_t begin = task * kCombinedRows;
      const uint64_t n_now = std::min(kCombinedRows, n_out - begin);
      std::vector<float>& products = products_[worker];
      products.resize(n * n_used * kCombinedRows);
      for (size_t g = 0; g < groups_.size(); g++) {
        std::vector<float*> to;
        for (const uint32_t pair : groups_[g].pairs) to.push_back(products.data() + pair * kCombinedRows);
        multiplier_.multiply_rows({weights[g], nullptr, groups_[g].pairs, to}, {begin, n_now, 0}, worker);
      }
      for (size_t r = 0; r < n; r++) {
        float* row = part.out + (first + r) * n_out + begin;
        std::fill_n(row, n_now, 0.0f);
        for (uint32_t j = 0; j < n_used; j++) {
          const float* product = products.data() + (r * n_used + j) * kCombinedRows;
          const float share = routing.weight(first + r, j);
          const float* expert_bias = bias.empty() ? nullptr : &bias[routing.expert(first + r, j) * n_out + begin];
          for (uint64_t i = 0; i < n_now; i++) row[i] += share * (product[i] + (expert_bias ? expert_bias[i] : 0.0f));
        }
      }
    });
  }
}

}  // namespace rocmforge::cpu
