// The 256 largest logits of a row and the log of the sum of all exponentials.
//
// Logits are ordered as integers: key_of(x) keeps the order of floats. As many groups of logits as there are candidates
// reach the key of the 256th of them (in any cut of the row into groups), so no candidate is below it, and for groups
// that are many and spread, as here, few other logits are above. Those are collected in any order and each counts how
// many come before it. A row in which too many are equal goes the long way, over all its logits again.

#include "gpu/runtime.h"

#include "gpu/kernels/candidates.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_DEVICE uint32_t key_of(float v) {
  const uint32_t bits = float_to_bits(v + 0.0f);  // -0 becomes 0
  if (v != v) return 0;
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

// Those past the row's end are 0.
RF_DEVICE void load_group(float* v, const float* logits, uint32_t first, uint32_t width) {
  RF_UNROLL for (uint32_t i = 0; i < kLogitsOfAGroup; i++) {
    const uint32_t id = first + i * kCandidateGroupsThreads;
    v[i] = id < width ? logits[id] : 0.0f;
  }
}

RF_KERNEL(candidate_groups, CandidatesArgs, kCandidateGroupsThreads) {
  RF_SHARED(float[kCandidateGroupsThreads / 32], partial);
  const uint32_t chunk = block_x(), row = block_y();
  const uint32_t first = chunk * kLogitsOfAChunk + thread_index();
  const float* logits = args.logits + static_cast<uint64_t>(row) * args.width;
  float v[kLogitsOfAGroup];
  load_group(v, logits, first, args.width);
  const uint32_t n = first < args.width ? (args.width - first - 1) / kCandidateGroupsThreads + 1 : 0;
  uint32_t key = 0;
  float largest = -__builtin_inff();
  RF_UNROLL for (uint32_t i = 0; i < kLogitsOfAGroup; i++) {
    if (i >= n) continue;
    const uint32_t k = key_of(v[i]);
    key = k > key ? k : key;
    largest = v[i] > largest ? v[i] : largest;
  }
  const uint64_t chunk_of_all = static_cast<uint64_t>(row) * args.n_chunks + chunk;
  args.group_keys[chunk_of_all * kCandidateGroupsThreads + thread_index()] = key;

  largest = block_max<kCandidateGroupsThreads>(largest, partial);
  float sum = 0;
  RF_UNROLL for (uint32_t i = 0; i < kLogitsOfAGroup; i++) {
    if (i < n) sum += exp_f32(v[i] - largest) + (v[i] - v[i]);  // NaN unless the logit is finite
  }
  sum = block_sum<kCandidateGroupsThreads>(sum, partial);
  if (thread_index() == 0) args.chunks[chunk_of_all] = {largest, sum};
}

struct CandidatesShared {
  // Larger ones come first: the key above the complement of the id.
  uint64_t ranks[kCandidatesThreads];
  float logits[kCandidatesThreads];  // of those ranks
  uint32_t n_found;
  Candidate sorted[kCandidates];
  uint32_t counts[256];  // keys by their next eight bits
  uint32_t bucket, n_above;
  uint32_t equal_in_wave[kCandidatesThreads / 32];
  float partial[kCandidatesThreads / 32];
};

struct NthKey {
  uint32_t key = 0;
  uint32_t n_above = 0;  // items with a larger one
};

// Of the counts of 256 buckets: the one that holds the n-th item from above, by the first wave.
RF_DEVICE void find_bucket(CandidatesShared& shared, uint32_t n) {
  constexpr uint32_t kOfALane = 256 / kWave;
  if (wave() != 0) return;
  const uint32_t top = 255 - lane() * kOfALane;
  uint32_t mine = 0;
  for (uint32_t i = 0; i < kOfALane; i++) mine += shared.counts[top - i];
  uint32_t up_to = mine;  // with the lanes before
  for (uint32_t step = 1; step < kWave; step *= 2) {
    const uint32_t before = shuffle(up_to, (lane() - step) % kWave);
    if (lane() >= step) up_to += before;
  }
  uint32_t above = up_to - mine;
  if (above >= n || up_to < n) return;
  uint32_t bucket = top;
  while (above + shared.counts[bucket] < n) above += shared.counts[bucket--];
  shared.bucket = bucket;
  shared.n_above = above;
}

// The n-th largest of the keys of n_items, its upper `n_bits` at least: the others are 0, and n_above counts what is
// larger in the upper ones.
template <class KeyAt>
RF_DEVICE NthKey find_nth_key(CandidatesShared& shared, uint32_t n, uint32_t n_items, int n_bits, KeyAt key_at) {
  NthKey out;
  for (int shift = 24; shift > 24 - n_bits; shift -= 8) {
    if (thread_index() < 256) shared.counts[thread_index()] = 0;
    sync_block();
    for (uint32_t i = thread_index(); i < n_items; i += kCandidatesThreads) {
      const uint32_t k = key_at(i);
      if (shift == 24 || k >> (shift + 8) == out.key >> (shift + 8)) atomic_add(&shared.counts[k >> shift & 255u], 1u);
    }
    sync_block();
    find_bucket(shared, n - out.n_above);
    sync_block();
    out.key |= shared.bucket << shift;
    out.n_above += shared.n_above;
  }
  return out;
}

RF_DEVICE void put(CandidatesShared& shared, uint32_t at, uint32_t id, float logit) {
  shared.ranks[at] = static_cast<uint64_t>(key_of(logit)) << 32 | ~id;
  shared.logits[at] = logit;
}

