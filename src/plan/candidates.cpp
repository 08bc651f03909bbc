#include "plan/candidates.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/check.h"

namespace rocmforge {
namespace {

constexpr size_t kMaxBlock = 32;
constexpr float kLowest = -std::numeric_limits<float>::infinity();

// A number for each logit of a row: the larger one comes first. Equal logits are told apart by their ids, and a NaN is
// below every number. Integers are compared without a branch, which makes the sort several times faster.
uint64_t rank_of(float logit, uint32_t id) {
  const auto bits = std::bit_cast<uint32_t>(logit + 0.0f);  // -0 becomes 0
  const uint32_t ascending = bits >> 31 ? ~bits : bits | 0x80000000u;
  return uint64_t{std::isnan(logit) ? 0 : ascending} << 32 | static_cast<uint32_t>(~id);
}
uint32_t id_of(uint64_t rank) {
  return ~static_cast<uint32_t>(rank);
}

// The largest of each n logits; NaNs do not count.
std::vector<float> block_maxima(std::span<const float> row, size_t n) {
  std::vector<float> maxima;
  maxima.reserve(row.size() / n + 1);
  for (size_t first = 0; first < row.size(); first += n) {
    float largest[4] = {kLowest, kLowest, kLowest, kLowest};  // four chains instead of one
    const auto block = row.subspan(first, std::min(n, row.size() - first));
    for (size_t i = 0; i < block.size(); i++) largest[i % 4] = block[i] > largest[i % 4] ? block[i] : largest[i % 4];
    maxima.push_back(*std::max_element(largest, largest + 4));
  }
  return maxima;
}

// e^x for x <= 0, within 2e-7 of its value; no branch and no call, so that loops over it are vectorised. Below -87 it
// is a number near zero.
float exp_of_negative(float x) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  constexpr auto kMost = std::bit_cast<uint32_t>(87.0f);
  const uint32_t magnitude = std::bit_cast<uint32_t>(x) & 0x7FFFFFFFu;
  const uint32_t is_more = 0u - ((kMost - magnitude) >> 31);  // all ones or none
  x = -std::bit_cast<float>((magnitude & ~is_more) | (kMost & is_more));
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  // Taylor's series on [-ln 2 / 2, ln 2 / 2]: the first term left out is below 1.2e-7.
  const float p =
      1.0f + r * (1.0f + r * (0.5f + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720))))));
  return p * std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) << 23) + 0x3F800000u);
}

float log_sum_exp_of(std::span<const float> row, float largest) {
  constexpr size_t kChunk = 256;
  float terms[kChunk];
  double total = 0;
  for (size_t first = 0; first < row.size(); first += kChunk) {
    const float* logits = row.data() + first;
    const size_t n = std::min(kChunk, row.size() - first);
    // A logit less itself is NaN unless it is finite.
    for (size_t i = 0; i < n; i++) terms[i] = exp_of_negative(logits[i] - largest) + (logits[i] - logits[i]);
    std::fill(terms + n, terms + kChunk, 0.0f);
    for (size_t i = 0; i < kChunk; i += 4) total += (terms[i] + terms[i + 1]) + (terms[i + 2] + terms[i + 3]);
  }
  return static_cast<float>(largest + std::log(total));
}

}  // namespace

void select_candidates(RowCandidates& out, std::span<const float> row) {
  CHECK(!row.empty() && row.size() <= UINT32_MAX);
  // Some blocks for each candidate, so that few logits are left to be sorted.
  const size_t n_block = std::clamp<size_t>(row.size() / (4 * kCandidates), 4, kMaxBlock);
  std::vector<float> maxima = block_maxima(row, n_block);
  const float largest = *std::max_element(maxima.begin(), maxima.end());
  // As many blocks as there are candidates reach this, so no candidate is below it.
  float least = kLowest;
  const std::vector<float> by_block = maxima;
  if (maxima.size() > kCandidates) {
    const auto last = maxima.begin() + (kCandidates - 1);
    std::nth_element(maxima.begin(), last, maxima.end(), std::greater<>());
    least = *last;
  }
  std::vector<uint64_t> found;
  for (size_t b = 0; b < by_block.size(); b++) {
    if (by_block[b] < least) continue;
    const size_t end = std::min(row.size(), (b + 1) * n_block);
    for (size_t i = b * n_block; i < end; i++) {
      if (!(row[i] < least)) found.push_back(rank_of(row[i], static_cast<uint32_t>(i)));
    }
  }
  const size_t n = std::min<size_t>(row.size(), kCandidates);
  const auto end = found.begin() + static_cast<ptrdiff_t>(n);
  if (n < found.size()) std::nth_element(found.begin(), end - 1, found.end(), std::greater<>());
  std::sort(found.begin(), end, std::greater<>());
  for (size_t i = 0; i < n; i++) out.top[i] = {id_of(found[i]), row[id_of(found[i])]};
  std::fill(out.top + n, out.top + kCandidates, out.top[n - 1]);
  out.log_sum_exp = log_sum_exp_of(row, largest);
}

}  // namespace rocmforge
