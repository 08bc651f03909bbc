// The 256 largest logits of a row and the log of the sum of all exponentials.
//
// Logits are compared as integers: key_of(x) keeps the order of floats. Take the maximum of each group of logits: the
// n-th largest maximum is a lower bound for the n-th candidate, because n groups reach it. With many groups, as here,
// few other logits are above the bound. Those above are collected in any order, and each counts how many precede it. A
// row with too many logits above the bound (which happens when they are equal) is searched again exactly, by all its
// logits.

// Tokens that are not allowed have the key 0, as a NaN has: no search finds them, since it asks for no more candidates
// than tokens are allowed. With few of them the bound is 0, and the exact search finds them.

#include "gpu/runtime.h"

#include "gpu/kernels/candidates.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_DEVICE uint32_t key_of(float v) {
  const uint32_t bits = float_to_bits(v + 0.0f);  // -0 becomes 0
  if (v != v) return 0;
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

// A row of logits, of which all tokens count or some.
struct WholeRow {
  RF_DEVICE WholeRow(const CandidatesArgs& args, uint32_t row)
      : logits(args.logits + static_cast<uint64_t>(row) * args.width), n(args.width) {}
  RF_DEVICE bool counts(uint32_t) const { return true; }

  const float* logits;
  uint32_t n;  // tokens that count
};

struct MaskedRow {
  RF_DEVICE MaskedRow(const AllowedCandidatesArgs& args, uint32_t row)
      : logits(args.all.logits + static_cast<uint64_t>(args.rows[row].row) * args.all.width),
        n(args.rows[row].n_allowed),
        mask(args.masks + static_cast<uint64_t>(row) * args.n_words) {}
  RF_DEVICE bool counts(uint32_t id) const { return (mask[id / 32] >> (id % 32) & 1) != 0; }

  const float* logits;
  uint32_t n;
  const uint32_t* mask;
};

template <class Row>
RF_DEVICE uint32_t key_at(const Row& row, uint32_t id) {
  return row.counts(id) ? key_of(row.logits[id]) : 0;
}

template <class Row>
RF_DEVICE void find_groups(const CandidatesArgs& args, const Row& of_row, float* partial) {
  const uint32_t chunk = block_x(), row = block_y();
  const uint32_t first = chunk * kLogitsOfAChunk + thread_index();
  const float* logits = of_row.logits;
  float v[kLogitsOfAGroup];
  RF_UNROLL for (uint32_t i = 0; i < kLogitsOfAGroup; i++) {
    const uint32_t id = first + i * kCandidateGroupsThreads;
    v[i] = id < args.width ? logits[id] : 0.0f;
  }
  const uint32_t n = first < args.width ? (args.width - first - 1) / kCandidateGroupsThreads + 1 : 0;
  uint32_t key = 0;
  float largest = -__builtin_inff();
  RF_UNROLL for (uint32_t i = 0; i < kLogitsOfAGroup; i++) {
    if (i >= n || !of_row.counts(first + i * kCandidateGroupsThreads)) continue;
    const uint32_t k = key_of(v[i]);
    key = k > key ? k : key;
    largest = v[i] > largest ? v[i] : largest;
  }
  const uint64_t chunk_of_all = static_cast<uint64_t>(row) * args.n_chunks + chunk;
  args.group_keys[chunk_of_all * kCandidateGroupsThreads + thread_index()] = key;

  largest = block_max<kCandidateGroupsThreads>(largest, partial);
  float sum = 0;
  RF_UNROLL for (uint32_t i = 0; i < kLogitsOfAGroup; i++) {
    if (i >= n || !of_row.counts(first + i * kCandidateGroupsThreads)) continue;
    sum += exp_f32(v[i] - largest) + (v[i] - v[i]);  // NaN unless the logit is finite
  }
  sum = block_sum<kCandidateGroupsThreads>(sum, partial);
  if (thread_index() == 0) args.chunks[chunk_of_all] = {largest, sum};
}

RF_KERNEL(candidate_groups, CandidatesArgs, kCandidateGroupsThreads) {
  RF_SHARED(float[kCandidateGroupsThreads / 32], partial);
  find_groups(args, WholeRow(args, block_y()), partial);
}

RF_KERNEL(allowed_groups, AllowedCandidatesArgs, kCandidateGroupsThreads) {
  RF_SHARED(float[kCandidateGroupsThreads / 32], partial);
  find_groups(args.all, MaskedRow(args, block_y()), partial);
}