// Everything that may be a candidate; the number, which may be more than there is room for.
RF_DEVICE uint32_t collect(CandidatesShared& shared, const CandidatesArgs& args, const float* logits, uint32_t n) {
  const uint32_t n_groups = args.n_chunks * kCandidateGroupsThreads;
  const uint32_t* keys = args.group_keys + static_cast<uint64_t>(block_x()) * n_groups;
  uint32_t largest = 0;
  for (uint32_t g = thread_index(); g < n_groups; g += kCandidatesThreads) {
    largest = keys[g] > largest ? keys[g] : largest;
  }
  // Each thread's groups are one group for this. A bound that is a little low costs nothing.
  const uint32_t least = find_nth_key(shared, n, kCandidatesThreads, 24, [&](uint32_t) { return largest; }).key;
  if (thread_index() == 0) shared.n_found = 0;
  sync_block();
  for (uint32_t g = thread_index(); g < n_groups && largest >= least; g += kCandidatesThreads) {
    if (keys[g] < least) continue;
    const uint32_t first = g / kCandidateGroupsThreads * kLogitsOfAChunk + g % kCandidateGroupsThreads;
    float v[kLogitsOfAGroup];
    load_group(v, logits, first, args.width);
    RF_UNROLL for (uint32_t i = 0; i < kLogitsOfAGroup; i++) {
      const uint32_t id = first + i * kCandidateGroupsThreads;
      if (id >= args.width || key_of(v[i]) < least) continue;
      const uint32_t at = atomic_add(&shared.n_found, 1u);
      if (at < kCandidatesThreads) put(shared, at, id, v[i]);
    }
  }
  sync_block();
  return shared.n_found;
}

// The long way: those above the n-th, then those equal to it in the order of their ids.
RF_DEVICE void collect_exactly(CandidatesShared& shared, const CandidatesArgs& args, const float* logits, uint32_t n) {
  const NthKey last = find_nth_key(shared, n, args.width, 32, [&](uint32_t i) { return key_of(logits[i]); });
  if (thread_index() == 0) shared.n_found = 0;
  sync_block();
  for (uint32_t i = thread_index(); i < args.width; i += kCandidatesThreads) {
    if (key_of(logits[i]) > last.key) put(shared, atomic_add(&shared.n_found, 1u), i, logits[i]);
  }
  // Each wave counts, then knows where its own begin.
  uint32_t n_taken = last.n_above;
  for (uint32_t first = 0; first < args.width && n_taken < n; first += kCandidatesThreads) {
    const uint32_t i = first + thread_index();
    const bool is_equal = i < args.width && key_of(logits[i]) == last.key;
    const uint64_t equal = ballot(is_equal);
    if (lane() == 0) shared.equal_in_wave[wave()] = static_cast<uint32_t>(__builtin_popcountll(equal));
    sync_block();
    uint32_t at = n_taken;
    for (uint32_t w = 0; w < kCandidatesThreads / kWave; w++) {
      if (w < wave()) at += shared.equal_in_wave[w];
      n_taken += shared.equal_in_wave[w];
    }
    at += static_cast<uint32_t>(__builtin_popcountll(equal & ((uint64_t{1} << lane()) - 1)));
    if (is_equal && at < n) put(shared, at, i, logits[i]);
    sync_block();
  }
}

RF_DEVICE float log_sum_exp(CandidatesShared& shared, const CandidatesArgs& args) {
  const ChunkSum* chunks = args.chunks + static_cast<uint64_t>(block_x()) * args.n_chunks;
  float largest = -__builtin_inff(), sum = 0;
  for (uint32_t i = thread_index(); i < args.n_chunks; i += kCandidatesThreads) {
    largest = chunks[i].largest > largest ? chunks[i].largest : largest;
  }
  largest = block_max<kCandidatesThreads>(largest, shared.partial);
  for (uint32_t i = thread_index(); i < args.n_chunks; i += kCandidatesThreads) {
    sum += chunks[i].sum * exp_f32(chunks[i].largest - largest);
  }
  return largest + log_f32(block_sum<kCandidatesThreads>(sum, shared.partial));
}

RF_KERNEL(candidates, CandidatesArgs, kCandidatesThreads) {
  RF_SHARED(CandidatesShared, shared);
  const float* logits = args.logits + static_cast<uint64_t>(block_x()) * args.width;
  const uint32_t n = args.width < kCandidates ? args.width : kCandidates;
  uint32_t n_found = collect(shared, args, logits, n);
  if (n_found > kCandidatesThreads) {
    collect_exactly(shared, args, logits, n);
    n_found = n;
  }
  if (thread_index() < n_found) {
    const uint64_t mine = shared.ranks[thread_index()];
    uint32_t place = 0;
    for (uint32_t i = 0; i < n_found; i++) place += shared.ranks[i] > mine ? 1 : 0;
    if (place < n) shared.sorted[place] = {~static_cast<uint32_t>(mine), shared.logits[thread_index()]};
  }
  const float total = log_sum_exp(shared, args);  // with barriers that `sorted` needs
  RowCandidates& out = args.out[block_x()];
  if (thread_index() < kCandidates)
    out.top[thread_index()] = shared.sorted[thread_index() < n ? thread_index() : n - 1];
  if (thread_index() == 0) out.log_sum_exp = total;
}

}  // namespace rocmforge::gpu::RF_KERNELS
