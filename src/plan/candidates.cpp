#include "plan/candidates.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/four.h"

namespace rocmforge {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// Nothing below branches on a logit: a row is not to be predicted.
using FourBits [[gnu::vector_size(16)]] = uint32_t;

// The first one where the second is a NaN.
Four larger(Four a, Four b) {
  return b > a ? b : a;
}

// A number for each logit of a row: the larger one comes first. Equal logits are told apart by their ids, and a NaN is
// below every number. Integers are sorted without a branch.
uint64_t rank_of(float logit, uint32_t id) {
  const auto bits = std::bit_cast<uint32_t>(logit + 0.0f);  // -0 becomes 0
  const uint32_t ascending = bits >> 31 ? ~bits : bits | 0x80000000u;
  return uint64_t{std::isnan(logit) ? 0 : ascending} << 32 | static_cast<uint32_t>(~id);
}
uint32_t id_of(uint64_t rank) {
  return ~static_cast<uint32_t>(rank);
}

// A row cut into pieces of n_blocks logits: block b has the b-th of each.
struct Blocks {
  explicit Blocks(std::span<const float> r) : row(r) {
    // Some blocks for each candidate, so that few logits are left to be sorted.
    const size_t n_each = std::clamp<size_t>(r.size() / (4 * kCandidates), 4, 32);
    const size_t n_blocks = ((r.size() + n_each - 1) / n_each + kFour - 1) / kFour * kFour;
    maxima.assign(n_blocks, kLowest);
    for (size_t first = 0; first < r.size(); first += n_blocks) {
      const size_t n = std::min(n_blocks, r.size() - first);
      size_t b = 0;
      for (; b + kFour <= n; b += kFour) {
        const Four largest = larger(load_four(&maxima[b]), load_four(&r[first + b]));
        store_four(&maxima[b], largest);
      }
      for (; b < n; b++) maxima[b] = r[first + b] > maxima[b] ? r[first + b] : maxima[b];
    }
  }

  // Of all maxima times a sign.
  float largest(float sign) const {
    Four four = load_four(&maxima[0]) * sign;
    for (size_t b = kFour; b < maxima.size(); b += kFour) four = larger(four, load_four(&maxima[b]) * sign);
    return std::max(std::max(four[0], four[1]), std::max(four[2], four[3]));
  }

  size_t n_reaching(float least) const {
    FourBits n = {};
    for (size_t b = 0; b < maxima.size(); b += kFour) n -= FourBits(load_four(&maxima[b]) >= least);
    return size_t{n[0]} + n[1] + n[2] + n[3];
  }

  std::span<const float> row;
  std::vector<float> maxima;  // NaNs do not count
};

// A number that kCandidates blocks reach, and few more: no candidate is below it.
float least_candidate(const Blocks& blocks) {
  constexpr int kHalvings = 20;
  constexpr size_t kFewMore = kCandidates / 8;
  if (blocks.maxima.size() <= kCandidates) return kLowest;
  float reached = -blocks.largest(-1), beyond = blocks.largest(1);
  for (int i = 0; i < kHalvings; i++) {
    const float middle = reached / 2 + beyond / 2;
    const size_t n = blocks.n_reaching(middle);
    if (n < kCandidates) {
      beyond = middle;
      continue;
    }
    reached = middle;
    if (n <= kCandidates + kFewMore) break;
  }
  return std::isfinite(reached) ? reached : kLowest;
}

// The ranks of all logits that are not below `least`, and perhaps of some NaNs.
std::vector<uint64_t> ranks_from(const Blocks& blocks, float least) {
  const size_t n_blocks = blocks.maxima.size();
  const auto hit = std::make_unique_for_overwrite<uint32_t[]>(n_blocks);
  size_t n_hit = 0;
  for (size_t b = 0; b < n_blocks; b++) {
    hit[n_hit] = static_cast<uint32_t>(b);
    n_hit += !(blocks.maxima[b] < least);
  }
  const std::span<const float> row = blocks.row;
  const auto ids = std::make_unique_for_overwrite<uint32_t[]>(n_hit * ((row.size() + n_blocks - 1) / n_blocks) + 1);
  size_t n = 0;
  for (size_t h = 0; h < n_hit; h++) {
    for (size_t i = hit[h]; i < row.size(); i += n_blocks) {
      ids[n] = static_cast<uint32_t>(i);
      n += !(row[i] < least);
    }
  }
  std::vector<uint64_t> found(n);
  for (size_t i = 0; i < n; i++) found[i] = rank_of(row[ids[i]], ids[i]);
  return found;
}

// Largest first: into buckets by the first bits in which they differ, where few meet, and then each bucket by itself.
void sort_ranks(std::vector<uint64_t>& ranks) {
  constexpr int kBucketBits = 8, kBuckets = 1 << kBucketBits;
  if (ranks.size() > 4 * kCandidates) {  // many are equal
    std::nth_element(ranks.begin(), ranks.begin() + kCandidates, ranks.end(), std::greater<>());
    ranks.resize(kCandidates);
  }
  uint64_t least = ranks[0], most = ranks[0];
  for (const uint64_t rank : ranks) {
    least = std::min(least, rank);
    most = std::max(most, rank);
  }
  const int shift = std::max(0, static_cast<int>(std::bit_width(most - least)) - kBucketBits);
  const auto bucket_of = [&](uint64_t rank) { return (most - rank) >> shift; };
  uint32_t ends[kBuckets] = {};
  for (const uint64_t rank : ranks) ends[bucket_of(rank)]++;
  for (int i = 1; i < kBuckets; i++) ends[i] += ends[i - 1];
  std::vector<uint64_t> sorted(ranks.size());
  uint32_t begins[kBuckets];
  std::copy_n(ends, kBuckets, begins);
  for (const uint64_t rank : ranks) sorted[--begins[bucket_of(rank)]] = rank;
  for (int i = 0; i < kBuckets; i++) {
    if (ends[i] - begins[i] > 1) std::sort(&sorted[begins[i]], &sorted[0] + ends[i], std::greater<>());
  }
  ranks.swap(sorted);
}

// e^x for x <= 0, within 2e-7 of its value. Below -87, and for a NaN, it is a number near zero.
Four exp_of_negative(Four x) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  const Four least = Four{} - 87.0f;
  x = larger(least, x);
  const Four shifted = x * kLog2E + kRound;
  const Four n = shifted - kRound;
  const Four r = (x - n * kLn2High) - n * kLn2Low;
  // Taylor's series on [-ln 2 / 2, ln 2 / 2]: the first term left out is below 1.2e-7.
  const Four p =
      1.0f + r * (1.0f + r * (0.5f + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720))))));
  return p * std::bit_cast<Four>((std::bit_cast<FourBits>(shifted) << 23) + 0x3F800000u);
}

