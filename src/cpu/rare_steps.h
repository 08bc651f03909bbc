#pragma once
// Steps that few families have, row by row: plain loops, the same on every instruction set. Outputs may be inputs.

#include <cstddef>
#include <cstdint>
#include <span>

#include "plan/step.h"

namespace rocmforge::cpu {

// to = activation(gate) * up, of the kinds that have no kernel of their own; without an up it is 1. Whether `activate`
// has to be used: else the kernel of the kind is enough.
bool is_rare(const Activate& step);
void activate(float* to, const float* gate, const float* up, size_t n, const Activate& step);

// out = in * gate, where each of n_gates numbers is for n / n_gates consecutive elements. REQUIRES: n_gates divides n
void gate(float* out, const float* in, size_t n, const float* gates, size_t n_gates, OutputGate kind);

// A row of streams (plan/step.h, MixStreams). coefficients may be null.
void mix_streams(float* out, const float* in, const float* coefficients, size_t width, const MixStreams& step);
// Every n elements of values become as long as the n of `like`.
void match_length(float* values, size_t n_values, const float* like, size_t n);
// What is above mean + factor * deviation, less that; else 0.
void cut_row(float* values, size_t n, float factor);

void clamp(float* values, size_t n, float limit);

// The factor of a query at this position.
float temperature_at(const Temperature& temperature, uint32_t position);

// The experts that a row may choose (plan/step.h, Route): ranks of the others become minus infinity.
void leave_best_groups(std::span<double> ranks, uint32_t n_groups, uint32_t n_used);

// Multiplies the part of each used expert by its weight, which becomes 1. routing: n_used pairs (id, weight)
void weigh(std::span<float* const> parts, std::span<const size_t> widths, float* routing, uint32_t n_used);

}  // namespace rocmforge::cpu
