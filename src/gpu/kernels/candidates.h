#pragma once
// Top-k candidates of rows of logits for the samplers (plan/candidates.h), found on the device by two kernels:
// candidate_groups reads every logit, with one block per chunk of a row; candidates, with one block per row, reads only
// the groups of logits that can contain a candidate. allowed_groups and allowed_candidates do the same for some rows,
// and of each for the tokens of a mask alone.

#include <cstdint>

#include "gpu/api.h"
#include "plan/candidates.h"

namespace rocmforge::gpu {

// A group is the set of logits that one thread of candidate_groups reads, kCandidateGroupsThreads apart.
inline constexpr uint32_t kCandidateGroupsThreads = 256;
inline constexpr uint32_t kLogitsOfAGroup = 16;
inline constexpr uint32_t kLogitsOfAChunk = kCandidateGroupsThreads * kLogitsOfAGroup;

struct ChunkSum {
  float largest;
  float sum;  // of e^(logit - largest)
};

struct CandidatesArgs {
  RowCandidates* out;    // n_rows
  const float* logits;   // n_rows x width
  uint32_t* group_keys;  // workspace, like `chunks`: n_rows x n_chunks x kCandidateGroupsThreads
  ChunkSum* chunks;      // n_rows x n_chunks
  uint32_t width;
  uint32_t n_chunks;  // n_candidate_chunks(width)
};

// A row of logits of which only some tokens count.
struct AllowedRow {
  uint32_t row;
  uint32_t n_allowed;  // at least one
};

constexpr uint32_t n_mask_words(uint32_t width) {
  return (width + 63) / 64 * 2;
}

struct AllowedCandidatesArgs {
  CandidatesArgs all;      // n_rows: those of `rows`; `logits` are all rows
  const AllowedRow* rows;  // n_rows
  const uint32_t* masks;   // n_rows x n_words: one bit per token
  uint32_t n_words;        // n_mask_words(width)
};

constexpr uint32_t n_candidate_chunks(uint32_t width) {
  return (width + kLogitsOfAChunk - 1) / kLogitsOfAChunk;
}

inline Grid candidate_groups_grid(uint32_t n_rows, const CandidatesArgs& args) {
  return {args.n_chunks, n_rows};
}

inline constexpr uint32_t kCandidatesThreads = 1024;

inline Grid candidates_grid(uint32_t n_rows) {
  return {n_rows};
}

}  // namespace rocmforge::gpu
