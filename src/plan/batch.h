#pragma once
// What one pass computes: rows of tokens from any number of sequences, each a run of consecutive positions.
//
//   rows      0 1 2 3 4 | 5 | 6 7 8          sequence a is in prefill, b decodes one token, c begins
//   position  0 1 2 3 4 | 9 | 0 1 2
//   outputs   . . . . x | x | . . x          rows whose logits are wanted, ascending

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kv/page.h"

namespace rocmforge {

struct BatchSequence {
  uint32_t first_row = 0;
  uint32_t n_rows = 0;
  uint32_t first_position = 0;
  std::span<const PageId> pages;  // cover positions [0, first_position + n_rows)
};

struct Batch {
  std::vector<TokenId> tokens;           // by row
  std::vector<BatchSequence> sequences;  // in row order, covering every row once
  std::vector<uint32_t> output_rows;     // ascending

  uint32_t n_rows() const { return static_cast<uint32_t>(tokens.size()); }
  uint32_t n_outputs() const { return static_cast<uint32_t>(output_rows.size()); }

  void clear();  // keeps the memory: the next batch is hardly larger
  // Adds the tokens of one sequence; `last_only`: logits for the last row, else for all.
  void add(std::span<const TokenId> sequence_tokens, uint32_t first_position, std::span<const PageId> pages,
           bool last_only = true);
};

// Whether rows, positions, pages and ids fit each other and the model: invalid_argument otherwise, naming the row.
Result<void> check_batch(const Batch& batch, uint32_t n_vocab, uint32_t n_context, uint32_t max_rows);

}  // namespace rocmforge