struct CandidatesShared {
  // Larger ones come first: the key above the complement of the id.
  uint64_t ranks[kCandidatesThreads];
  float logits[kCandidatesThreads];     // of those ranks
  uint32_t groups[kCandidatesThreads];  // that may hold a candidate
  uint32_t n_groups, n_found;
  Candidate sorted[kCandidates];
  uint32_t counts[256];  // keys by their next eight bits
  uint32_t bucket, n_above;
  uint32_t of_wave[2][kCandidatesThreads / 32];
};

// Exchanges one number of each wave. `turn`: differs from the previous call's.
RF_DEVICE uint32_t* from_waves(CandidatesShared& shared, uint32_t turn, uint32_t mine) {
  if (lane() == 0) shared.of_wave[turn & 1][wave()] = mine;
  sync_block();
  return shared.of_wave[turn & 1];
}
inline constexpr uint32_t kCandidatesWaves = kCandidatesThreads / kWave;

RF_DEVICE uint32_t block_max_key(CandidatesShared& shared, uint32_t turn, uint32_t key) {
  const auto max_of_wave = [](uint32_t v) {
    for (uint32_t mask = kWave / 2; mask > 0; mask /= 2) {
      const uint32_t other = shuffle_xor(v, mask);
      v = other > v ? other : v;
    }
    return v;
  };
  const uint32_t* all = from_waves(shared, turn, max_of_wave(key));
  return max_of_wave(all[lane() % kCandidatesWaves]);
}

RF_DEVICE uint32_t block_count(CandidatesShared& shared, uint32_t turn, bool p) {
  const uint32_t* all = from_waves(shared, turn, static_cast<uint32_t>(__builtin_popcountll(ballot(p))));
  uint32_t n = lane() < kCandidatesWaves ? all[lane()] : 0;
  for (uint32_t mask = kWave / 2; mask > 0; mask /= 2) n += shuffle_xor(n, mask);
  return n;
}

