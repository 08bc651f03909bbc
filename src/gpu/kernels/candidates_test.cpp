// The largest logits of a row and the sum of all, against the host's (plan/candidates.h).

#include <gtest/gtest.h>

#include <limits>

#include "gpu/kernels/candidates.h"
#include "support/kernel_device.h"

namespace rocmforge::gpu {
namespace {

using testing::KernelTest;
using testing::OnDevice;

class Candidates : public KernelTest {
 protected:
  std::vector<RowCandidates> find(const std::vector<float>& logits, uint32_t width) {
    const auto n_rows = static_cast<uint32_t>(logits.size() / width);
    const auto on_logits = put(logits);
    const OnDevice<RowCandidates> out(*device_, n_rows);
    const uint32_t n_chunks = n_candidate_chunks(width);
    const OnDevice<uint32_t> keys(*device_, size_t{n_rows} * n_chunks * kCandidateGroupsThreads);
    const OnDevice<ChunkSum> chunks(*device_, size_t{n_rows} * n_chunks);
    const CandidatesArgs args{out.data(), on_logits.data(), keys.data(), chunks.data(), width, n_chunks};
    run("candidates", "candidate_groups", candidate_groups_grid(n_rows, args), kCandidateGroupsThreads, args);
    run("candidates", "candidates", candidates_grid(n_rows), kCandidatesThreads, args);
    return out.values();
  }

  // Of one row per mask, whose rows of logits come in the reverse order.
  std::vector<RowCandidates> find_allowed(const std::vector<float>& logits, uint32_t width,
                                          const std::vector<AllowedTokens>& allowed) {
    const auto n_rows = static_cast<uint32_t>(allowed.size());
    std::vector<uint32_t> masks(size_t{n_rows} * n_mask_words(width));
    std::vector<AllowedRow> rows;
    for (uint32_t i = 0; i < n_rows; i++) {
      rows.push_back({allowed[i].row, allowed[i].n_allowed});
      std::memcpy(&masks[size_t{i} * n_mask_words(width)], allowed[i].mask.data(), allowed[i].mask.size_bytes());
    }
    const auto on_logits = put(logits);
    const auto on_masks = put(masks);
    const auto on_rows = put(rows);
    const OnDevice<RowCandidates> out(*device_, n_rows);
    const uint32_t n_chunks = n_candidate_chunks(width);
    const OnDevice<uint32_t> keys(*device_, size_t{n_rows} * n_chunks * kCandidateGroupsThreads);
    const OnDevice<ChunkSum> chunks(*device_, size_t{n_rows} * n_chunks);
    const AllowedCandidatesArgs args{{out.data(), on_logits.data(), keys.data(), chunks.data(), width, n_chunks},
                                     on_rows.data(),
                                     on_masks.data(),
                                     n_mask_words(width)};
    run("candidates", "allowed_groups", candidate_groups_grid(n_rows, args.all), kCandidateGroupsThreads, args);
    run("candidates", "allowed_candidates", candidates_grid(n_rows), kCandidatesThreads, args);
    return out.values();
  }

  void expect_same_allowed(const std::vector<float>& logits, uint32_t width, uint32_t one_in) {
    SCOPED_TRACE("width " + std::to_string(width) + ", one in " + std::to_string(one_in));
    const auto n_rows = static_cast<uint32_t>(logits.size() / width);
    std::vector<std::vector<uint64_t>> masks(n_rows, std::vector<uint64_t>(n_mask_words(width) / 2));
    std::vector<AllowedTokens> allowed;
    for (uint32_t r = 0; r < n_rows; r++) {
      uint32_t n = 0;
      for (uint32_t id = 0; id < width; id++) {
        if ((id * 7919 + r * 31) % one_in != 0 && id != width / 2) continue;
        masks[r][id / 64] |= uint64_t{1} << (id % 64);
        n++;
      }
      allowed.push_back({n_rows - 1 - r, masks[r], n});
    }
    const auto all = find_allowed(logits, width, allowed);
    for (uint32_t r = 0; r < n_rows; r++) {
      RowCandidates expected;
      select_candidates(expected, std::span(logits).subspan(size_t{allowed[r].row} * width, width), allowed[r]);
      for (size_t i = 0; i < kCandidates; i++) {
        ASSERT_EQ(all[r].top[i].id, expected.top[i].id) << "row " << r << ", place " << i;
        ASSERT_EQ(std::memcmp(&all[r].top[i].logit, &expected.top[i].logit, sizeof(float)), 0);
      }
      EXPECT_NEAR(all[r].log_sum_exp, expected.log_sum_exp, 1e-4);
    }
  }

