// The gated delta rule, row by row. With S the state before a row, both sums over S are taken at once:
//   u = beta (v - decay S^T k),   out = decay S^T q + (k . q) u,   S = decay S + k u^T

#include "gpu/runtime.h"

#include "gpu/kernels/walk.h"

namespace rocmforge::gpu::RF_KERNELS {

constexpr uint32_t kRowThreads = kWalkThreads / kGroupRows;  // that sum over one row's keys

template <uint32_t kPer>
struct DeltaWalk {
  static constexpr uint32_t kKey = LaneStates<kPer>::kElements;
  struct Factors {
    float decay, share;      // of the state; of what is written
    float k_scale, q_scale;  // to unit length, of queries also by 1 / sqrt(key_size)
    float k_q;               // k . q before scaling
  };
  struct Shared {
    alignas(16) float k[kGroupRows][kKey];
    alignas(16) float q[kGroupRows][kKey];
    float v[kGroupRows][kWalkColumns];
    Factors factors[kGroupRows];
  };

  const DeltaRuleArgs& args;
  const WalkPlace place;
  const float *q, *k, *v, *alpha, *beta;  // of the run's first row
  uint64_t state_at;
  LaneStates<kPer> states;
  RowGroup<kKey> next_k, next_q;
  RowGroup<kWalkColumns> next_v;
  float next_alpha, next_beta;

  RF_DEVICE explicit DeltaWalk(const DeltaRuleArgs& all) : args(all), place(all.states, all.head_size) {
    const uint32_t per_key = args.n_heads / args.n_key_heads;
    const uint32_t key_head = args.alternates != 0 ? place.head % args.n_key_heads : place.head / per_key;
    const uint64_t row = place.run.first_row;
    const float* first = args.in.first + row * args.in.width;
    q = first + key_head * args.key_size;
    k = q + args.n_key_heads * args.key_size;
    v = first + 2 * args.n_key_heads * args.key_size + place.column(args.head_size);
    alpha = args.alpha.first + row * args.alpha.width + place.head;
    beta = args.beta.first + row * args.beta.width + place.head;
    state_at = static_cast<uint64_t>(place.head) * args.key_size * args.head_size + place.first_column;
  }

  RF_DEVICE void begin() {
    states.load(place.before(args.states, state_at), args.head_size, args.key_size, place.n_columns);
  }
  RF_DEVICE void end() {
    states.store(place.after(args.states, state_at), args.head_size, args.key_size, place.n_columns);
  }

  RF_DEVICE void load(uint32_t first, uint32_t n_rows) {
    const uint64_t at = static_cast<uint64_t>(first) * args.in.width;
    next_k.load(k + at, args.in.width, n_rows, args.key_size);
    next_q.load(q + at, args.in.width, n_rows, args.key_size);
    next_v.load(v + at, args.in.width, n_rows, place.n_columns);
    const uint32_t row = thread_index() / kRowThreads;
    next_alpha = next_beta = 0;
    if (row >= n_rows) return;
    next_alpha = alpha[static_cast<uint64_t>(first + row) * args.alpha.width];
    next_beta = beta[static_cast<uint64_t>(first + row) * args.beta.width];
  }
  RF_DEVICE void put(Shared& shared) const {
    next_k.put(shared.k);
    next_q.put(shared.q);
    next_v.put(shared.v);
  }

  // By kRowThreads neighbouring threads for each row.
  RF_DEVICE void prepare(Shared& shared) const {
    const uint32_t row = thread_index() / kRowThreads, part = thread_index() % kRowThreads;
    float k_k = 0, q_q = 0, k_q = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < kKey / kRowThreads; i++) {
      const float key = shared.k[row][i * kRowThreads + part], query = shared.q[row][i * kRowThreads + part];
      k_k = fma_f32(key, key, k_k);
      q_q = fma_f32(query, query, q_q);
      k_q = fma_f32(key, query, k_q);
    }
    RF_UNROLL
    for (uint32_t mask = kRowThreads / 2; mask > 0; mask /= 2) {
      k_k += shuffle_xor(k_k, mask);
      q_q += shuffle_xor(q_q, mask);
      k_q += shuffle_xor(k_q, mask);
    }
    if (part == 0) {
      const float step = softplus(next_alpha + args.step_bias[place.head]);
      const float root = sqrt_f32(static_cast<float>(args.key_size));
      shared.factors[row] = {exp_f32(args.decay[place.head] * step), 1.0f / (1.0f + exp_f32(-next_beta)),
                             one_over_length(k_k), one_over_length(q_q) / root, k_q};
    }
    sync_block();
  }
  RF_DEVICE float one_over_length(float squares) const {
    const float length = sqrt_f32(squares);
    return 1.0f / (length > args.epsilon ? length : args.epsilon);
  }

  RF_DEVICE void advance(const Shared& shared, uint32_t r, uint32_t row) {
    const Factors& by = shared.factors[r];
    float found[kLaneColumns] = {}, read[kLaneColumns] = {};
    RF_UNROLL
    for (uint32_t e = 0; e < kPer; e++) {
      const float key = shared.k[r][states.element(e)], query = shared.q[r][states.element(e)];
      RF_UNROLL
      for (uint32_t c = 0; c < kLaneColumns; c++) {
        found[c] = fma_f32(states.s[c][e], key, found[c]);
        read[c] = fma_f32(states.s[c][e], query, read[c]);
      }
    }
    float written[kLaneColumns];
    RF_UNROLL
    for (uint32_t c = 0; c < kLaneColumns; c++) {
      const uint32_t column = states.column() + c;
      const float old = slices_sum(found[c]) * (by.decay * by.k_scale), was = slices_sum(read[c]) * by.decay;
      const float u = (shared.v[r][column] - old) * by.share;
      written[c] = u * by.k_scale;
      if (states.slice() == 0 && column < place.n_columns) {
        const uint64_t at = static_cast<uint64_t>(place.run.first_row + row) * args.n_heads * args.head_size;
        args.out[at + place.column(args.head_size) + column] = fma_f32(by.k_q, written[c], was) * by.q_scale;
      }
    }
    RF_UNROLL
    for (uint32_t e = 0; e < kPer; e++) {
      const float key = shared.k[r][states.element(e)];
      RF_UNROLL
      for (uint32_t c = 0; c < kLaneColumns; c++) {
        states.s[c][e] = fma_f32(key, written[c], states.s[c][e] * by.decay);
      }
    }
  }
};

#define RF_DELTA_RULE(size)                                   \
  RF_KERNEL(delta_rule_##size, DeltaRuleArgs, kWalkThreads) { \
    RF_SHARED(DeltaWalk<size / kSlices>::Shared, shared);     \
    DeltaWalk<size / kSlices> of(args);                       \
    walk(of, shared);                                         \
  }
RF_DELTA_RULE(128)
RF_DELTA_RULE(256)

}  // namespace rocmforge::gpu::RF_KERNELS