float sum_of_powers_of(const float* x, size_t n, float largest) {
  // A NaN unless all four are finite.
  const auto terms_of = [&](Four logits) { return exp_of_negative(logits - largest) + (logits - logits); };
  Four sum = {};
  size_t i = 0;
  for (; i + kFour <= n; i += kFour) sum += terms_of(load_four(x + i));
  for (; i < n; i++) sum[0] += terms_of(Four{} + x[i])[0];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

float log_sum_exp_of(std::span<const float> row, float largest, SumOfPowers sum_of_powers) {
  constexpr size_t kChunk = 1024;  // so that no sum of floats is long
  double total = 0;
  for (size_t i = 0; i < row.size(); i += kChunk) {
    total += double{sum_of_powers(row.data() + i, std::min(kChunk, row.size() - i), largest)};
  }
  return static_cast<float>(largest + std::log(total));
}

}  // namespace

void select_candidates(RowCandidates& out, std::span<const float> row) {
  select_candidates(out, row, sum_of_powers_of);
}

void select_candidates(RowCandidates& out, std::span<const float> row, SumOfPowers sum_of_powers) {
  CHECK(!row.empty() && row.size() <= UINT32_MAX);
  const Blocks blocks(row);
  std::vector<uint64_t> found = ranks_from(blocks, least_candidate(blocks));
  sort_ranks(found);
  const size_t n = std::min<size_t>(row.size(), kCandidates);
  for (size_t i = 0; i < n; i++) out.top[i] = {id_of(found[i]), row[id_of(found[i])]};
  std::fill(out.top + n, out.top + kCandidates, out.top[n - 1]);
  out.log_sum_exp = log_sum_exp_of(row, blocks.largest(1), sum_of_powers);
}

void select_candidates(RowCandidates& out, std::span<const float> row, const AllowedTokens& allowed) {
  std::vector<uint64_t> found;
  found.reserve(allowed.n_allowed);
  for (size_t w = 0; w < allowed.mask.size() && w * 64 < row.size(); w++) {
    for (uint64_t left = allowed.mask[w]; left != 0; left &= left - 1) {
      const size_t id = w * 64 + static_cast<size_t>(std::countr_zero(left));
      if (id < row.size()) found.push_back(rank_of(row[id], static_cast<uint32_t>(id)));
    }
  }
  CHECK(!found.empty() && found.size() == allowed.n_allowed);
  const size_t n = std::min<size_t>(found.size(), kCandidates);
  if (found.size() > n) {
    std::nth_element(found.begin(), found.begin() + static_cast<ptrdiff_t>(n - 1), found.end(), std::greater<>());
  }
  std::sort(found.begin(), found.begin() + static_cast<ptrdiff_t>(n), std::greater<>());
  for (size_t i = 0; i < n; i++) out.top[i] = {id_of(found[i]), row[id_of(found[i])]};
  std::fill(out.top + n, out.top + kCandidates, out.top[n - 1]);
  // NaNs come last.
  const float largest = out.top[0].logit;
  double sum = 0;
  for (const uint64_t rank : found) {
    const double below = double{row[id_of(rank)]} - largest;
    sum += std::exp(below) + (below - below);
  }
  out.log_sum_exp = static_cast<float>(largest + std::log(sum));
}

}  // namespace rocmforge