  void expect_same(const std::vector<float>& logits, uint32_t width, const char* what) {
    SCOPED_TRACE(std::string(what) + ", width " + std::to_string(width));
    const auto all = find(logits, width);
    for (size_t r = 0; r < all.size(); r++) {
      RowCandidates expected;
      select_candidates(expected, std::span(logits).subspan(r * width, width));
      for (size_t i = 0; i < kCandidates; i++) {
        ASSERT_EQ(all[r].top[i].id, expected.top[i].id) << "row " << r << ", place " << i;
        ASSERT_EQ(std::memcmp(&all[r].top[i].logit, &expected.top[i].logit, sizeof(float)), 0);
      }
      if (std::isnan(expected.log_sum_exp)) {
        EXPECT_TRUE(std::isnan(all[r].log_sum_exp));
      } else {
        EXPECT_NEAR(all[r].log_sum_exp, expected.log_sum_exp, 1e-4);
      }
    }
  }
};

constexpr uint32_t kWidths[] = {1, 7, 255, 256, 257, 1003, 4096, 4097, 20001};

TEST_P(Candidates, OfNoiseAreTheHosts) {
  for (const uint32_t width : kWidths) expect_same(noise(2 * width, 5.0f), width, "noise");
}

TEST_P(Candidates, EqualLogitsGoByTheirIds) {
  for (const uint32_t width : kWidths) {
    std::vector<float> few(width), alike(width, -3.5f), rising(width);
    for (uint32_t i = 0; i < width; i++) {
      few[i] = i % 3 == 0 ? -0.0f : static_cast<float>(i % 3 - 1);
      rising[i] = static_cast<float>(i / 2);  // all candidates lie together
    }
    expect_same(few, width, "two values, and both zeros");
    expect_same(alike, width, "one value");
    expect_same(rising, width, "rising");
    // Fewer above the rest than there are candidates.
    for (uint32_t i = 0; i < width; i += 97) alike[i] = static_cast<float>(i);
    expect_same(alike, width, "one value and some above");
  }
}

TEST_P(Candidates, OfARowThatIsNotFiniteHaveNoSum) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (const uint32_t width : {700u, 9000u}) {
    for (const float bad : {kNan, kInfinity, -kInfinity}) {
      std::vector<float> logits = noise(width, 5.0f);
      logits[601] = bad;
      expect_same(logits, width, "one");
      for (uint32_t i = 0; i < width; i++) {
        if (i % 100 != 0) logits[i] = bad;
      }
      expect_same(logits, width, "nearly all");
      expect_same(std::vector<float>(width, bad), width, "all");
    }
  }
}

// From all tokens to one; with few of them the bound is no help, and among equal logits the ids decide.
TEST_P(Candidates, OfAllowedTokensAreTheHosts) {
  for (const uint32_t width : {1u, 65u, 257u, 4097u, 20001u}) {
    for (const uint32_t one_in : {1u, 3u, 40u, 1'000u, 100'000u}) {
      expect_same_allowed(noise(3 * width, 5.0f), width, one_in);
    }
    std::vector<float> few(width);
    for (uint32_t i = 0; i < width; i++) few[i] = static_cast<float>(i % 3);
    expect_same_allowed(few, width, 2);
  }
}

// What is not allowed is not looked at: neither a larger logit nor one that is no number.
TEST_P(Candidates, OtherTokensLeaveNoTrace) {
  constexpr uint32_t kWidth = 9000;
  std::vector<float> logits = noise(kWidth, 5.0f);
  for (uint32_t id = 0; id < kWidth; id++) {
    if (id % 40 != 0 && id != kWidth / 2) logits[id] = id % 3 == 0 ? 1e30f : std::numeric_limits<float>::quiet_NaN();
  }
  expect_same_allowed(logits, kWidth, 40);
}

INSTANTIATE_TEST_SUITE_P(, Candidates, testing::both_waves());

}  // namespace
}  // namespace rocmforge::gpu