// A key that at least n threads reach, and hardly more than n. REQUIRES: n <= kCandidatesThreads
RF_DEVICE uint32_t find_bound(CandidatesShared& shared, uint32_t key, uint32_t n) {
  constexpr uint32_t kFewMore = 16;
  uint32_t high = block_max_key(shared, 0, key), low = ~block_max_key(shared, 1, ~key);
  uint32_t n_reach = kCandidatesThreads;
  for (uint32_t turn = 0; low < high && n_reach > n + kFewMore; turn++) {
    const uint32_t middle = high - (high - low) / 2;
    const uint32_t n_middle = block_count(shared, turn, key >= middle);
    if (n_middle >= n) {
      low = middle;
      n_reach = n_middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

RF_DEVICE void put(CandidatesShared& shared, uint32_t at, uint32_t id, float logit) {
  shared.ranks[at] = static_cast<uint64_t>(key_of(logit)) << 32 | ~id;
  shared.logits[at] = logit;
}

// Collects all possible candidates; false if there are more than fit.
template <class Row>
RF_DEVICE bool collect(CandidatesShared& shared, const CandidatesArgs& args, const Row& row, uint32_t n) {
  const uint32_t n_groups = args.n_chunks * kCandidateGroupsThreads;
  const uint32_t* keys = args.group_keys + static_cast<uint64_t>(block_x()) * n_groups;
  if (thread_index() == 0) shared.n_groups = shared.n_found = 0;
  uint32_t largest = 0;
  for (uint32_t g = thread_index(); g < n_groups; g += kCandidatesThreads) {
    largest = keys[g] > largest ? keys[g] : largest;
  }
  const uint32_t least = find_bound(shared, largest, n);  // each thread's groups are one group for this
  for (uint32_t g = thread_index(); g < n_groups && largest >= least; g += kCandidatesThreads) {
    if (keys[g] < least) continue;
    const uint32_t at = atomic_add(&shared.n_groups, 1u);
    if (at < kCandidatesThreads) shared.groups[at] = g;
  }
  sync_block();
  if (shared.n_groups > kCandidatesThreads) return false;
  const uint32_t n_logits = shared.n_groups * kLogitsOfAGroup;
  for (uint32_t i = thread_index(); i < n_logits; i += kCandidatesThreads) {
    const uint32_t g = shared.groups[i / kLogitsOfAGroup];
    const uint32_t id = g / kCandidateGroupsThreads * kLogitsOfAChunk + i % kLogitsOfAGroup * kCandidateGroupsThreads +
                        g % kCandidateGroupsThreads;
    if (id >= args.width || !row.counts(id)) continue;
    const float logit = row.logits[id];
    if (key_of(logit) < least) continue;
    const uint32_t at = atomic_add(&shared.n_found, 1u);
    if (at < kCandidatesThreads) put(shared, at, id, logit);
  }
  sync_block();
  return shared.n_found <= kCandidatesThreads;
}

struct NthKey {
  uint32_t key = 0;
  uint32_t n_above = 0;  // logits with a larger one
};

// From the counts of 256 buckets: the bucket that holds the n-th largest logit. Called by the first wave.
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

// The n-th largest key of the row, eight bits at a time.
template <class Row>
RF_DEVICE NthKey find_nth_key(CandidatesShared& shared, const Row& row, uint32_t width, uint32_t n) {
  NthKey out;
  for (int shift = 24; shift >= 0; shift -= 8) {
    if (thread_index() < 256) shared.counts[thread_index()] = 0;
    sync_block();
    for (uint32_t i = thread_index(); i < width; i += kCandidatesThreads) {
      if (!row.counts(i)) continue;
      const uint32_t k = key_of(row.logits[i]);
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

// The exact search: logits above the n-th, then those equal to it in the order of their ids.
template <class Row>
RF_DEVICE void collect_exactly(CandidatesShared& shared, const CandidatesArgs& args, const Row& row, uint32_t n) {
  const NthKey last = find_nth_key(shared, row, args.width, n);
  if (thread_index() == 0) shared.n_found = 0;
  sync_block();
  for (uint32_t i = thread_index(); i < args.width; i += kCandidatesThreads) {
    if (key_at(row, i) > last.key) put(shared, atomic_add(&shared.n_found, 1u), i, row.logits[i]);
  }
  // Each wave counts, then knows where its own begin.
  uint32_t n_taken = last.n_above;
  for (uint32_t first = 0; first < args.width && n_taken < n; first += kCandidatesThreads) {
    const uint32_t i = first + thread_index();
    const bool is_equal = i < args.width && row.counts(i) && key_of(row.logits[i]) == last.key;
    const uint64_t equal = ballot(is_equal);
    const uint32_t* in_wave =
        from_waves(shared, first / kCandidatesThreads, static_cast<uint32_t>(__builtin_popcountll(equal)));
    uint32_t at = n_taken;
    for (uint32_t w = 0; w < kCandidatesWaves; w++) {
      if (w < wave()) at += in_wave[w];
      n_taken += in_wave[w];
    }
    at += static_cast<uint32_t>(__builtin_popcountll(equal & ((uint64_t{1} << lane()) - 1)));
    if (is_equal && at < n) put(shared, at, i, row.logits[i]);
  }
  if (thread_index() == 0) shared.n_found = n;
  sync_block();
}

// By one wave.
RF_DEVICE float log_sum_exp(const CandidatesArgs& args) {
  const ChunkSum* chunks = args.chunks + static_cast<uint64_t>(block_x()) * args.n_chunks;
  float largest = -__builtin_inff(), sum = 0;
  for (uint32_t i = lane(); i < args.n_chunks; i += kWave) {
    largest = chunks[i].largest > largest ? chunks[i].largest : largest;
  }
  largest = wave_max(largest);
  for (uint32_t i = lane(); i < args.n_chunks; i += kWave) {
    if (chunks[i].sum == 0) continue;  // no token of the chunk counts
    sum += chunks[i].sum * exp_f32(chunks[i].largest - largest);
  }
  return largest + log_f32(wave_sum(sum));
}

template <class Row>
RF_DEVICE void find_candidates(CandidatesShared& shared, const CandidatesArgs& args, const Row& row) {
  const uint32_t n = row.n < kCandidates ? row.n : kCandidates;
  RowCandidates& out = args.out[block_x()];
  if (!collect(shared, args, row, n)) collect_exactly(shared, args, row, n);
  const uint32_t n_found = shared.n_found;
  if (thread_index() < n_found) {
    const uint64_t mine = shared.ranks[thread_index()];
    uint32_t place = 0;
    for (uint32_t i = 0; i < n_found; i++) place += shared.ranks[i] > mine ? 1 : 0;
    if (place < n) shared.sorted[place] = {~static_cast<uint32_t>(mine), shared.logits[thread_index()]};
  }
  if (wave() == kCandidatesWaves - 1) {  // one of those that had nothing to sort
    const float total = log_sum_exp(args);
    if (lane() == 0) out.log_sum_exp = total;
  }
  sync_block();
  if (thread_index() < kCandidates)
    out.top[thread_index()] = shared.sorted[thread_index() < n ? thread_index() : n - 1];
}

RF_KERNEL(candidates, CandidatesArgs, kCandidatesThreads) {
  RF_SHARED(CandidatesShared, shared);
  find_candidates(shared, args, WholeRow(args, block_x()));
}

RF_KERNEL(allowed_candidates, AllowedCandidatesArgs, kCandidatesThreads) {
  RF_SHARED(CandidatesShared, shared);
  find_candidates(shared, args.all, MaskedRow(args, block_x()));
}

}  // namespace rocmforge::gpu::RF_KERNELS
