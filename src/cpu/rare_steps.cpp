#include "cpu/rare_steps.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace rocmforge::cpu {
namespace {

float sigmoid(float x) {
  return 1.0f / (1.0f + std::exp(-x));
}

float softplus(float x) {
  return x > 20 ? x : std::log1p(std::exp(x));
}

float xielu(float x, const Xielu& by) {
  if (x > 0) return by.alpha_p * x * x + by.beta * x;
  return by.alpha_n * (std::expm1(std::min(x, by.epsilon)) - x) + by.beta * x;
}

}  // namespace

bool is_rare(const Activate& step) {
  switch (step.kind) {
    case Activation::silu:
      return step.clamp != 0;
    case Activation::gelu:
    case Activation::clamped_swish:
      return false;
    case Activation::relu:
    case Activation::relu_squared:
    case Activation::xielu:
      return true;
  }
  RF_UNREACHABLE("an Activation outside its enum");
}

void activate(float* to, const float* gate, const float* up, size_t n, const Activate& step) {
  const auto each = [&](auto&& f) {
    for (size_t i = 0; i < n; i++) to[i] = f(gate[i]) * (up != nullptr ? up[i] : 1.0f);
  };
  switch (step.kind) {
    case Activation::silu:
      CHECK(up != nullptr);
      for (size_t i = 0; i < n; i++) {
        to[i] = std::min(gate[i] * sigmoid(gate[i]), step.clamp) * std::clamp(up[i], -step.clamp, step.clamp);
      }
      return;
    case Activation::relu:
      return each([](float x) { return std::max(x, 0.0f); });
    case Activation::relu_squared:
      return each([](float x) { return x > 0 ? x * x : 0.0f; });
    case Activation::xielu:
      return each([&](float x) { return xielu(x, step.xielu); });
    case Activation::gelu:
    case Activation::clamped_swish:
      break;
  }
  RF_UNREACHABLE("an activation with a kernel of its own");
}

void gate(float* out, const float* in, size_t n, const float* gates, size_t n_gates, OutputGate kind) {
  CHECK(n_gates > 0 && n % n_gates == 0 && kind != OutputGate::none);
  const size_t each = n / n_gates;
  for (size_t g = 0; g < n_gates; g++) {
    const float by = kind == OutputGate::plain     ? gates[g]
                     : kind == OutputGate::sigmoid ? sigmoid(gates[g])
                                                   : softplus(gates[g]);
    for (size_t i = g * each; i < (g + 1) * each; i++) out[i] = in[i] * by;
  }
}

void mix_streams(float* out, const float* in, const float* coefficients, size_t width, const MixStreams& step) {
  for (uint32_t j = 0; j < step.n_out; j++) {
    for (size_t i = 0; i < width; i++) {
      float sum = 0;
      for (uint32_t k = 0; j >= step.first && k < step.n_in; k++) {
        const float by = coefficients != nullptr ? coefficients[j * step.n_in + k] + step.offset : 1.0f;
        sum += by * in[k * width + i];
      }
      out[j * width + i] = sum * step.scale;
    }
  }
}

void match_length(float* values, size_t n_values, const float* like, size_t n) {
  const auto squares = [&](const float* of) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += double{of[i]} * of[i];
    return sum;
  };
  const double wanted = squares(like);
  for (float* to = values; to != values + n_values; to += n) {
    const double is = squares(to);
    if (is == 0) continue;
    const auto by = static_cast<float>(std::sqrt(wanted / is));
    for (size_t i = 0; i < n; i++) to[i] *= by;
  }
}

void cut_row(float* values, size_t n, float factor) {
  double sum = 0, squares = 0;
  for (size_t i = 0; i < n; i++) sum += values[i];
  const double mean = sum / static_cast<double>(n);
  for (size_t i = 0; i < n; i++) squares += (values[i] - mean) * (values[i] - mean);
  const double deviation = n > 1 ? std::sqrt(squares / static_cast<double>(n - 1)) : 0;
  const auto cut = static_cast<float>(mean + factor * deviation);
  for (size_t i = 0; i < n; i++) values[i] = std::max(values[i] - cut, 0.0f);
}

void clamp(float* values, size_t n, float limit) {
  for (size_t i = 0; i < n; i++) values[i] = std::clamp(values[i], -limit, limit);
}

float temperature_at(const Temperature& temperature, uint32_t position) {
  const double blocks = std::floor((double{1} * position + temperature.offset) / temperature.length);
  return static_cast<float>(1 + temperature.scale * std::log(blocks + 1));
}

void leave_best_groups(std::span<double> ranks, uint32_t n_groups, uint32_t n_used) {
  const size_t size = ranks.size() / n_groups;
  CHECK(size >= 2 && ranks.size() % n_groups == 0 && n_used <= n_groups);
  std::vector<std::pair<double, uint32_t>> scores;
  for (uint32_t g = 0; g < n_groups; g++) {
    double best = -INFINITY, second = -INFINITY;
    for (const double rank : ranks.subspan(g * size, size)) {
      second = std::max(second, std::min(rank, best));
      best = std::max(best, rank);
    }
    scores.emplace_back(best + second, g);
  }
  std::ranges::sort(scores, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  for (uint32_t i = n_used; i < n_groups; i++) {
    std::ranges::fill(ranks.subspan(scores[i].second * size, size), -INFINITY);
  }
}

void weigh(std::span<float* const> parts, std::span<const size_t> widths, float* routing, uint32_t n_used) {
  for (uint32_t j = 0; j < n_used; j++) {
    const float weight = routing[2 * j + 1];
    for (size_t p = 0; p < parts.size(); p++) {
      float* part = parts[p] + j * widths[p];
      for (size_t i = 0; i < widths[p]; i++) part[i] *= weight;
    }
    routing[2 * j + 1] = 1.0f;
  }
}

}  // namespace rocmforge::cpu
