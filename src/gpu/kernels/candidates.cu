// The 256 largest logits of a row and the log of the sum of all exponentials, by one block.
//
// Logits are ordered as integers: key(x) keeps the order of floats. Four rounds over the row, eight bits each, find the
// key of the last candidate; everything above it is taken in any order, those equal to it by ascending id until there
// are enough, and the lot is sorted.

#include "gpu/runtime.h"

#include "gpu/kernels/candidates.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_DEVICE uint32_t key_of(float v) {
  const uint32_t bits = float_to_bits(v + 0.0f);  // -0 becomes 0
  if (v != v) return 0;
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

// Larger keys first, then lower ids.
RF_DEVICE bool before(uint32_t key_a, uint32_t id_a, uint32_t key_b, uint32_t id_b) {
  return key_a != key_b ? key_a > key_b : id_a < id_b;
}

struct CandidatesShared {
  uint32_t counts[256];  // keys by their next eight bits
  uint32_t keys[kCandidates], ids[kCandidates];
  uint32_t n_taken;
  uint32_t bucket, n_above;
  uint32_t equal_in_wave[kCandidatesThreads / 32];
  float partial[kCandidatesThreads / 32];
};

// The key of the n-th largest logit, and how many logits have a larger one.
RF_DEVICE void find_last_key(CandidatesShared& shared, const float* logits, uint32_t width, uint32_t n, uint32_t& key,
                             uint32_t& n_above) {
  key = 0;
  n_above = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    shared.counts[thread_index()] = 0;
    sync_block();
    for (uint32_t i = thread_index(); i < width; i += kCandidatesThreads) {
      const uint32_t k = key_of(logits[i]);
      if (shift == 24 || k >> (shift + 8) == key >> (shift + 8)) atomic_add(&shared.counts[k >> shift & 255u], 1u);
    }
    sync_block();
    if (thread_index() == 0) {
      uint32_t bucket = 255, above = n_above;
      while (above + shared.counts[bucket] < n) above += shared.counts[bucket--];
      shared.bucket = bucket;
      shared.n_above = above;
    }
    sync_block();
    key |= shared.bucket << shift;
    n_above = shared.n_above;
  }
}

RF_DEVICE void take(CandidatesShared& shared, uint32_t at, uint32_t key, uint32_t id) {
  shared.keys[at] = key;
  shared.ids[at] = id;
}

// Bitonic sort of all candidates; one thread for each.
RF_DEVICE void sort_candidates(CandidatesShared& shared) {
  const uint32_t i = thread_index();
  for (uint32_t size = 2; size <= kCandidates; size *= 2) {
    for (uint32_t step = size / 2; step > 0; step /= 2) {
      const uint32_t other = i ^ step;
      if (other > i) {
        const uint32_t key_a = shared.keys[i], id_a = shared.ids[i];
        const uint32_t key_b = shared.keys[other], id_b = shared.ids[other];
        const bool ascending = (i & size) == 0;
        if (before(key_b, id_b, key_a, id_a) == ascending) {
          take(shared, i, key_b, id_b);
          take(shared, other, key_a, id_a);
        }
      }
      sync_block();
    }
  }
}

RF_KERNEL(candidates, CandidatesArgs, kCandidatesThreads) {
  static_assert(kCandidatesThreads == kCandidates);
  RF_SHARED(CandidatesShared, shared);
  const float* logits = args.logits + static_cast<uint64_t>(block_x()) * args.width;
  const uint32_t n = args.width < kCandidates ? args.width : kCandidates;

  uint32_t last_key, n_above;
  find_last_key(shared, logits, args.width, n, last_key, n_above);
  if (thread_index() == 0) shared.n_taken = 0;
  take(shared, thread_index(), 0, ~0u);  // places that stay empty sort last
  sync_block();
  for (uint32_t i = thread_index(); i < args.width; i += kCandidatesThreads) {
    const uint32_t key = key_of(logits[i]);
    if (key > last_key) take(shared, atomic_add(&shared.n_taken, 1u), key, i);
  }
  // Those equal to the last, in order of their ids: each wave counts, then knows where its own begin.
  uint32_t n_taken = n_above;
  for (uint32_t first = 0; first < args.width && n_taken < n; first += kCandidatesThreads) {
    const uint32_t i = first + thread_index();
    const bool is_equal = i < args.width && key_of(logits[i]) == last_key;
    const uint64_t equal = ballot(is_equal);
    if (lane() == 0) shared.equal_in_wave[wave()] = static_cast<uint32_t>(__builtin_popcountll(equal));
    sync_block();
    uint32_t at = n_taken;
    for (uint32_t w = 0; w < kCandidatesThreads / kWave; w++) {
      if (w < wave()) at += shared.equal_in_wave[w];
      n_taken += shared.equal_in_wave[w];
    }
    at += static_cast<uint32_t>(__builtin_popcountll(equal & ((uint64_t{1} << lane()) - 1)));
    if (is_equal && at < n) take(shared, at, last_key, i);
    sync_block();
  }
  sort_candidates(shared);

  RowCandidates& out = args.out[block_x()];
  const uint32_t mine = thread_index() < n ? thread_index() : n - 1;
  out.top[thread_index()] = {shared.ids[mine], logits[shared.ids[mine]]};
  const float largest = logits[shared.ids[0]];
  float total = 0;
  for (uint32_t i = thread_index(); i < args.width; i += kCandidatesThreads) {
    total += exp_f32(logits[i] - largest) + (logits[i] - logits[i]);  // NaN unless the logit is finite
  }
  total = block_sum<kCandidatesThreads>(total, shared.partial);
  if (thread_index() == 0) out.log_sum_exp = largest + log_f32(total);
}

}  // namespace rocmforge::gpu::RF_KERNELS
