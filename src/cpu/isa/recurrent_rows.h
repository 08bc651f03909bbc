#pragma once
// Rows of a run through states, for vectors of kLanes floats (isa/kernels.h). A lane's arithmetic does not depend on
// how many there are beside it but for the last ones, which no whole vector holds: those are always the same lanes.
//
// Everything here is static: see kernels.h.

#include <cstddef>
#include <cstdint>

#include "cpu/isa/kernels.h"

namespace rocmforge::cpu {
namespace {

template <int kLanes>
struct LaneVector {
  typedef float Floats __attribute__((vector_size(kLanes * 4)));
  typedef int32_t Ints __attribute__((vector_size(kLanes * 4)));
  Floats v;

  [[gnu::always_inline]] static inline LaneVector load(const float* at) {
    LaneVector out;
    __builtin_memcpy(&out.v, at, sizeof out.v);
    return out;
  }
  [[gnu::always_inline]] inline void store(float* at) const { __builtin_memcpy(at, &v, sizeof v); }
  [[gnu::always_inline]] static inline LaneVector all(float x) { return {Floats{} + x}; }
  [[gnu::always_inline]] friend inline LaneVector operator+(LaneVector a, LaneVector b) { return {a.v + b.v}; }
  [[gnu::always_inline]] friend inline LaneVector operator-(LaneVector a, LaneVector b) { return {a.v - b.v}; }
  [[gnu::always_inline]] friend inline LaneVector operator*(LaneVector a, LaneVector b) { return {a.v * b.v}; }

  // e^x within two units of the last place, of x up to 88; below -87 it stays what it is there.
  [[gnu::always_inline]] inline LaneVector exponential() const {
    Floats x = v < -87.0f ? Floats{} - 87.0f : v;
    x = x > 88.0f ? Floats{} + 88.0f : x;
    const Floats shifted = x * 1.44269504f + 0x1.8p23f;
    const Floats whole = shifted - 0x1.8p23f;
    const Floats f = (x - whole * 0.693145752f) - whole * 1.42860677e-6f;
    Floats p = f * 1.3888889e-3f + 8.3333333e-3f;
    p = p * f + 4.1666667e-2f;
    p = p * f + 1.6666667e-1f;
    p = p * f + 0.5f;
    p = p * f + 1.0f;
    p = p * f + 1.0f;
    Ints bits;
    __builtin_memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127) << 23;
    Floats power;
    __builtin_memcpy(&power, &bits, sizeof power);
    return {p * power};
  }
};

// Calls f.operator()<vectors at once, lanes of each>(first lane) until all lanes are done.
template <int kLanes, class F>
[[gnu::always_inline]] inline void for_lanes(size_t n, F&& f) {
  size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) f.template operator()<4, kLanes>(i);
  for (; i + kLanes <= n; i += kLanes) f.template operator()<1, kLanes>(i);
  for (; i + 4 <= n; i += 4) f.template operator()<1, 4>(i);
  for (; i < n; i++) f.template operator()<1, 1>(i);
}

template <int kAtOnce, int kLanes>
[[gnu::always_inline]] inline void delta_tile(const DeltaRows& rows, size_t first) {
  using V = LaneVector<kLanes>;
  float* const state = rows.after + first;
  const float* from = rows.before != nullptr ? rows.before + first : nullptr;
  for (size_t r = 0; r < rows.n_rows; r++, from = state) {
    const float *k = rows.k + r * rows.in_step, *q = rows.q + r * rows.in_step;
    const float* v = rows.v + r * rows.in_step + first;
    const float *factors = rows.factors + 4 * r, decay = factors[0], k_scale = factors[2], q_scale = factors[3];
    V found[kAtOnce], written[kAtOnce], out[kAtOnce];
    for (int j = 0; j < kAtOnce; j++) found[j] = out[j] = V::all(0);
    if (from != nullptr) {
      for (size_t i = 0; i < rows.key_size; i++) {
        const V key = V::all(k[i]);
        for (int j = 0; j < kAtOnce; j++) found[j] = found[j] + V::load(from + i * rows.lane_step + j * kLanes) * key;
      }
    }
    const V by = V::all(k_scale * decay), share = V::all(factors[1]);
    for (int j = 0; j < kAtOnce; j++) written[j] = (V::load(v + j * kLanes) - found[j] * by) * share;
    for (size_t i = 0; i < rows.key_size; i++) {
      const V key = V::all(k[i] * k_scale), query = V::all(q[i]);
      for (int j = 0; j < kAtOnce; j++) {
        const size_t at = i * rows.lane_step + j * kLanes;
        const V old = from != nullptr ? V::load(from + at) * V::all(decay) : V::all(0);
        const V now = old + key * written[j];
        now.store(state + at);
        out[j] = out[j] + now * query;
      }
    }
    for (int j = 0; j < kAtOnce; j++) {
      (out[j] * V::all(q_scale)).store(rows.out + r * rows.out_step + first + j * kLanes);
    }
  }
}

template <int kAtOnce, int kLanes, bool by_element>
[[gnu::always_inline]] inline void scan_tile(const ScanRows& rows, size_t first) {
  using V = LaneVector<kLanes>;
  float* const state = rows.after + first;
  const float* from = rows.before != nullptr ? rows.before + first : nullptr;
  for (size_t r = 0; r < rows.n_rows; r++, from = state) {
    const float *b = rows.b + r * rows.b_step, *c = rows.c + r * rows.c_step;
    const float *x = rows.x + r * rows.x_step + first, *steps = rows.steps + r * rows.steps_step;
    V step[kAtOnce], in[kAtOnce], out[kAtOnce];
    for (int j = 0; j < kAtOnce; j++) {
      step[j] = by_element ? V::load(steps + first + j * kLanes) : V::all(steps[1]);
      in[j] = V::load(x + j * kLanes);
      const V skip = by_element ? V::load(rows.skip + first + j * kLanes) : V::all(rows.skip[0]);
      out[j] = in[j] * skip;
      in[j] = in[j] * step[j];
    }
    for (size_t n = 0; n < rows.state_size; n++) {
      const V writes = V::all(b[n]), reads = V::all(c[n]);
      for (int j = 0; j < kAtOnce; j++) {
        const size_t at = n * rows.lane_step + j * kLanes;
        V now = in[j] * writes;
        if (from != nullptr) {
          const V decay = by_element
                              ? (V::load(rows.decay + n * rows.decay_step + first + j * kLanes) * step[j]).exponential()
                              : V::all(steps[0]);
          now = V::load(from + at) * decay + now;
        }
        now.store(state + at);
        out[j] = out[j] + now * reads;
      }
    }
    for (int j = 0; j < kAtOnce; j++) out[j].store(rows.out + r * rows.out_step + first + j * kLanes);
  }
}

template <int kLanes>
void delta_rows(const DeltaRows& rows) {
  for_lanes<kLanes>(rows.n_lanes, [&]<int n, int lanes>(size_t first)
                                      __attribute__((always_inline)) { delta_tile<n, lanes>(rows, first); });
}

template <int kLanes, bool by_element>
void scan_rows(const ScanRows& rows) {
  for_lanes<kLanes>(rows.n_lanes, [&]<int n, int lanes>(size_t first)
                                      __attribute__((always_inline)) { scan_tile<n, lanes, by_element>(rows, first); });
}

}  // namespace
}  // namespace rocmforge::cpu
